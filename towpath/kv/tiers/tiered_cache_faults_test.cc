// What disks, memory and the ends of processes do to a TieredCache: it never serves a wrong block.
#include <cerrno>
#include <functional>
#include <map>
#include <random>
#include <set>

#include <gmock/gmock.h>

#include <towpath/device/host/host_driver.h>
#include <towpath/device/testing/watched_device.h>
#include <towpath/kv/tiers/cache_fixture.h>

namespace towpath::kv {
namespace {

using sys::FileEffect;
using sys::FileOp;
using testing::CacheFixture;

constexpr std::uint64_t kAlways = UINT64_MAX / 2;

class TieredCacheFaultsTest : public CacheFixture {
 protected:
  using Strike = std::function<void(std::mt19937_64&)>;
  void play(const Strike& strike);
};

TEST_F(TieredCacheFaultsTest, a_flipped_bit_on_disk_costs_exactly_that_block) {
  open();
  make_all(1, 4);
  ASSERT_TRUE(cache_->flush().ok());
  evict_all();
  files_.inject({.on = FileOp::read, .nth = 2, .effect = FileEffect::flip_bit, .bit = 1001});
  EXPECT_TRUE(promote(1).ok());
  EXPECT_EQ(promote(2).code(), Code::corrupt);
  EXPECT_EQ(promote(2).code(), Code::not_found) << "quarantined: from now on a miss";
  EXPECT_TRUE(promote(3).ok());
  EXPECT_EQ(cache_->figures().quarantined.at("disk, coming up"), 1U);
  EXPECT_EQ(cache_->figures().below[0].failed.at("get: corrupt"), 1U);
  (void)make(2);
  ASSERT_TRUE(cache_->flush().ok());
  EXPECT_TRUE(is_on_disk(2)) << "made anew, it goes down again";
}

TEST_F(TieredCacheFaultsTest, bytes_that_were_overwritten_in_the_host_never_reach_the_disk) {
  open();
  {
    const BlockRef block = make(1);
    (*cache_->layout().bytes({block.slot(), 3, 1}))[5] ^= std::byte{1};
  }
  (void)make(2);
  EXPECT_TRUE(cache_->flush().ok());
  EXPECT_EQ(block_directory_->tiers_of(1), 0U) << "nor are they served from the host";
  EXPECT_TRUE(is_on_disk(2));
  EXPECT_EQ(cache_->figures().quarantined.at("host, going down"), 1U);
}

TEST_F(TieredCacheFaultsTest, a_full_disk_rests_and_the_host_serves_on) {
  open({.batch_at_least = 1, .rest = std::chrono::seconds(1)});
  make_all(1, 2);
  ASSERT_TRUE(cache_->flush().ok());
  files_.inject({.on = FileOp::write, .times = kAlways, .errno_value = ENOSPC});
  make_all(3, 5);
  EXPECT_EQ(cache_->flush().code(), Code::exhausted);
  const auto calls = files_.calls(FileOp::write);
  EXPECT_FALSE(cache_->progress()) << "a disk that is full is left alone for a while";
  EXPECT_EQ(files_.calls(FileOp::write), calls);
  EXPECT_EQ(cache_->figures().below[0].failed.at("put: exhausted"), 1U);
  EXPECT_EQ(cache_->match(std::vector<BlockHash>{3, 4, 5}).here.size(), 3U);
  files_.heal();
  clock_.advance(std::chrono::seconds(1));
  while (cache_->progress()) {
  }
  EXPECT_TRUE(is_on_disk(3) && is_on_disk(5))
      << "what failed was offered again when it was matched";
}

TEST_F(TieredCacheFaultsTest, a_disk_that_can_only_be_read_still_gives_its_blocks) {
  open();
  make_all(1, 3);
  ASSERT_TRUE(cache_->flush().ok());
  cache_.reset();
  files_.inject({.on = FileOp::open, .times = kAlways, .errno_value = EROFS, .path_part = "0002"});
  open();
  EXPECT_FALSE(disk_->store().read_only().ok());
  (void)make(4);
  EXPECT_EQ(cache_->flush().code(), Code::denied);
  for (BlockHash hash = 1; hash <= 3; ++hash) EXPECT_TRUE(promote(hash).ok()) << hash;
}

TEST_F(TieredCacheFaultsTest, after_a_failed_sync_nothing_of_the_batch_is_said_to_be_there) {
  open();
  make_all(1, 2);
  files_.inject({.on = FileOp::sync});
  EXPECT_EQ(cache_->flush().code(), Code::io_error);
  EXPECT_FALSE(is_on_disk(1) || is_on_disk(2));
  EXPECT_EQ(cache_->figures().below[0].demoted, 0U);
  clock_.advance(std::chrono::seconds(2));
  (void)cache_->match(std::vector<BlockHash>{1, 2});
  EXPECT_TRUE(cache_->flush().ok());
  EXPECT_TRUE(is_on_disk(1) && is_on_disk(2));
}

TEST_F(TieredCacheFaultsTest, a_flush_keeps_what_was_given_up_before) {
  open({.most_waiting_demotions = 2, .batch_at_least = 1});
  files_.inject({.on = FileOp::sync});
  (void)make(1);
  EXPECT_EQ(cache_->flush().code(), Code::io_error);
  clock_.advance(std::chrono::seconds(2));
  make_all(2, 5);  // more than may wait
  EXPECT_EQ(cache_->figures().given_up, 2U);
  EXPECT_TRUE(cache_->flush().ok());
  for (BlockHash hash = 1; hash <= 5; ++hash) EXPECT_TRUE(is_on_disk(hash)) << hash;
}

std::set<BlockHash> said_to_be_on_disk(const BlockDirectory& block_directory) {
  std::set<BlockHash> there;
  for (const BlockEvent& event : block_directory.snapshot())
    if (event.tier == 1) there.insert(event.hash);
  return there;
}

// The process dies at each of its writes in turn, with and without the machine.
TEST_F(TieredCacheFaultsTest,
       dying_at_any_write_loses_nothing_said_to_be_there_and_serves_nothing_wrong) {
  for (const bool power_lost : {false, true}) {
    for (std::uint64_t write = 3;; ++write) {
      empty_the_disk();
      open({.batch_blocks = 3, .batch_at_least = 1});
      const std::uint64_t before = files_.calls(FileOp::write);
      files_.inject({.on = FileOp::write, .nth = write, .effect = FileEffect::stop, .bytes = 77});
      files_.inject({.on = FileOp::write, .nth = write + 1, .times = kAlways});
      make_all(1, 7);
      (void)cache_->flush();
      make_all(8, 12);
      (void)cache_->flush();
      const auto said = said_to_be_on_disk(*block_directory_);
      const bool survived = files_.calls(FileOp::write) - before < write;
      files_.heal();
      if (power_lost) files_.crash();
      open();
      for (BlockHash hash = 1; hash <= 12; ++hash) {
        const Status came = promote(hash);  // fails the test when bytes are wrong
        ASSERT_TRUE(came.ok() || !said.contains(hash))
            << "at write " << write << ", block " << hash << ": " << came.to_string();
      }
      cache_.reset();
      if (survived) break;
      ASSERT_LT(write, 500U) << "it never comes to an end";
    }
  }
}

/// What the world knows: which blocks were made, so that a promotion of any other must fail.
struct World {
  std::set<BlockHash> made;
  std::vector<BlockRef> held;
};

void strike_files(sys::MemoryFileSystem& files, std::mt19937_64& random) {
  switch (random() % 5) {
    case 0:
      files.inject({.on = FileOp::read, .effect = FileEffect::flip_bit, .bit = random() % 5000});
      break;
    case 1:
      files.inject({.on = FileOp::write, .effect = FileEffect::torn, .bytes = random() % 300});
      break;
    case 2: files.inject({.on = FileOp::write, .errno_value = ENOSPC}); break;
    case 3: files.inject({.on = FileOp::sync}); break;
    default: files.inject({.on = FileOp::read}); break;
  }
}

void strike_device(device::testing::DeviceHands& hands, std::mt19937_64& random) {
  switch (random() % 3) {
    case 0: hands.fail_batches = 1; break;
    case 1: hands.fail_events = 1; break;
    default: hands.spoil_arrivals = 1; break;
  }
}

// Against what must hold whatever happens: a block that is served is right, and what was never made
// is not there.
void TieredCacheFaultsTest::play(const Strike& strike) {
  const testing::CacheShape shape{.slots = 12, .segment_bytes = 40'000, .capacity_bytes = 200'000};
  const TieredCacheOptions options{.batch_blocks = 5, .batch_at_least = 2};
  std::mt19937_64 random(21);
  RecordProperty("seed", 21);
  World world;
  int came_up = 0, failed = 0;
  open(options, shape);
  for (int step = 0; step < 30'000; ++step) {
    const BlockHash hash = 1 + random() % 60;
    switch (random() % 10) {
      case 0:
      case 1:
        if (BlockRef block = make(hash)) {
          world.made.insert(hash);
          if (world.held.size() < 6) world.held.push_back(std::move(block));
        }
        break;
      case 2:
      case 3: (void)cache_->progress(); break;
      case 4: {
        const bool there = block_directory_->tiers_of(hash) != 0;
        const Status came = promote(hash);
        ASSERT_TRUE(!came.ok() || world.made.contains(hash)) << "step " << step;
        if (came.ok()) came_up += there ? 1 : 0;
        if (there && !came.ok()) ++failed;
        break;
      }
      case 5:
        for (const BlockRef& block : cache_->match(std::vector<BlockHash>{hash, hash + 1}).here)
          expect_right(block, block.hash());
        break;
      case 6:
        if (!world.held.empty()) world.held.pop_back();
        break;
      case 7:
        if (random() % 20 == 0) strike(random);
        break;
      case 8:
        clock_.advance(std::chrono::milliseconds(300));
        if (random() % 100 == 0) cache_->drop(hash);
        break;
      default:
        if (random() % 1000 != 0) break;
        world.held.clear();
        files_.heal();
        if (random() % 2 == 0) files_.crash();
        open(options, shape);
    }
    ASSERT_FALSE(HasFailure()) << "step " << step << " of seed 21";
  }
  EXPECT_GT(lives_, 2U);
  EXPECT_GT(came_up, 10 * failed) << "few are harmed, and all others come";
  EXPECT_GT(failed, 0) << "the faults strike";
}

TEST_F(TieredCacheFaultsTest, serves_only_what_was_made_over_thousands_of_seeded_steps) {
  play([&](std::mt19937_64& random) { strike_files(files_, random); });
}

TEST_F(TieredCacheFaultsTest, serves_only_what_was_made_from_a_device_whose_copies_fail) {
  ManualClock device_clock;
  const auto hands = std::make_shared<device::testing::DeviceHands>();
  device_ = std::make_shared<device::testing::WatchedDevice>(
      device::HostDriver(device_clock).open(0).value(), hands);
  play([&](std::mt19937_64& random) {
    random() % 2 == 0 ? strike_files(files_, random) : strike_device(*hands, random);
  });
  cache_.reset();  // before the clock
}

}  // namespace
}  // namespace towpath::kv
