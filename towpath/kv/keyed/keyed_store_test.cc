// A KeyedStore on a disk in memory: by real threads, and by a device that does things in any order.
#include <atomic>
#include <map>
#include <random>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <towpath/kv/disk/shuffled_device_fixture.h>
#include <towpath/kv/disk/store_fixture.h>
#include <towpath/kv/keyed/keyed_store.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/sys/memory_file_system.h>

namespace towpath::kv {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Operation = KeyedStore::Operation;

class KeyedStoreTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { open(); }

  /// Another life. With the parameter, what is under way together is done in any order.
  void open(std::uint64_t capacity = std::uint64_t{1} << 30U) {
    store_.reset();
    std::unique_ptr<sys::FileDevice> device;
    if (GetParam()) device = std::make_unique<testing::ShuffledDevice>(++lives_);
    auto tier = DiskTier::open(files_,
                               {.directory = testing::kDirectory,
                                .segment_bytes = 1'000'000,
                                .capacity_bytes = capacity,
                                .incarnation = ++lives_,
                                .tier = 1},
                               std::move(device));
    ASSERT_TRUE(tier.ok()) << tier.status().to_string();
    tier_ = tier->get();
    auto made = KeyedStore::open(*std::move(tier));
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    store_ = *std::move(made);
  }

  /// Waits for the batch, as its user does: by the descriptor.
  std::vector<Status> take(KeyedStore::BatchId id) {
    while (!ended_.contains(id)) {
      pollfd descriptor{.fd = store_->fd(), .events = POLLIN, .revents = 0};
      EXPECT_EQ(::poll(&descriptor, 1, 20'000), 1) << "nothing has ended";
      if (::testing::Test::HasFailure()) return {};
      for (KeyedStore::Ended& one : store_->take_ended()) ended_[one.id] = std::move(one.statuses);
    }
    return std::move(ended_.extract(id).mapped());
  }
  std::vector<Code> run(Operation operation, std::vector<KeyedStore::Item> items) {
    std::vector<Code> codes;
    for (const Status& status : take(store_->submit(operation, std::move(items))))
      codes.push_back(status.code());
    return codes;
  }
  Code put(BlockKey key, Bytes bytes) { return run(Operation::put, {{key, bytes}}).at(0); }
  Code find(BlockKey key) { return run(Operation::find, {{key, {}}}).at(0); }
  Code remove(BlockKey key) { return run(Operation::remove, {{key, {}}}).at(0); }
  /// Empty: it was not there, or not well.
  Bytes get(BlockKey key, std::size_t length) {
    Bytes bytes(length);
    if (run(Operation::get, {{key, bytes}}).at(0) != Code::ok) bytes.clear();
    return bytes;
  }

  sys::MemoryFileSystem files_;
  std::uint64_t lives_ = 0;
  std::map<KeyedStore::BatchId, std::vector<Status>> ended_;
  DiskTier* tier_ = nullptr;  // the store's thread's, but for what a test knows to be at rest
  std::unique_ptr<KeyedStore> store_;
};

Bytes some_bytes(std::uint64_t which) { return testing::bytes_of_block(which); }

TEST_P(KeyedStoreTest, what_was_put_is_found_and_got_also_in_the_next_life) {
  const Bytes bytes = some_bytes(1);
  EXPECT_EQ(find({1, 2}), Code::not_found);
  EXPECT_EQ(put({1, 2}, bytes), Code::ok);
  EXPECT_EQ(find({1, 2}), Code::ok);
  EXPECT_EQ(get({1, 2}, bytes.size()), bytes);
  open();
  EXPECT_EQ(find({1, 2}), Code::ok);
  EXPECT_EQ(get({1, 2}, bytes.size()), bytes);
  EXPECT_EQ(store_->figures().loaded, 1U);
}

TEST_P(KeyedStoreTest, two_keys_that_agree_in_their_first_half_are_two) {
  EXPECT_EQ(put({1, 2}, some_bytes(1)), Code::ok);
  EXPECT_EQ(find({1, 3}), Code::not_found);
  EXPECT_TRUE(get({1, 3}, some_bytes(1).size()).empty());
  EXPECT_EQ(remove({1, 3}), Code::not_found);
  EXPECT_EQ(find({1, 2}), Code::ok);
  EXPECT_EQ(put({1, 3}, some_bytes(1)), Code::ok) << "the same bytes are not the same block";
  EXPECT_EQ(get({1, 3}, some_bytes(1).size()), some_bytes(1));
  EXPECT_EQ(find({1, 2}), Code::not_found) << "the later took its place";
}

TEST_P(KeyedStoreTest, other_bytes_under_a_key_take_the_place_of_those_before) {
  const BlockKey key{7, 7};
  EXPECT_EQ(put(key, some_bytes(1)), Code::ok);
  EXPECT_EQ(put(key, some_bytes(1)), Code::ok);
  EXPECT_EQ(store_->figures().already, 1U);
  EXPECT_EQ(put(key, some_bytes(2)), Code::ok);
  EXPECT_EQ(get(key, some_bytes(2).size()), some_bytes(2));
  open();
  EXPECT_EQ(get(key, some_bytes(2).size()), some_bytes(2));
}

TEST_P(KeyedStoreTest, each_item_of_a_batch_has_an_answer_of_its_own) {
  EXPECT_EQ(put({1, 1}, some_bytes(1)), Code::ok);
  EXPECT_EQ(put({3, 1}, some_bytes(3)), Code::ok);
  Bytes first(some_bytes(1).size()), second(10), third(10);
  EXPECT_THAT(run(Operation::get, {{{1, 1}, first}, {{2, 1}, second}, {{3, 1}, third}}),
              ElementsAre(Code::ok, Code::not_found, Code::invalid_argument));
  EXPECT_EQ(first, some_bytes(1));
  EXPECT_THAT(run(Operation::find, {}), ElementsAre());
  EXPECT_THAT(run(Operation::remove, {{{1, 1}, {}}, {{2, 1}, {}}}),
              ElementsAre(Code::ok, Code::not_found));
  EXPECT_EQ(find({1, 1}), Code::not_found);
  EXPECT_EQ(store_->figures().missing, 3U);
}

TEST_P(KeyedStoreTest, damaged_bytes_are_never_given) {
  EXPECT_EQ(put({1, 1}, some_bytes(1)), Code::ok);
  files_.inject({.on = sys::FileOp::read, .effect = sys::FileEffect::flip_bit, .bit = 10'007});
  Bytes bytes(some_bytes(1).size());
  const auto statuses = take(store_->submit(Operation::get, {{{1, 1}, bytes}}));
  EXPECT_EQ(statuses.at(0).code(), Code::corrupt) << statuses.at(0).to_string();
  EXPECT_EQ(find({1, 1}), Code::not_found);
  EXPECT_EQ(store_->figures().not_proven, 1U);
}

// The header of the segment that has the later bytes cannot be read, or what is behind it.
TEST_P(KeyedStoreTest, older_bytes_are_not_given_where_the_later_ones_cannot_be_read) {
  const BlockKey key{1, 1}, other{2, 2};
  for (const std::uint64_t read : {1U, 3U}) {
    const Bytes older = some_bytes(10 * read), later = some_bytes(10 * read + 1);
    EXPECT_EQ(put(key, older), Code::ok);
    EXPECT_EQ(put(other, older), Code::ok);
    open();
    EXPECT_EQ(put(key, later), Code::ok);
    const auto segments =
        files_.list(testing::kDirectory).value();  // the last name is the newest's
    store_.reset();
    EXPECT_TRUE(files_.remove(cat(testing::kDirectory, "/index")).ok()) << "it was never written";
    files_.inject({.on = sys::FileOp::read,
                   .nth = read,
                   .times = UINT64_MAX / 2,
                   .path_part = segments.back()});
    open();
    EXPECT_EQ(find(key), Code::not_found);
    EXPECT_TRUE(get(key, older.size()).empty());
    EXPECT_EQ(find(other), Code::not_found) << "it may have been removed";
    EXPECT_EQ(put(other, older), Code::ok);
    EXPECT_EQ(get(other, older.size()), older);
    files_.heal();
    open();
    EXPECT_EQ(get(key, later.size()), later) << "it can be read again";
    EXPECT_EQ(get(other, older.size()), older);
    EXPECT_EQ(remove(other), Code::ok);
  }
}

// The record of a removal is lost with the put that it was for, so the next put finds nothing to
// remove.
TEST_P(KeyedStoreTest, older_bytes_are_not_given_where_the_later_ones_are_damaged) {
  const BlockKey key{1, 1};
  EXPECT_EQ(put(key, some_bytes(1)), Code::ok);
  files_.inject({.on = sys::FileOp::sync, .effect = sys::FileEffect::lose});
  EXPECT_EQ(put(key, some_bytes(2)), Code::io_error);
  EXPECT_EQ(put(key, some_bytes(3)), Code::ok);
  const auto segments = files_.list(testing::kDirectory).value();
  store_.reset();
  EXPECT_TRUE(files_.remove(cat(testing::kDirectory, "/index")).ok());
  const auto later =
      files_.open(cat(testing::kDirectory, "/", segments.back()), {.writable = true}).value();
  EXPECT_TRUE(sys::write_exactly(*later, Bytes(10), 2 * kSegmentPage + 100).ok());
  open();
  EXPECT_EQ(find(key), Code::not_found);
  EXPECT_TRUE(get(key, some_bytes(1).size()).empty());
}

TEST_P(KeyedStoreTest, what_is_asked_for_stays_when_the_oldest_goes) {
  open(8'000'000);
  const auto length = [](std::uint64_t which) { return some_bytes(which).size(); };
  EXPECT_EQ(put({1, 1}, some_bytes(1)), Code::ok);
  for (std::uint64_t other = 2; other < 4000; ++other) {
    ASSERT_EQ(put({other, 1}, some_bytes(other)), Code::ok);
    if (other % 100 != 0) continue;
    ASSERT_EQ(get({1, 1}, length(1)), some_bytes(1)) << other;
  }
  EXPECT_EQ(find({2, 1}), Code::not_found);
  EXPECT_GT(store_->figures().put_again, 0U);
}

TEST_P(KeyedStoreTest, a_large_batch_goes_by_as_many_as_the_tier_takes) {
  std::vector<Bytes> blocks;
  std::vector<KeyedStore::Item> items;
  for (std::uint64_t which = 0; which < 3000; ++which) blocks.push_back(some_bytes(which));
  for (std::uint64_t which = 0; which < 3000; ++which) items.push_back({{which, 9}, blocks[which]});
  EXPECT_THAT(run(Operation::put, items), Each(Code::ok));
  std::vector<Bytes> got = blocks;
  for (std::uint64_t which = 0; which < 3000; ++which) {
    std::fill(got[which].begin(), got[which].end(), std::byte{});
    items[which].bytes = got[which];
  }
  EXPECT_THAT(run(Operation::get, items), Each(Code::ok));
  EXPECT_EQ(got, blocks);
}

TEST_P(KeyedStoreTest, puts_of_one_key_at_once_leave_one_of_them_whole) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 20; ++round) {
    std::vector<Bytes> blocks;
    for (int each = 0; each < 8; ++each) blocks.push_back(some_bytes(random() % 50));
    std::vector<KeyedStore::BatchId> ids;
    for (Bytes& block : blocks)
      ids.push_back(store_->submit(Operation::put, {{{1, 1}, block}, {{2, 1}, block}}));
    for (const auto id : ids)
      for (const Status& status : take(id)) EXPECT_TRUE(status.ok()) << status.to_string();
    if (round % 5 == 4) open();
    bool is_one = false;
    for (const Bytes& block : blocks) is_one = is_one || get({1, 1}, block.size()) == block;
    EXPECT_TRUE(is_one) << round;
  }
}

TEST_P(KeyedStoreTest, closed_in_the_middle_it_touches_nothing_afterwards) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Bytes> blocks(500, Bytes(4000));
    std::vector<KeyedStore::Item> items;
    for (std::uint64_t which = 0; which < blocks.size(); ++which)
      items.push_back({{which, 1}, blocks[which]});
    store_->submit(round % 2 == 0 ? Operation::put : Operation::get, items);
    open();
  }
}

TEST_P(KeyedStoreTest, a_block_that_no_segment_takes_is_refused_with_what_one_takes) {
  Bytes large(2'000'000);
  const auto statuses = take(store_->submit(Operation::put, {{{1, 1}, large}}));
  EXPECT_EQ(statuses.at(0).code(), Code::out_of_range);
  EXPECT_THAT(statuses.at(0).to_string(), HasSubstr("larger segments"));
  EXPECT_EQ(store_->figures().last_failure.code(), Code::out_of_range);
}

/// A map, whose blocks are all leaving; a get has its bytes at once, and may end later.
class LeavingTier final : public BlockTier {
 public:
  const std::string& name() const noexcept override { return name_; }
  TierIndex index() const noexcept override { return 1; }
  std::size_t depth() const noexcept override { return 4; }
  std::size_t put_depth() const noexcept override { return 4; }
  bool is_leaving(BlockHash hash) const override { return blocks_.contains(hash); }
  void begin(TierTask& task) override {
    if (task.kind == TierTask::Kind::put) {
      blocks_[task.hash] = {task.digest, {task.bytes.begin(), task.bytes.end()}};
      return task.end({});
    }
    const auto found = blocks_.find(task.hash);
    if (found == blocks_.end()) return task.end(error(Code::not_found, "no block"));
    task.digest = found->second.first;
    if (task.kind == TierTask::Kind::look) return task.end({});
    std::ranges::copy(found->second.second, task.bytes.begin());
    if (!keeps_gets) return task.end({});
    kept_ = &task;
  }
  bool progress() override {
    if (kept_ == nullptr || keeps_gets) return false;
    std::exchange(kept_, nullptr)->end({});
    return true;
  }
  Status remove(BlockHash hash) override { return blocks_.erase(hash), Status(); }

  std::atomic<bool> keeps_gets{false};

 private:
  const std::string name_ = "a test's";
  std::map<BlockHash, std::pair<Digest, Bytes>> blocks_;
  TierTask* kept_ = nullptr;
};

TEST_P(KeyedStoreTest, what_was_read_before_it_was_replaced_is_not_put_again) {
  auto tier = std::make_unique<LeavingTier>();
  LeavingTier& leaving = *tier;
  store_ = *KeyedStore::open(std::move(tier));
  const BlockKey key{1, 1};
  Bytes before = some_bytes(1), bytes(before.size());
  EXPECT_EQ(put(key, before), Code::ok);
  leaving.keeps_gets = true;
  const auto read = store_->submit(Operation::get, {{key, bytes}});
  EXPECT_EQ(put(key, some_bytes(2)), Code::ok);
  leaving.keeps_gets = false;
  EXPECT_TRUE(take(read).at(0).ok());
  EXPECT_EQ(get(key, some_bytes(2).size()), some_bytes(2));
}

INSTANTIATE_TEST_SUITE_P(All, KeyedStoreTest, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "in_any_order" : "in_order"; });

}  // namespace
}  // namespace towpath::kv
