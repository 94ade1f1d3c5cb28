// What a tier of objects makes of a store's list that is long, endless, or never comes. Without a
// store.
#include <functional>
#include <utility>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/kv/tiers/object_index.h>
#include <towpath/kv/tiers/object_life_fixture.h>

namespace towpath::kv {
namespace {

/// Lists what the test says, and removes nothing.
class ScriptedBucket final : public ObjectBucket {
 public:
  using Answer = std::function<Result<BucketPage>(const std::string& next)>;
  /// No answer: it keeps silent.
  explicit ScriptedBucket(Answer answer) : answer_(std::move(answer)) {}

  void list(const std::string&, const std::string& next, Listed listed) override {
    next_ = next;
    listed_ = std::move(listed);
  }
  void remove(const std::string&, Removed) override {}
  bool progress() override {
    if (!answer_ || !listed_) return false;
    std::exchange(listed_, nullptr)(answer_(next_));
    return true;
  }

 private:
  const Answer answer_;
  std::string next_;
  Listed listed_;
};

struct ListedStore {
  static constexpr std::uint64_t kObjectBytes = 8192;

  explicit ListedStore(ScriptedBucket::Answer answer)
      : index(*ObjectIndex::make(std::make_unique<ScriptedBucket>(std::move(answer)),
                                 {.prefix = "p/",
                                  .object_bytes = kObjectBytes,
                                  .bound_bytes = 4 * kObjectBytes,
                                  .block_directory = &directory,
                                  .tier = 1})) {}
  /// Whether a put may go in the end.
  Status admit() {
    constexpr int kTurns = 200'000;
    for (int turn = 0; turn < kTurns; ++turn) {
      (void)index->progress();
      const Result<bool> may = index->admit(1, place);
      if (!may.ok() || *may) return may.status();
    }
    return error(Code::internal, "the list has no end");
  }

  BlockDirectory directory;
  std::unique_ptr<ObjectIndex> index;
  ObjectIndex::Place place;
};

TEST(ObjectIndexTest, only_blocks_of_this_shape_are_kept_of_a_list) {
  const auto named = [](std::string key, std::uint64_t bytes) {
    return BucketObject{.key = std::move(key), .bytes = bytes, .modified = "2026-11-29"};
  };
  ListedStore listed([&](const std::string& next) -> Result<BucketPage> {
    if (next.empty())
      return BucketPage{.objects = {named("p/" + object_digits(7), ListedStore::kObjectBytes),
                                    named("p/another", ListedStore::kObjectBytes)},
                        .next = "second"};
    return BucketPage{.objects = {named("p/" + object_digits(8), 100)}, .next = {}};
  });
  EXPECT_TRUE(listed.admit().ok());
  EXPECT_EQ(listed.directory.tiers_of(7), 0b10U);
  EXPECT_EQ(listed.directory.tiers_of(8), 0U);
  EXPECT_EQ(listed.index->room().blocks, 1U);
}

TEST(ObjectIndexTest, a_list_that_goes_on_where_it_was_asked_to_go_on_is_refused) {
  bool is_broken = true;
  ListedStore listed([&](const std::string&) -> Result<BucketPage> {
    return BucketPage{.objects = {}, .next = is_broken ? "again" : ""};
  });
  EXPECT_EQ(listed.admit().code(), Code::corrupt);
  is_broken = false;
  listed.index->begin_put();
  EXPECT_TRUE(listed.admit().ok()) << "it was asked anew";
}

TEST(ObjectIndexTest, a_list_without_an_end_is_given_up) {
  std::uint64_t pages = 0;
  ListedStore listed([&](const std::string&) -> Result<BucketPage> {
    return BucketPage{.objects = {}, .next = cat(++pages)};
  });
  EXPECT_EQ(listed.admit().code(), Code::exhausted);
}

TEST(ObjectIndexTest, a_put_waits_no_longer_for_a_list_than_its_timeout) {
  testing::Life life({{"endpoint_override", "http://127.0.0.1:1"}, {"bucket", "unused"}}, "p",
                     std::chrono::milliseconds(20), 4, std::make_unique<ScriptedBucket>(nullptr));
  life.make(1);
  EXPECT_EQ(life.cache->flush().code(), Code::timed_out);
}

}  // namespace
}  // namespace towpath::kv
