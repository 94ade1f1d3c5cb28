// What stays of the regions that a peer advertised when the next one comes.
#include <algorithm>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/remote_regions.h>
#include <towpath/core/format.h>

namespace towpath::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kHere[] = {2, 5};                  // both backends of the metadata are here
constexpr std::size_t kOneIsNot[] = {2, kMaxInstances};  // the second is not
constexpr InstanceMask kBoth = instance_bit(2) | instance_bit(5);

struct Reported {
  std::uint64_t address = 0;
  std::string key = "key";
  std::string other_key = "other";
  std::string object = "";
};

RemoteRegions metadata(const std::vector<Reported>& advertised,
                       std::span<const std::size_t> instances = kHere) {
  RemoteRegions regions;
  for (const Reported& one : advertised) {
    regions.add({.region = {.address = one.address, .length = 64, .key = one.object},
                 .keys = {{0, to_bytes(one.key)}, {1, to_bytes(one.other_key)}}});
  }
  regions.finish(instances, kBoth);
  return regions;
}

RecordPtr find(RemoteRegions& in, std::uint64_t address) {
  return record_of(in.find(MemoryKind::system, {address, 64, 0}));
}
/// Those that were made.
std::vector<const MemoryRecord*> records_of(const RemoteRegions& in) {
  std::vector<const MemoryRecord*> made;
  in.each_record([&](MemoryRecord& record) { made.push_back(&record); });
  return made;
}
std::string_view key_of(RemoteRegions& in, std::uint64_t address, std::size_t instance) {
  return as_text(in.key_of(*in.find(MemoryKind::system, {address, 64, 0}), instance));
}

TEST(RemoteRegionsTest, a_record_is_made_of_what_is_asked_for) {
  RemoteRegions regions = metadata({{.address = 0}, {.address = 64, .key = "longer key"}});
  EXPECT_THAT(records_of(regions), IsEmpty());
  const RecordPtr record = find(regions, 64);
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(find(regions, 64), record);
  EXPECT_EQ(to_string(record->region), "system [0x40, +64) device 0");
  EXPECT_EQ(key_of(regions, 64, 2), "longer key");
  EXPECT_EQ(key_of(regions, 64, 5), "other");
  EXPECT_EQ(record->offered, kBoth);
  EXPECT_THAT(records_of(regions), ElementsAre(record.get()));
  EXPECT_EQ(find(regions, 128), nullptr);
  EXPECT_EQ(regions.size(), 2U);
}

TEST(RemoteRegionsTest, of_what_is_advertised_twice_the_first_counts) {
  RemoteRegions regions =
      metadata({{.address = 64}, {.address = 0, .key = "first"}, {.address = 0}});
  EXPECT_EQ(regions.size(), 2U);
  EXPECT_EQ(key_of(regions, 0, 2), "first");
}

TEST(RemoteRegionsTest, a_full_metadata_replaces_and_what_it_advertises_unchanged_stays) {
  RemoteRegions regions = metadata({{.address = 0}, {.address = 64}, {.address = 128}});
  const RecordPtr stays = find(regions, 0);
  const RecordPtr changes = find(regions, 64);
  const RecordPtr goes = find(regions, 128);
  const auto gone = regions.update(
      metadata({{.address = 64, .key = "anew"}, {.address = 0}, {.address = 192}}), false);
  EXPECT_THAT(gone, ::testing::UnorderedElementsAre(changes, goes));
  EXPECT_TRUE(changes->stale);
  EXPECT_TRUE(goes->stale);
  EXPECT_FALSE(stays->stale);
  EXPECT_EQ(find(regions, 0), stays);
  EXPECT_EQ(key_of(regions, 64, 2), "anew");
  EXPECT_EQ(find(regions, 128), nullptr);
  EXPECT_NE(find(regions, 192), nullptr);
}

TEST(RemoteRegionsTest, a_partial_metadata_adds) {
  RemoteRegions regions = metadata({{.address = 0, .key = "zero"}, {.address = 64}});
  const RecordPtr changes = find(regions, 64);
  const auto gone =
      regions.update(metadata({{.address = 64, .other_key = "anew"}, {.address = 128}}), true);
  EXPECT_THAT(gone, ElementsAre(changes));
  EXPECT_EQ(regions.size(), 3U);
  EXPECT_EQ(key_of(regions, 0, 2), "zero");
  EXPECT_EQ(key_of(regions, 64, 5), "anew");
  EXPECT_EQ(key_of(regions, 128, 5), "other");
}

TEST(RemoteRegionsTest, keys_of_backends_that_are_not_here_change_nothing) {
  RemoteRegions regions = metadata({{.address = 0}}, kOneIsNot);
  const RecordPtr stays = find(regions, 0);
  EXPECT_EQ(stays->offered, instance_bit(2));
  EXPECT_THAT(
      regions.update(metadata({{.address = 0, .other_key = "of no use"}}, kOneIsNot), false),
      IsEmpty());
  EXPECT_EQ(find(regions, 0), stays);
}

TEST(RemoteRegionsTest, a_record_stays_that_more_backends_have_a_key_of) {
  RemoteRegions regions = metadata({{.address = 0}}, kOneIsNot);
  const RecordPtr stays = find(regions, 0);
  stays->unasked = 0;
  EXPECT_THAT(regions.update(metadata({{.address = 0}}), false), IsEmpty());
  EXPECT_EQ(find(regions, 0), stays);
  EXPECT_FALSE(stays->stale);
  EXPECT_EQ(stays->offered, kBoth);
  EXPECT_EQ(stays->unasked, instance_bit(5)) << "the other was asked already";
  EXPECT_EQ(key_of(regions, 0, 5), "other");
}

TEST(RemoteRegionsTest, regions_of_one_place_differ_by_their_objects) {
  RemoteRegions regions = metadata({{.address = 0, .object = "b"}, {.address = 0, .object = "a"}});
  EXPECT_EQ(regions.size(), 2U);
  EXPECT_EQ(key_of(regions, 0, 2), "key");
  EXPECT_THAT(regions.update(metadata({{.address = 0, .object = "a"}}), false),
              ::testing::SizeIs(1));
}

TEST(RemoteRegionsTest, agrees_with_a_plain_map_whatever_is_advertised) {
  std::mt19937_64 random(11);
  RemoteRegions regions;
  std::map<std::uint64_t, std::pair<std::string, RecordPtr>> plain;  // address: keys, record
  for (int step = 0; step < 400; ++step) {
    std::map<std::uint64_t, Reported> advertised;
    for (std::uint64_t i = random() % 20; i > 0; --i) {
      const std::uint64_t address = 64 * (random() % 24);
      advertised[address] = {.address = address,
                             .key = std::string(random() % 3, 'k'),
                             .other_key = cat("other", random() % 2)};
    }
    const bool partial = random() % 2 == 0;
    std::vector<Reported> rows;
    for (const auto& [address, one] : advertised) rows.push_back(one);
    std::ranges::shuffle(rows, random);
    const auto gone = regions.update(metadata(rows), partial);

    std::size_t expected_gone = 0;
    for (auto it = plain.begin(); it != plain.end();) {
      const auto again = advertised.find(it->first);
      const bool same = again != advertised.end() &&
                        it->second.first == again->second.key + again->second.other_key;
      const bool stays = same || (partial && again == advertised.end());
      if (!stays && it->second.second) ++expected_gone;
      it = stays ? std::next(it) : plain.erase(it);
    }
    for (const Reported& one : rows)
      plain.try_emplace(one.address, one.key + one.other_key, nullptr);
    ASSERT_EQ(gone.size(), expected_gone) << "step " << step;
    ASSERT_EQ(regions.size(), plain.size()) << "step " << step;
    for (auto& [address, known] : plain) {
      if (random() % 2 == 0) continue;
      const RecordPtr record = find(regions, address);
      ASSERT_NE(record, nullptr) << "step " << step;
      if (known.second) {
        ASSERT_EQ(record, known.second) << "step " << step;
      }
      known.second = record;
      ASSERT_EQ(cat(key_of(regions, address, 2), key_of(regions, address, 5)), known.first);
    }
  }
}

}  // namespace
}  // namespace towpath::agent
