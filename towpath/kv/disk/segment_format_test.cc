#include <gtest/gtest.h>

#include <towpath/kv/disk/index_format.h>
#include <towpath/kv/disk/segment.h>
#include <towpath/kv/disk/segment_format.h>

namespace towpath::kv {
namespace {

const SegmentName kName{7, 0xabcdef};
const Record kRecord{RecordKind::block, 0x1234, {DigestAlgorithm::crc32c, 5, 99}, 6000};

TEST(SegmentFormatTest, headers_come_back_as_they_were) {
  for (const SegmentHeader& header : {SegmentHeader{kName, ""}, SegmentHeader{kName, "folder"}})
    EXPECT_EQ(*open_segment_header(seal_segment_header(header)), header);
  EXPECT_EQ(*open_record(seal_record(kRecord, {kName, 8192}), {kName, 8192}), kRecord);
  EXPECT_EQ(room_of(kRecord), 3 * kSegmentPage);
  EXPECT_EQ(room_of({.kind = RecordKind::removal}), kSegmentPage);
}

TEST(SegmentFormatTest, a_record_of_another_place_is_none) {
  const Bytes page = seal_record(kRecord, {kName, 8192});
  EXPECT_EQ(open_record(page, {kName, 4096}).code(), Code::corrupt);
  EXPECT_EQ(open_record(page, {{8, 0xabcdef}, 8192}).code(), Code::corrupt);
  EXPECT_EQ(open_record(page, {{7, 0xabcdee}, 8192}).code(), Code::corrupt) << "of an earlier life";
}

TEST(SegmentFormatTest, every_flipped_bit_of_a_header_is_noticed) {
  const Bytes page = seal_record(kRecord, {kName, 8192});
  std::size_t used = page.size();
  while (page[used - 1] == std::byte{0}) --used;
  for (std::size_t bit = 0; bit < used * 8; ++bit) {
    Bytes flipped = page;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    ASSERT_FALSE(open_record(flipped, {kName, 8192}).ok()) << bit;
  }
}

TEST(SegmentFormatTest, names_of_files_are_read_back_and_others_are_not) {
  EXPECT_EQ(Segment::number_of(Segment::file_name(UINT64_MAX)), UINT64_MAX);
  EXPECT_LT(Segment::file_name(9), Segment::file_name(10));
  for (const char* other : {"segment-7", "segment-0000000000000000000x", "index", "segment-"})
    EXPECT_FALSE(Segment::number_of(other)) << other;
}

TEST(IndexFormatTest, an_index_comes_back_as_it_was_and_no_flipped_bit_passes) {
  const std::vector<IndexedSegment> segments{
      {kName,
       20480,
       {{kRecord, 4096}, {{RecordKind::block, 9, {DigestAlgorithm::xxh3_64, 1, 2}, 1}, 16384}}},
      {{8, 1}, 4096, {}}};
  const Bytes sealed = seal_index(segments);
  EXPECT_EQ(*open_index(sealed), segments);
  for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    Bytes flipped = sealed;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    ASSERT_FALSE(open_index(flipped).ok()) << bit;
  }
  EXPECT_EQ(*open_index(seal_index({})), std::vector<IndexedSegment>());
}

}  // namespace
}  // namespace towpath::kv
