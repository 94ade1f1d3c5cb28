#include <random>
#include <utility>

#include <gtest/gtest.h>

#include <towpath/agent/metadata_encoder.h>
#include <towpath/core/format.h>

namespace towpath::agent {
namespace {

constexpr std::size_t kShm = 3;
constexpr std::size_t kUcx = 1;

/// A block of a pool with keys of both backends.
RecordPtr block(std::uint64_t number) {
  RecordPtr made = OwnRecords(1).at(0);
  made->region = {.address = 0x7f0000000000 + 8192 * number, .length = 4096};
  made->own->keys.add(kUcx, as_bytes(cat("ucx key ", 1'000'000 + number)));
  made->own->keys.add(kShm, as_bytes(cat("shm key ", 2'000'000 + number)));
  made->offered = instance_bit(kShm) | instance_bit(kUcx);
  return made;
}

MetadataEncoder rows_of_both() {
  MetadataEncoder rows;
  rows.advertise(kShm);
  rows.advertise(kUcx);
  return rows;
}

/// As a peer reads it: "address key key".
std::vector<std::string> read(ConstByteSpan table) {
  std::vector<std::string> all;
  TableReader reader(table, 2);
  while (!reader.at_end()) {
    const auto row = reader.next();
    EXPECT_TRUE(row.ok()) << row.status().to_string();
    if (!row.ok()) return all;
    std::string text = cat((*row)->region.address);
    for (const auto& [backend, key] : (*row)->keys) text += cat(" ", backend, ":", as_text(key));
    all.push_back(text);
  }
  return all;
}

std::string advertised(const MemoryRecord& record) {
  return cat(record.region.address, " 1:", as_text(record.own->keys.of(kUcx)),
             " 0:", as_text(record.own->keys.of(kShm)));
}

TEST(MetadataEncoderTest,
     advertises_of_a_region_with_the_keys_of_the_backends_that_are_advertised_of) {
  MetadataEncoder rows = rows_of_both();
  const RecordPtr both = block(0);
  const RecordPtr one = block(1);
  one->own->keys = {};
  one->own->keys.add(kUcx, block(1)->own->keys.of(kUcx));
  one->own->keys.add(7, as_bytes("of a backend that reaches no peers"));
  one->offered = instance_bit(kUcx) | instance_bit(7);
  const RecordPtr none = block(2);
  none->offered = 0;
  for (const RecordPtr& record : {both, one, none}) rows.add(*record);
  const std::vector<std::string> expected{
      advertised(*both), cat(one->region.address, " 1:", as_text(one->own->keys.of(kUcx)))};
  EXPECT_EQ(read(*rows.table()), expected);
  const MemoryRecord* const some[] = {one.get()};
  EXPECT_EQ(read(*rows.table_of(some)), std::vector{expected[1]});
}

TEST(MetadataEncoderTest, what_no_metadata_takes_is_advertised_until_it_is_gone) {
  MetadataEncoder rows = rows_of_both();
  const RecordPtr fits = block(0);
  const RecordPtr unfit = block(1);
  unfit->region.key = std::string(kMaxObjectKey + 1, 'x');
  rows.add(*unfit);
  rows.add(*fits);
  EXPECT_EQ(rows.table().code(), Code::out_of_range);
  rows.remove(*unfit);
  EXPECT_EQ(read(*rows.table()), std::vector{advertised(*fits)});
}

TEST(MetadataEncoderTest, removing_what_has_no_row_is_harmless) {
  MetadataEncoder rows = rows_of_both();
  const RecordPtr record = block(0);
  rows.remove(*record);
  rows.add(*record);
  rows.remove(*record);
  rows.remove(*record);
  EXPECT_TRUE(rows.table()->empty());
}

// A pool that lost every other block has rows as short as any.
TEST(MetadataEncoderTest, rows_behind_a_gap_are_no_longer_than_others) {
  MetadataEncoder rows = rows_of_both();
  std::vector<RecordPtr> records;
  for (std::uint64_t i = 0; i < 1000; ++i) rows.add(*records.emplace_back(block(i)));
  const std::size_t before = rows.table()->size();
  for (std::size_t i = 0; i < 1000; i += 2) rows.remove(*records[i]);
  EXPECT_LT(rows.table()->size(), before * 6 / 10);
}

// Regions that come and go while nobody asks for metadata: each newer than the one that goes.
TEST(MetadataEncoderTest, gaps_do_not_pile_up) {
  MetadataEncoder rows = rows_of_both();
  RecordPtr last = block(0);
  rows.add(*last);
  for (std::uint64_t i = 1; i < 10'000; ++i) {
    const RecordPtr gone = std::exchange(last, block(i));
    rows.add(*last);
    rows.remove(*gone);
    ASSERT_LT(last->own->row, 200U) << "after " << i;
  }
  EXPECT_EQ(read(*rows.table()), std::vector{advertised(*last)});
}

TEST(MetadataEncoderTest, stays_what_was_added_and_not_removed_whatever_the_order) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(cat("seed ", seed));
  std::mt19937 random(seed);
  MetadataEncoder rows = rows_of_both();
  std::vector<RecordPtr> live;
  for (int step = 0; step < 3000; ++step) {
    const std::size_t most = (step / 500) % 2 == 0 ? 60 : 3;  // it grows, it shrinks
    if (live.empty() || random() % 64 < most) {
      rows.add(*live.emplace_back(block(random() % 100'000)));
    } else {
      const auto gone = live.begin() + static_cast<std::ptrdiff_t>(random() % live.size());
      rows.remove(**gone);
      live.erase(gone);
    }
    if (random() % 32 != 0) continue;
    std::vector<std::string> expected;
    for (const RecordPtr& record : live) expected.push_back(advertised(*record));
    ASSERT_EQ(read(*rows.table()), expected) << "step " << step;
  }
}

}  // namespace
}  // namespace towpath::agent
