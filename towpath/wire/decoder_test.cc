#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/wire/testing/sample.h>

namespace towpath::wire {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the sample message

constexpr std::string_view kNameX = "0180020100000078";  // name: "x"

Result<Boat> read(std::string_view digits) {
  return decode_boat(from_hex(std::string(kNameX).append(digits)));
}

void expect_refusal(const Result<Boat>& boat, Code code, std::string_view words) {
  EXPECT_EQ(boat.code(), code) << boat.status().to_string();
  EXPECT_THAT(boat.status().to_string(), HasSubstr(std::string(words)));
}

TEST(DecoderTest, skips_unknown_optional_fields_of_every_kind) {
  const auto boat = read(
      "090001ff01"
      "0a000202000000aabb"
      "0b000301000000ff"
      "02000105");
  EXPECT_EQ(boat.value(), (Boat{"x", 5, {}}));
}

TEST(DecoderTest, skips_unknown_optional_fields_inside) {
  EXPECT_EQ(read("0380030800000001800107"
                 "09000101")
                .value(),
            (Boat{"x", 0, {{7, ""}}}));
}

TEST(DecoderTest, refuses_an_unknown_required_field_by_name) {
  expect_refusal(read("09800101"), Code::unsupported, "boat: unknown field (required 9) at byte 8");
  expect_refusal(read("09800101"), Code::unsupported, "upgrade this side");
}

TEST(DecoderTest, an_unknown_required_field_is_named_even_if_its_kind_is_new) {
  expect_refusal(read("098009"), Code::unsupported, "unknown field (required 9)");
}

TEST(DecoderTest, the_required_bit_is_part_of_the_tag) {
  expect_refusal(read("02800105"), Code::unsupported, "unknown field (required 2)");
}

TEST(DecoderTest, refuses_field_number_0) {
  expect_refusal(read("00000100"), Code::corrupt, "unknown field (optional 0)");
  expect_refusal(read("00800100"), Code::corrupt, "unknown field (required 0)");
}

TEST(DecoderTest, refuses_an_unknown_kind) {
  expect_refusal(read("09000900"), Code::corrupt, "unknown kind 9");
  expect_refusal(read("09000000"), Code::corrupt, "unknown kind 0");
}

TEST(DecoderTest, refuses_another_kind_than_the_rules) {
  expect_refusal(read("02000200000000"), Code::corrupt,
                 "boat: field note (optional 2) at byte 8 is bytes, not number");
}

TEST(DecoderTest, refuses_a_second_value_of_a_singular_field) {
  expect_refusal(read(kNameX), Code::corrupt,
                 "field name (required 1) at byte 8 stands there more");
}

TEST(DecoderTest, refuses_more_repetitions_than_allowed) {
  const std::string part = "0380030400000001800107";
  EXPECT_EQ(read(part + part + part).value().parts.size(), 3U);
  expect_refusal(read(part + part + part + part), Code::corrupt, "more than 3 times");
}

TEST(DecoderTest, refuses_a_missing_field) {
  expect_refusal(decode_boat({}), Code::corrupt, "boat: field name (required 1) is missing");
  expect_refusal(read("03800300000000"), Code::corrupt, "boat.part: field length (required 1) is");
}

TEST(DecoderTest, refuses_values_over_their_bounds) {
  expect_refusal(decode_boat(from_hex("01800211000000"
                                      "0000000000000000000000000000000000")),
                 Code::out_of_range, "has bytes: 17; at most 16");
  expect_refusal(read("03800306000000"
                      "018001c1843d"),
                 Code::out_of_range,
                 "boat.part: field length (required 1) at byte 15 is 1000001; at most 1000000");
}

TEST(DecoderTest, refuses_a_length_past_the_end) {
  expect_refusal(read("090002ffffffff00"), Code::corrupt,
                 "a field of 4294967295 bytes, but only 1 are left");
}

TEST(DecoderTest, a_field_inside_cannot_reach_past_the_outer_one) {
  expect_refusal(read("03800308000000"
                      "02000202000000ff"
                      "01800107"),
                 Code::corrupt, "boat.part: at byte 22: a field of 2 bytes, but only 1 are left");
}

TEST(DecoderTest, reads_the_largest_number) {
  EXPECT_EQ(read("020001ffffffffffffffffff01").value().note, UINT64_MAX);
}

TEST(DecoderTest, refuses_numbers_in_any_but_the_shortest_form) {
  expect_refusal(read("020001ffffffffffffffffff02"), Code::corrupt, "more than 64 bits");
  expect_refusal(read("020001ffffffffffffffffff8100"), Code::corrupt, "more than 64 bits");
  expect_refusal(read("0200018500"), Code::corrupt, "longer than it needs to be");
  expect_refusal(read("02000180"), Code::corrupt, "boat: at byte 12: a number cut short");
}

TEST(DecoderTest, a_failure_comes_again) {
  const Bytes bytes = from_hex("0980010101800200000000");
  Decoder decoder(bytes, kBoatSchema);
  const Status first = decoder.next().status();
  EXPECT_EQ(first.code(), Code::unsupported);
  EXPECT_EQ(decoder.next().status(), first);
}

TEST(DecoderTest, an_authors_refusal_names_the_field) {
  const Bytes bytes = from_hex(
      "02000105"
      "0180020100000078");
  std::vector<std::string> words;
  const Status status = decode(Decoder(bytes, kBoatSchema), [&](const Field& field) -> Status {
    words.push_back(field.refuse("not a lock").to_string());
    return {};
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(words, (std::vector<std::string>{
                       "corrupt: boat: field note (optional 2) at byte 0 is 5: not a lock",
                       "corrupt: boat: field name (required 1) at byte 4: not a lock"}));
}

TEST(DecoderDeathTest, reading_a_field_as_another_kind_is_a_fault_of_the_caller) {
  const Bytes bytes = from_hex(kNameX);
  Decoder decoder(bytes, kBoatSchema);
  const Field field = *decoder.next().value();
  EXPECT_DEATH((void)field.number(), "another kind");
}

Bytes chain(std::size_t depth) {
  Bytes bytes;
  for (std::size_t i = 0; i < depth; ++i) {
    Bytes outer = from_hex("010003");
    for (unsigned shift = 0; shift < 32; shift += 8)
      outer.push_back(static_cast<std::byte>(bytes.size() >> shift));
    outer.insert(outer.end(), bytes.begin(), bytes.end());
    bytes = std::move(outer);
  }
  return bytes;
}

Status descend(Decoder decoder) {
  return decode(decoder, [](const Field& field) { return descend(field.nested()); });
}

TEST(DecoderTest, nesting_is_bounded) {
  const Bytes deep = chain(kMaxDepth);
  EXPECT_TRUE(descend(Decoder(deep, kNodeSchema)).ok());
  const Bytes deeper = chain(kMaxDepth + 1);
  EXPECT_EQ(descend(Decoder(deeper, kNodeSchema)).code(), Code::out_of_range);
}

}  // namespace
}  // namespace towpath::wire
