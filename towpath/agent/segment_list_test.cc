#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/segment_list.h>
#include <towpath/core/format.h>

namespace towpath::agent {
namespace {

class FakeMemory final : public backend::Memory {};

/// Regions of 1 MiB each, one every 16 MiB.
class FakeRegions final : public ResolvedList::Resolver {
 public:
  static constexpr std::uint64_t kSize = 1 << 20;
  explicit FakeRegions(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto record = std::make_shared<MemoryRecord>();
      record->region = {.address = base(i), .length = kSize};
      record->memory[0] = std::make_unique<FakeMemory>();
      record->instances = 1;
      records.push_back(std::move(record));
    }
  }
  static std::uint64_t base(std::size_t i) { return (i + 1) << 24U; }

  Result<RecordPtr> resolve(MemoryKind kind, const Descriptor& what) override {
    ++lookups;
    for (const RecordPtr& record : records) {
      if (record->region.covers(what)) return record;
    }
    return error(Code::not_found, cat(to_string(kind, what), " is not registered"));
  }

  std::vector<RecordPtr> records;
  int lookups = 0;
};

ResolvedList resolve(const DescriptorList& list, FakeRegions& regions) {
  auto resolved = ResolvedList::make(list, regions);
  EXPECT_TRUE(resolved.ok()) << resolved.status().to_string();
  return *std::move(resolved);
}

DescriptorList blocks(std::uint64_t base, std::uint64_t length, std::uint64_t stride,
                      std::uint64_t count) {
  DescriptorList list(MemoryKind::system);
  for (std::uint64_t i = 0; i < count; ++i)
    EXPECT_TRUE(list.add(Descriptor{base + i * stride, length, 0}).ok());
  return list;
}

TEST(ResolvedListTest, equal_distances_fold_into_one_entry_however_they_were_given) {
  FakeRegions regions(1);
  const auto base = FakeRegions::base(0);
  const auto plain = resolve(blocks(base, 16, 64, 1000), regions);
  DescriptorList strided(MemoryKind::system);
  ASSERT_TRUE(strided.add(StridedDescriptor{base, 16, 64, 1000, 0}).ok());
  const auto compact = resolve(strided, regions);
  ASSERT_EQ(plain.entry_count(), 1U);
  ASSERT_EQ(compact.entry_count(), 1U);
  EXPECT_EQ(plain.entry(0).count, compact.entry(0).count);
  EXPECT_EQ(plain.size(), 1000U);
  EXPECT_EQ(regions.lookups, 2) << "one look-up for a thousand neighbours";
}

TEST(ResolvedListTest, a_extent_outside_of_every_region_is_named) {
  FakeRegions regions(1);
  auto list = blocks(FakeRegions::base(0), 16, 64, 3);
  ASSERT_TRUE(list.add(Descriptor{5, 16, 0}).ok());
  const auto failed = ResolvedList::make(list, regions);
  EXPECT_EQ(failed.code(), Code::not_found);
  EXPECT_THAT(std::string(failed.status().message()), testing::HasSubstr("descriptor 3:"));
}

TEST(ResolvedListTest, a_strided_descriptor_may_cross_regions_extent_by_extent) {
  FakeRegions regions(3);
  DescriptorList list(MemoryKind::system);
  ASSERT_TRUE(list.add(StridedDescriptor{FakeRegions::base(0), 16, 1 << 24, 3, 0}).ok());
  const auto resolved = resolve(list, regions);
  EXPECT_EQ(resolved.records().size(), 3U);
  EXPECT_EQ(resolved.size(), 3U);
}

// By its extents it would take hours.
TEST(ResolvedListTest, a_strided_descriptor_crosses_regions_at_the_cost_of_the_regions) {
  FakeRegions regions(2);
  constexpr std::uint64_t kCount = std::uint64_t{1} << 40U;
  const std::uint64_t begin = FakeRegions::base(0);
  regions.records[1]->region = {.address = begin + FakeRegions::kSize, .length = 2 * kCount};
  DescriptorList list(MemoryKind::system);
  ASSERT_TRUE(list.add(StridedDescriptor{begin, 1, 2, kCount, 0}).ok());
  const auto resolved = resolve(list, regions);
  EXPECT_EQ(resolved.size(), kCount);
  ASSERT_EQ(resolved.entry_count(), 2U);
  EXPECT_EQ(resolved.entry(0).count, FakeRegions::kSize / 2);
  EXPECT_EQ(resolved.entry(1).address, begin + FakeRegions::kSize);
  EXPECT_EQ(resolved.entry(1).stride, 2U);
}

TEST(ResolvedListTest, a_strided_descriptor_that_leaves_a_region_is_named_by_its_extent) {
  FakeRegions regions(1);
  DescriptorList list(MemoryKind::system);
  ASSERT_TRUE(list.add(Descriptor{FakeRegions::base(0), 16, 0}).ok());
  const std::uint64_t last = FakeRegions::base(0) + FakeRegions::kSize - 64;
  ASSERT_TRUE(list.add(StridedDescriptor{last, 32, 32, 3, 0}).ok());
  const auto failed = ResolvedList::make(list, regions);
  EXPECT_THAT(std::string(failed.status().message()), testing::HasSubstr("descriptor 3:"));
}

std::vector<Descriptor> plain(const DescriptorList& list) {
  std::vector<Descriptor> all;
  for (std::uint64_t i = 0; i < list.size(); ++i) all.push_back(list.at(i));
  return all;
}

void expect_equal(const ResolvedList& a, const ResolvedList& b) {
  const auto advertised = [](const ResolvedEntry& entry) {
    return std::tuple(entry.address, entry.length, entry.count > 1 ? entry.stride : 0, entry.count,
                      entry.record);
  };
  ASSERT_EQ(a.entry_count(), b.entry_count());
  for (std::size_t i = 0; i < a.entry_count(); ++i)
    ASSERT_EQ(advertised(a.entry(i)), advertised(b.entry(i))) << i;
  EXPECT_EQ(a.size(), b.size());
  EXPECT_EQ(a.total_bytes(), b.total_bytes());
  EXPECT_EQ(a.is_disjoint(), b.is_disjoint());
  EXPECT_EQ(a.records().size(), b.records().size());
  for (std::uint64_t i = 0; i < a.size(); ++i) ASSERT_EQ(a.entry_of(i), b.entry_of(i)) << i;
  for (std::size_t i = 0; i < a.entry_count(); ++i)
    ASSERT_EQ(a.first_index(i), b.first_index(i)) << i;
}

TEST(ResolvedListTest, extents_of_4_gib_and_more_keep_their_lengths) {
  constexpr std::uint64_t kLong = (std::uint64_t{1} << 32U) + 5;
  FakeRegions regions(1);
  regions.records[0]->region = {.address = 0, .length = 16 * kLong};
  const std::vector<Descriptor> list{{9 * kLong, kLong, 0}, {0, 7, 0}, {4 * kLong, kLong, 0}};
  const auto resolved = ResolvedList::make({MemoryKind::system, list}, regions);
  ASSERT_TRUE(resolved.ok());
  EXPECT_TRUE(resolved->flat().empty());
  ASSERT_EQ(resolved->size(), list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    EXPECT_EQ(resolved->entry(i).length, list[i].length);
  DescriptorList by_entry(MemoryKind::system, list);
  EXPECT_EQ(resolve(by_entry, regions).entry(2).length, kLong);
}

TEST(ResolvedListTest, what_takes_the_room_of_another_list_has_nothing_of_it) {
  FakeRegions regions(3);
  DescriptorList uneven(MemoryKind::system);
  for (std::uint64_t i : {7, 1, 4, 2, 9, 3})
    ASSERT_TRUE(uneven.add(Descriptor{FakeRegions::base(i % 3) + 100 * i, 16, 0}).ok());
  DescriptorList runs(MemoryKind::system);
  ASSERT_TRUE(runs.add(StridedDescriptor{FakeRegions::base(0), 8, 16, 50, 0}).ok());
  ASSERT_TRUE(runs.add(StridedDescriptor{FakeRegions::base(1), 8, 32, 20, 0}).ok());
  ResolvedList list;
  for (const DescriptorList& next : {uneven, runs, DescriptorList(MemoryKind::disk), uneven}) {
    ASSERT_TRUE(list.assign({next.kind(), plain(next)}, regions).ok());
    expect_equal(list, resolve(next, regions));
  }
}

TEST(ResolvedListTest, is_the_same_of_plain_descriptors) {
  FakeRegions regions(2);
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    DescriptorList list(MemoryKind::system);
    const std::uint64_t runs = random() % 6;
    for (std::uint64_t run = 0; run < runs; ++run) {
      const std::uint64_t base = FakeRegions::base(random() % 2) + random() % 4096;
      const std::uint64_t stride = 8 * (1 + random() % 8);
      const std::uint64_t count = 1 + random() % (round % 2 == 0 ? 3 : 20);
      for (std::uint64_t k = 0; k < count; ++k)
        ASSERT_TRUE(list.add(Descriptor{base + k * stride, 8 * (1 + random() % 2), 0}).ok());
    }
    const auto direct = ResolvedList::make({MemoryKind::system, plain(list)}, regions);
    ASSERT_TRUE(direct.ok()) << direct.status().to_string();
    expect_equal(*direct, resolve(list, regions));
  }
}

TEST(ResolvedListTest, plain_descriptors_are_named_when_they_are_wrong) {
  FakeRegions regions(1);
  const auto failed = [&](Descriptor second) {
    const std::array both = {Descriptor{FakeRegions::base(0), 16, 0}, second};
    return ResolvedList::make({MemoryKind::system, both}, regions).status();
  };
  EXPECT_EQ(failed({5, 16, 0}).code(), Code::not_found);
  EXPECT_THAT(std::string(failed({5, 16, 0}).message()), testing::HasSubstr("descriptor 1"));
  EXPECT_EQ(failed({FakeRegions::base(0), 16, 3}).code(), Code::not_found) << "another device";
  EXPECT_EQ(failed({FakeRegions::base(0) + FakeRegions::kSize, 1, 0}).code(), Code::not_found);
  EXPECT_EQ(failed({UINT64_MAX, 16, 0}).code(), Code::out_of_range);
}

TEST(ResolvedListTest, knows_when_its_extents_lie_apart) {
  FakeRegions regions(1);
  const auto base = FakeRegions::base(0);
  EXPECT_TRUE(resolve(blocks(base, 64, 64, 10), regions).is_disjoint());
  EXPECT_FALSE(resolve(blocks(base, 65, 64, 10), regions).is_disjoint());
  DescriptorList interleaved(MemoryKind::system);
  ASSERT_TRUE(interleaved.add(StridedDescriptor{base, 16, 64, 10, 0}).ok());
  ASSERT_TRUE(interleaved.add(StridedDescriptor{base + 16, 16, 64, 10, 0}).ok());
  EXPECT_TRUE(resolve(interleaved, regions).is_disjoint());
  ASSERT_TRUE(interleaved.add(StridedDescriptor{base + 31, 16, 64, 10, 0}).ok());
  EXPECT_FALSE(resolve(interleaved, regions).is_disjoint());
}

TEST(ResolvedListTest, knows_it_of_blocks_in_any_order) {
  FakeRegions regions(1);
  const auto disjoint = [&](std::initializer_list<std::uint64_t> offsets) {
    DescriptorList list(MemoryKind::system);
    for (const std::uint64_t offset : offsets)
      EXPECT_TRUE(list.add(Descriptor{FakeRegions::base(0) + offset, 16, 0}).ok());
    return resolve(list, regions).is_disjoint();
  };
  EXPECT_TRUE(disjoint({64, 32, 48, 0, 16}));
  EXPECT_FALSE(disjoint({64, 32, 48, 0, 32})) << "one of them twice";
  EXPECT_FALSE(disjoint({64, 32, 31, 0})) << "one of them off the grid";
  EXPECT_TRUE(disjoint({65, 32, 49, 0, 16})) << "off the grid, and apart";
  EXPECT_TRUE(disjoint({1 << 16, 32, 0})) << "few, and far apart";
  EXPECT_FALSE(disjoint({1 << 16, 32, 0, 1 << 16}));
}

struct Fixture {
  Fixture() : regions(4) {
    local.emplace(resolve(blocks(FakeRegions::base(0), 16, 16, 100), regions));
    remote.emplace(resolve(blocks(FakeRegions::base(1), 16, 32, 100), regions));
  }
  FakeRegions regions;
  std::optional<ResolvedList> local;
  std::optional<ResolvedList> remote;
  SegmentList list;
};

TEST(SegmentListTest, whole_strided_lists_become_one_segment) {
  Fixture f;
  ASSERT_TRUE(f.list.build({&*f.local, {}}, {&*f.remote, {}}, {}).ok());
  ASSERT_EQ(f.list.segments().size(), 1U);
  EXPECT_EQ(f.list.segments()[0].count, 100U);
  EXPECT_EQ(f.list.runs(), 100U);
  EXPECT_EQ(f.list.bytes(), 1600U);
  ASSERT_TRUE(f.list.build({&*f.local, {}}, {&*f.local, {}}, {}).ok());
  EXPECT_EQ(f.list.segments()[0].length, 1600U) << "contiguous on both sides: one extent";
  EXPECT_EQ(f.list.runs(), 1U);
}

TEST(SegmentListTest, runs_among_blocks_in_any_order_become_segments) {
  FakeRegions regions(2);
  DescriptorList here(MemoryKind::system);
  DescriptorList there(MemoryKind::system);
  const auto add = [&](std::uint64_t local, std::uint64_t remote) {
    ASSERT_TRUE(here.add(Descriptor{FakeRegions::base(0) + local, 16, 0}).ok());
    ASSERT_TRUE(there.add(Descriptor{FakeRegions::base(1) + remote, 16, 0}).ok());
  };
  for (const std::uint64_t i : {0, 1, 2}) add(900 + 16 * i, 500 + 16 * i);     // without a gap
  for (const std::uint64_t i : {0, 1, 2, 3}) add(100 + 32 * i, 100 + 20 * i);  // with equal ones
  add(20, 40), add(40, 800);  // the second lies behind the first, and no third as far away
  add(0, 20), add(60, 0);     // in no order
  for (const std::uint64_t i : {2, 1, 0}) add(300 + 32 * i, 300 + 32 * i);  // downwards
  const auto local = resolve(here, regions);
  const auto remote = resolve(there, regions);
  ASSERT_FALSE(local.flat().empty() || remote.flat().empty());
  SegmentList list;
  ASSERT_TRUE(list.build({&local, {}}, {&remote, {}}, {}).ok());
  const auto segments = list.segments();
  ASSERT_EQ(segments.size(), 9U);
  EXPECT_EQ(segments[0].length, 48U);
  EXPECT_EQ(segments[1].count, 4U);
  EXPECT_EQ(segments[1].local_stride, 32U);
  EXPECT_EQ(segments[1].remote_stride, 20U);
  for (const auto& single : segments.subspan(2)) EXPECT_EQ(single.length * single.count, 16U);
  ASSERT_TRUE(list.build({&local, {}}, {&remote, {}}, {.max_segment_bytes = 40}).ok());
  EXPECT_EQ(list.segments()[0].length, 32U) << "two of them, and no part of the third";
  ASSERT_TRUE(list.build({&local, {}}, {&remote, {}}, {.merge = false}).ok());
  EXPECT_EQ(list.segments().size(), local.size());
}

TEST(SegmentListTest, every_wrong_selection_is_refused_with_its_values) {
  Fixture f;
  const std::vector<std::uint32_t> past{3, 100};
  const std::vector<std::uint32_t> twice{3, 4, 3};
  const auto build = [&](Selection local, Selection remote) {
    return f.list.build({&*f.local, local}, {&*f.remote, remote}, {});
  };
  EXPECT_EQ(build(Selection::of(past), Selection::range(0, 2)).code(), Code::out_of_range);
  EXPECT_EQ(build(Selection::range(99, 2), Selection::range(0, 2)).code(), Code::out_of_range);
  EXPECT_EQ(build(Selection::range(0, 3), Selection::range(0, 2)).code(), Code::invalid_argument);
  EXPECT_EQ(build(Selection::range(0, 0), Selection::range(0, 0)).code(), Code::invalid_argument);
  EXPECT_EQ(build(Selection::of(twice), Selection::range(0, 3)).code(), Code::invalid_argument);
  EXPECT_TRUE(build(Selection::range(0, 3), Selection::of(twice)).ok()) << "sources may repeat";
  EXPECT_TRUE(build(Selection::range(5, 95), Selection::range(0, 95)).ok());
  const auto longer = resolve(blocks(FakeRegions::base(2), 17, 32, 100), f.regions);
  EXPECT_EQ(f.list.build({&*f.local, {}}, {&longer, {}}, {}).code(), Code::invalid_argument);
}

TEST(SegmentListTest, overlapping_targets_are_refused_only_on_the_target_side) {
  Fixture f;
  const auto sloppy = resolve(blocks(FakeRegions::base(2), 16, 15, 100), f.regions);
  EXPECT_EQ(f.list.build({&sloppy, {}}, {&*f.remote, {}}, {.op = TransferOp::read}).code(),
            Code::invalid_argument);
  EXPECT_TRUE(f.list.build({&sloppy, {}}, {&*f.remote, {}}, {.op = TransferOp::write}).ok());
}

// As a row of an N x 5 array may say it. By its extents it would take terabytes.
TEST(SegmentListTest, a_strided_target_that_overlaps_itself_is_refused_at_once) {
  Fixture f;
  const auto row = [&](std::size_t region, std::uint64_t length, std::uint64_t stride) {
    DescriptorList list(MemoryKind::system);
    EXPECT_TRUE(list.add(StridedDescriptor{FakeRegions::base(region), length, stride,
                                           stride == 0 ? std::uint64_t{1} << 40U : 8, 0})
                    .ok());
    return resolve(list, f.regions);
  };
  const auto one_byte = row(0, 1, 0);
  const auto same_byte = row(1, 1, 0);
  for (const TransferOp op : {TransferOp::read, TransferOp::write}) {
    EXPECT_EQ(f.list.build({&one_byte, {}}, {&same_byte, {}}, {.op = op}).code(),
              Code::invalid_argument);
  }
  const auto long_extents = row(0, 64, 0);  // longer than what the backend takes in one piece
  const auto long_sources = row(1, 64, 0);
  EXPECT_EQ(
      f.list.build({&long_extents, {}}, {&long_sources, {}}, {.max_segment_bytes = 16}).code(),
      Code::invalid_argument);
  const auto apart = row(0, 16, 16);
  const auto sloppy = row(1, 16, 8);
  EXPECT_TRUE(f.list.build({&apart, {}}, {&sloppy, {}}, {.op = TransferOp::read}).ok());
  EXPECT_EQ(f.list.build({&apart, {}}, {&sloppy, {}}, {.op = TransferOp::write}).code(),
            Code::invalid_argument);
}

TEST(SegmentListTest, targets_overlap_also_across_registrations_that_do) {
  Fixture f;
  auto twin = std::make_shared<MemoryRecord>();  // the same bytes, registered a second time
  twin->region = {.address = FakeRegions::base(0) + 8, .length = 64};
  twin->memory[0] = std::make_unique<FakeMemory>();
  twin->instances = 1;
  f.regions.records.insert(f.regions.records.begin(), twin);
  DescriptorList both(MemoryKind::system);
  ASSERT_TRUE(both.add(Descriptor{FakeRegions::base(0), 16, 0}).ok());      // in the first only
  ASSERT_TRUE(both.add(Descriptor{FakeRegions::base(0) + 8, 16, 0}).ok());  // found in the second
  const auto targets = resolve(both, f.regions);
  const auto sources = resolve(blocks(FakeRegions::base(1), 16, 32, 2), f.regions);
  EXPECT_EQ(f.list.build({&targets, {}}, {&sources, {}}, {}).code(), Code::invalid_argument);
}

TEST(SegmentListTest, targets_in_several_files_do_not_overlap_though_their_offsets_do) {
  Fixture f;
  for (std::size_t i = 0; i < 2; ++i) {
    f.regions.records[i]->region.kind = MemoryKind::disk;
    f.regions.records[i]->region.address = 0;
    f.regions.records[i]->region.device_id = i + 1;
  }
  DescriptorList files(MemoryKind::disk);
  ASSERT_TRUE(files.add(Descriptor{0, 16, 1}).ok());
  ASSERT_TRUE(files.add(Descriptor{8, 16, 2}).ok());
  const auto targets = resolve(files, f.regions);
  const auto sources = resolve(blocks(FakeRegions::base(2), 16, 32, 2), f.regions);
  EXPECT_TRUE(f.list.build({&targets, {}}, {&sources, {}}, {}).ok());
  ASSERT_TRUE(files.add(Descriptor{8, 16, 1}).ok());
  const auto overlapping = resolve(files, f.regions);
  const auto more = resolve(blocks(FakeRegions::base(2), 16, 32, 3), f.regions);
  EXPECT_EQ(f.list.build({&overlapping, {}}, {&more, {}}, {}).code(), Code::invalid_argument);
}

TEST(SegmentListTest, long_extents_are_split_and_failures_still_name_their_descriptor) {
  Fixture f;
  ASSERT_TRUE(f.list.build({&*f.local, {}}, {&*f.remote, {}}, {.max_segment_bytes = 10}).ok());
  EXPECT_EQ(f.list.segments().size(), 200U);
  EXPECT_EQ(
      f.list.descriptor_at({.segment = 7, .extent = 0, .bytes = 2, .status = {}}, {&*f.local, {}}),
      3U);
  ASSERT_TRUE(f.list.build({&*f.local, {}}, {&*f.local, {}}, {}).ok());
  EXPECT_EQ(
      f.list.descriptor_at({.segment = 0, .extent = 0, .bytes = 40, .status = {}}, {&*f.local, {}}),
      2U);
}

// Whatever is merged, the same bytes go to the same places, and every byte knows its descriptor.
TEST(SegmentListTest, merged_segments_move_what_the_pairs_say) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    FakeRegions regions(3);
    DescriptorList local(MemoryKind::system);
    DescriptorList remote(MemoryKind::system);
    std::array<std::uint64_t, 2> next{FakeRegions::base(0), FakeRegions::base(1)};
    const bool is_flat = seed / 2 % 2 == 0;  // too short to fold: paired without a cursor
    for (int i = 0; i < 40; ++i) {
      const std::uint64_t length = 1 + random() % 3;
      const std::uint64_t count = 1 + random() % (is_flat ? 2 : 12);
      for (auto side : {0, 1}) {
        const std::uint64_t stride = length + random() % 2;
        auto& at = next[static_cast<std::size_t>(side)];
        ASSERT_TRUE(
            (side == 0 ? local : remote).add(StridedDescriptor{at, length, stride, count, 0}).ok());
        at += stride * count + random() % 2;
      }
    }
    const auto here = resolve(local, regions);
    const auto there = resolve(remote, regions);
    ASSERT_EQ(is_flat, !here.flat().empty() && !there.flat().empty());
    std::vector<std::uint32_t> indices(local.size());
    for (std::uint32_t i = 0; i < indices.size(); ++i) indices[i] = i;
    if (seed % 2 == 1) std::ranges::shuffle(indices, random);
    const Selection chosen = seed % 3 == 0 ? Selection() : Selection::of(indices);
    SegmentList list;
    ASSERT_TRUE(
        list.build({&here, chosen}, {&there, chosen}, {.max_segment_bytes = 1 + random() % 20})
            .ok());
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>>
        moved;  // target: source, descriptor
    for (std::size_t s = 0; s < list.segments().size(); ++s) {
      const auto& segment = list.segments()[s];
      ASSERT_EQ(segment.local, regions.records[0]->memory[0].get()) << "seed " << seed;
      ASSERT_EQ(segment.remote, regions.records[1]->memory[0].get()) << "seed " << seed;
      for (std::uint64_t k = 0; k < segment.count; ++k) {
        for (std::uint64_t byte = 0; byte < segment.length; ++byte) {
          moved[segment.local_address + k * segment.local_stride + byte] = {
              segment.remote_address + k * segment.remote_stride + byte,
              list.descriptor_at({s, k, byte, {}}, {&here, chosen})};
        }
      }
    }
    std::uint64_t bytes = 0;
    for (std::uint64_t position = 0; position < local.size(); ++position) {
      const auto index = chosen.by_index() ? indices[position] : position;
      for (std::uint64_t byte = 0; byte < local.at(index).length; ++byte, ++bytes) {
        const auto found = moved.find(local.at(index).address + byte);
        ASSERT_NE(found, moved.end()) << "seed " << seed;
        ASSERT_EQ(found->second.first, remote.at(index).address + byte) << "seed " << seed;
        ASSERT_EQ(found->second.second, position) << "seed " << seed;
      }
    }
    ASSERT_EQ(bytes, moved.size()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace towpath::agent
