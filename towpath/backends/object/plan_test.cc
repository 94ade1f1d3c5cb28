// What a request comes to: fetches, whole objects, and where their bytes go.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/object/plan.h>
#include <towpath/backends/object/scatter.h>
#include <towpath/backends/object/writer.h>
#include <towpath/core/format.h>
#include <towpath/net/base64.h>

namespace towpath::backends::object {
namespace {

using ::testing::HasSubstr;

class PlanTest : public ::testing::Test {
 protected:
  std::unique_ptr<ObjectMemory> object(const std::string& key, std::uint64_t length = 1U << 30U) {
    auto record = table_.add({.kind = MemoryKind::object, .length = length, .key = key});
    record->name = {"bucket", key};
    return std::make_unique<ObjectMemory>(std::move(record));
  }
  backend::Segment segment(std::uint64_t place, std::uint64_t length, std::uint64_t count = 1,
                           std::uint64_t stride = 0) {
    backend::Segment made{.remote = memory.get(),
                          .local_address = address_of(local.data()) + next_local_,
                          .remote_address = place,
                          .length = length,
                          .count = count,
                          .local_stride = length,
                          .remote_stride = stride};
    next_local_ += length * count;
    return made;
  }
  std::vector<Fetch> fetches(std::uint64_t part, std::uint64_t gap) {
    EXPECT_TRUE(plan.start(segments).ok());
    std::vector<Fetch> made;
    plan.fetches({.part_bytes = part, .gap_bytes = gap}, made);
    return made;
  }
  static std::string reported(const std::vector<Fetch>& made) {
    std::string out;
    for (const Fetch& fetch : made)
      out += cat("[", fetch.begin, ",", fetch.end, ")x", fetch.pieces.size(), " ");
    return out;
  }

  backend::MemoryTable<ObjectRecord> table_{AgentIdentity{"me", 1}};
  std::uint64_t next_local_ = 0;
  Bytes local = Bytes(1U << 20U);
  std::unique_ptr<ObjectMemory> memory = object("one");
  std::vector<backend::Segment> segments;
  Plan plan;
};

TEST_F(PlanTest, near_extents_are_fetched_together_and_far_ones_apart) {
  segments = {segment(1000, 10), segment(0, 10, 3, 20), segment(90, 0)};
  EXPECT_EQ(reported(fetches(1000, 10)), "[0,50)x3 [1000,1010)x1 ");
  EXPECT_EQ(reported(fetches(1000, 9)), "[0,10)x1 [20,30)x1 [40,50)x1 [1000,1010)x1 ");
}

TEST_F(PlanTest, long_extents_are_fetched_in_parts) {
  segments = {segment(5, 250), segment(255, 10)};
  EXPECT_EQ(reported(fetches(100, 0)), "[5,105)x1 [105,205)x1 [205,265)x2 ");
}

TEST_F(PlanTest, extents_may_overlap_in_the_object) {
  segments = {segment(0, 100), segment(10, 5), segment(99, 100)};
  EXPECT_EQ(reported(fetches(1000, 0)), "[0,199)x3 ");
}

TEST_F(PlanTest, parts_that_hold_nothing_but_a_gap_are_not_fetched) {
  segments = {segment(0, 10), segment(300, 10)};
  EXPECT_EQ(reported(fetches(100, 1000)), "[0,100)x1 [300,310)x1 ");
}

TEST_F(PlanTest, all_of_a_region_is_fetched_at_once_where_that_is_wanted) {
  const auto small = object("small", 250);
  segments = {segment(0, 100), segment(100, 150), segment(0, 250)};
  segments[0].remote = segments[1].remote = small.get();
  ASSERT_TRUE(plan.start(segments).ok());
  std::vector<Fetch> made;
  plan.fetches({.part_bytes = 100, .whole_bytes = 250}, made);
  EXPECT_EQ(reported(made), "[0,250)x2 [0,100)x1 [100,200)x1 [200,250)x1 ");
  plan.fetches({.part_bytes = 100, .whole_bytes = 249}, made);
  EXPECT_EQ(reported(made), "[0,100)x1 [100,200)x1 [200,250)x1 [0,100)x1 [100,200)x1 [200,250)x1 ");
}

TEST_F(PlanTest, objects_are_reported_apart) {
  const auto second = object("two");
  segments = {segment(0, 10), segment(0, 10), segment(10, 10)};
  segments[1].remote = second.get();
  EXPECT_EQ(reported(fetches(100, 100)), "[0,20)x2 [0,10)x1 ");
  EXPECT_EQ(plan.shares()[1].object->name().key, "two");
}

TEST_F(PlanTest, objects_may_be_registered_twice_and_be_named_in_turns) {
  const auto second = object("two");
  const auto again = object("one");
  segments = {segment(0, 10), segment(0, 10), segment(10, 10), segment(10, 10)};
  segments[1].remote = segments[3].remote = second.get();
  segments[2].remote = again.get();
  EXPECT_EQ(reported(fetches(100, 100)), "[0,20)x2 [0,20)x2 ");
  ASSERT_EQ(plan.shares().size(), 2U);
  EXPECT_EQ(plan.shares()[0].object, memory.get());
}

// Compared each with each they would take minutes.
TEST_F(PlanTest, objects_may_be_many) {
  std::vector<std::unique_ptr<ObjectMemory>> many;
  for (int i = 0; i < 200'000; ++i) {
    many.push_back(object(cat("llama/block-", i)));
    segments.push_back({.remote = many.back().get(), .local_address = 4096, .length = 10});
  }
  ASSERT_TRUE(plan.start(segments).ok());
  EXPECT_EQ(plan.shares().size(), many.size());
}

TEST_F(PlanTest, whole_objects_have_no_gap_and_begin_at_zero) {
  segments = {segment(10, 10), segment(0, 10)};
  ASSERT_TRUE(plan.start(segments).ok());
  EXPECT_TRUE(check_whole(plan.shares()[0]).ok());
  EXPECT_EQ(plan.shares()[0].end(), 20U);
  for (const std::uint64_t place : {9U, 11U}) {
    segments[0].remote_address = place;
    ASSERT_TRUE(plan.start(segments).ok());
    const Status refused = check_whole(plan.shares()[0]);
    EXPECT_EQ(refused.code(), Code::unsupported);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(cat("bytes at ", place, " where 10")));
  }
}

// ---- Where the bytes go

net::HttpResponse part_of(std::uint64_t first, std::uint64_t last, std::uint64_t total) {
  return {.status = 206,
          .headers = {{"content-range", cat("bytes ", first, "-", last, "/", total)},
                      {"etag", "\"v1\""}}};
}

class ScatterTest : public PlanTest {
 protected:
  Scatter scatter() { return Scatter(fetches(4096, 4096).front(), version); }
  std::vector<std::uint64_t> failures(const Scatter& of, const Status& why) {
    backend::RequestProgress progress;
    progress.start(segments);
    of.fail(progress, why);
    std::vector<std::uint64_t> named;
    for (const auto& failure : progress.close(false).failures) named.push_back(failure.segment);
    return named;
  }
  std::string version;
};

TEST_F(ScatterTest, bytes_land_where_they_belong_however_they_come) {
  std::mt19937 random(3);
  Bytes object_bytes(2000);
  for (std::byte& each : object_bytes) each = static_cast<std::byte>(random());
  segments = {segment(100, 50), segment(0, 200), segment(300, 7, 100, 17), segment(149, 2)};
  for (int round = 0; round < 50; ++round) {
    std::ranges::fill(local, std::byte{0});
    Scatter sink = scatter();
    const Fetch fetch = sink.fetch();
    ASSERT_TRUE(sink.begin(part_of(fetch.begin, fetch.end - 1, 2000 * 1000)).ok());
    for (std::uint64_t at = fetch.begin; at < fetch.end;) {
      const auto length = std::min<std::uint64_t>(fetch.end - at, 1 + random() % 400);
      object_bytes.resize(std::max<std::size_t>(object_bytes.size(), at + length));
      ASSERT_TRUE(sink.take(ConstByteSpan(object_bytes).subspan(at, length)).ok());
      at += length;
    }
    EXPECT_TRUE(sink.finish().ok());
    EXPECT_EQ(sink.bytes(), 50U + 200U + 700U + 2U);
    for (const backend::Segment& each : segments)
      for (std::uint64_t k = 0; k < each.count; ++k) {
        const ByteSpan got = bytes_at(each.local_address + k * each.local_stride, each.length);
        EXPECT_TRUE(std::ranges::equal(
            got, ConstByteSpan(object_bytes)
                     .subspan(each.remote_address + k * each.remote_stride, each.length)));
      }
  }
}

TEST_F(ScatterTest, other_bytes_than_asked_for_never_count) {
  segments = {segment(10, 90)};
  for (const auto& head : {part_of(0, 99, 200), part_of(10, 100, 200), part_of(10, 98, 200),
                           net::HttpResponse{.status = 206}}) {
    version.clear();
    Scatter sink = scatter();
    EXPECT_EQ(sink.begin(head).code(), Code::corrupt);
  }
  Scatter sink = scatter();
  EXPECT_EQ(sink.begin({.status = 200, .headers = {{"content-length", "100"}}}).code(),
            Code::unsupported)
      << "a store that does not know ranges";
}

TEST_F(ScatterTest, another_version_of_the_object_is_an_error) {
  segments = {segment(10, 90)};
  version = "\"v0\"";
  EXPECT_EQ(scatter().begin(part_of(10, 99, 200)).code(), Code::corrupt);
}

TEST_F(ScatterTest, object_that_is_shorter_fails_what_lies_behind_its_end) {
  segments = {segment(0, 10), segment(10, 10), segment(20, 10)};
  Scatter sink = scatter();
  ASSERT_TRUE(sink.begin(part_of(0, 14, 15)).ok());
  ASSERT_TRUE(sink.take(Bytes(15)).ok());
  const Status why = sink.finish();
  EXPECT_EQ(why.code(), Code::out_of_range);
  EXPECT_THAT(failures(sink, why), ::testing::ElementsAre(1, 2));
  EXPECT_EQ(sink.bytes(), 15U);
}

TEST_F(ScatterTest, body_that_ends_early_or_late_is_no_data) {
  segments = {segment(0, 100)};
  Scatter sink = scatter();
  ASSERT_TRUE(sink.begin(part_of(0, 99, 100)).ok());
  ASSERT_TRUE(sink.take(Bytes(60)).ok());
  EXPECT_EQ(sink.finish().code(), Code::corrupt);
  EXPECT_EQ(sink.take(Bytes(41)).code(), Code::corrupt);
  sink.renew();
  EXPECT_EQ(sink.range(), "bytes=60-99") << "it goes on where it stopped";
}

TEST_F(ScatterTest, checksum_of_the_whole_is_compared) {
  segments = {segment(0, 100)};
  const Bytes bytes(100, std::byte{7});
  for (const bool good : {true, false}) {
    Scatter sink = scatter();
    sink.read_whole(true);
    EXPECT_EQ(sink.range(), "");
    const std::string sum = net::to_base64(net::sha256(good ? bytes : Bytes(100)));
    ASSERT_TRUE(sink.begin({.status = 200,
                            .headers = {{"content-length", "100"}, {"x-amz-checksum-sha256", sum}}})
                    .ok());
    ASSERT_TRUE(sink.take(ConstByteSpan(bytes).first(50)).ok());
    ASSERT_TRUE(sink.take(ConstByteSpan(bytes).subspan(50)).ok());
    const Status end = sink.finish();
    EXPECT_EQ(end.code(), good ? Code::ok : Code::corrupt);
    EXPECT_EQ(sink.bytes(), good ? 100U : 0U);
    EXPECT_EQ(failures(sink, end).size(), good ? 0U : 1U);
  }
}

TEST_F(ScatterTest, checksum_of_the_checksums_of_parts_is_not_compared) {
  segments = {segment(0, 100)};
  const Bytes bytes(100, std::byte{7});
  Scatter sink = scatter();
  sink.read_whole(true);
  const std::string sum = cat(net::to_base64(net::sha256(Bytes(64))), "-2");
  ASSERT_TRUE(sink.begin({.status = 200,
                          .headers = {{"content-length", "100"}, {"x-amz-checksum-sha256", sum}}})
                  .ok());
  ASSERT_TRUE(sink.take(bytes).ok());
  const Status end = sink.finish();
  EXPECT_TRUE(end.ok()) << end.to_string();
  EXPECT_EQ(sink.bytes(), 100U);
}

TEST_F(PlanTest, bodies_are_gathered_from_where_the_pieces_lie) {
  for (std::size_t i = 0; i < local.size(); ++i) local[i] = static_cast<std::byte>(i * 7 % 251);
  segments = {segment(0, 10, 5, 20), segment(10, 10, 5, 20)};
  ASSERT_TRUE(plan.start(segments).ok());
  ASSERT_TRUE(check_whole(plan.shares()[0]).ok());
  Bytes whole;
  for (int i = 0; i < 5; ++i) {
    whole.insert(whole.end(), local.begin() + i * 10, local.begin() + (i + 1) * 10);
    whole.insert(whole.end(), local.begin() + 50 + i * 10, local.begin() + 60 + i * 10);
  }
  Gather source(plan.shares()[0].pieces, 5, 100);
  EXPECT_EQ(source.size_bytes(), 95U);
  for (const std::uint64_t offset : {0U, 60U, 3U, 94U, 0U}) {
    Bytes got(std::min<std::uint64_t>(31, 95 - offset));
    source.read(offset, got);
    EXPECT_TRUE(std::ranges::equal(got, ConstByteSpan(whole).subspan(5 + offset, got.size())));
  }
}

TEST(PartSizeTest, there_are_never_more_parts_than_a_store_takes) {
  EXPECT_EQ(part_size(100 * kMiB, 8 * kMiB), 8 * kMiB);
  for (const std::uint64_t size : {80'000 * kMiB, 80'001 * kMiB, 5'000'000 * kMiB}) {
    const std::uint64_t part = part_size(size, 8 * kMiB);
    EXPECT_LE((size + part - 1) / part, 10'000U) << size;
    EXPECT_EQ(part % kMiB, 0U);
  }
  EXPECT_EQ(completion_of({"\"a\"", "b&"}),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag>"
            "</Part><Part><PartNumber>2</PartNumber><ETag>b&amp;</ETag></Part>"
            "</CompleteMultipartUpload>");
}

}  // namespace
}  // namespace towpath::backends::object
