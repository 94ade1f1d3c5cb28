#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/wire/testing/sample.h>

namespace towpath::wire {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the sample message

void expect_refusal(Encoder& encoder, Code code, std::string_view words) {
  const Status status = std::move(encoder).finish().status();
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_THAT(status.to_string(), HasSubstr(std::string(words)));
}

TEST(EncoderTest, refuses_a_tag_without_a_rule) {
  Encoder out(kBoatSchema);
  out.put_number(optional(9), 1);
  out.put_text(kName, "x");
  expect_refusal(out, Code::invalid_argument, "boat: unknown field (optional 9) at byte 0");
}

TEST(EncoderTest, refuses_another_kind) {
  Encoder out(kBoatSchema);
  out.put_number(kName, 1);
  expect_refusal(out, Code::invalid_argument, "name (required 1) at byte 0 is number, not bytes");
}

TEST(EncoderTest, refuses_a_text_over_its_bound) {
  Encoder out(kBoatSchema);
  out.put_text(kName, "seventeen letters");
  expect_refusal(out, Code::out_of_range, "has bytes: 17; at most 16");
}

TEST(EncoderTest, fields_stand_behind_the_room_that_was_asked_for) {
  const auto written = [](std::size_t room_before) {
    Encoder out(kBoatSchema, room_before);
    out.put_text(kName, "a");
    out.put_nested(kPart, [](Encoder& part) { part.put_number(kLength, 300); });
    return std::move(out).finish().value();
  };
  constexpr std::size_t kRoom = 5;
  Bytes expected(kRoom);
  const Bytes fields = written(0);
  expected.insert(expected.end(), fields.begin(), fields.end());
  EXPECT_EQ(written(kRoom), expected);
}

// An encoder has an array for what is small: wherever a field meets its end, nothing is seen of it.
TEST(EncoderTest, messages_of_every_length_are_read_as_they_were_written) {
  static constexpr FieldRule kHoldRules[] = {
      {kLength, "length", Kind::number, kOne},
      {kLabel, "label", Kind::bytes, kOne},
  };
  static constexpr Schema kHoldSchema("hold", kHoldRules);
  static constexpr FieldRule kRules[] = {
      {kPart, "part", Kind::nested, at_most(2), 1000, &kHoldSchema}};
  static constexpr Schema kShip("ship", kRules);
  for (std::size_t room : {0, 32, 300}) {
    for (std::size_t size = 0; size < 300; ++size) {
      const std::string label(size, 'x');
      Encoder out(kShip, room);
      for (int i = 0; i < 2; ++i)
        out.put_nested(kPart, [&](Encoder& inner) {
          inner.put_number(kLength, 1'000'000);
          inner.put_text(kLabel, label);
        });
      const Bytes message = std::move(out).finish().value();
      int parts = 0;
      const ConstByteSpan fields = ConstByteSpan(message).subspan(room);
      const Status read = decode(Decoder(fields, kShip), [&](const Field& part) {
        ++parts;
        return decode(part.nested(), [&](const Field& field) -> Status {
          EXPECT_TRUE(field.tag() == kLength ? field.number() == 1'000'000 : field.text() == label);
          return {};
        });
      });
      ASSERT_TRUE(read.ok()) << size << " behind " << room << ": " << read.to_string();
      ASSERT_EQ(parts, 2);
    }
  }
}

TEST(EncoderTest, refuses_a_second_name) {
  Encoder out(kBoatSchema);
  out.put_text(kName, "a");
  out.put_text(kName, "b");
  expect_refusal(out, Code::invalid_argument, "more than 1 time");
}

TEST(EncoderTest, refuses_a_missing_field) {
  Encoder out(kBoatSchema);
  expect_refusal(out, Code::invalid_argument, "boat: field name (required 1) is missing");
}

TEST(EncoderTest, what_fails_inside_fails_the_whole) {
  Encoder out(kBoatSchema);
  out.put_text(kName, "a");
  out.put_nested(kPart, [](Encoder& part) { part.put_number(kLength, 1'000'001); });
  expect_refusal(out, Code::out_of_range, "boat.part: field length (required 1)");
}

TEST(EncoderTest, refuses_a_missing_field_inside) {
  Encoder out(kBoatSchema);
  out.put_text(kName, "a");
  out.put_nested(kPart, [](Encoder&) {});
  expect_refusal(out, Code::invalid_argument, "boat.part: field length (required 1) is missing");
}

TEST(EncoderTest, refuses_too_many_bytes_inside) {
  static constexpr FieldRule kRules[] = {{kPart, "part", Kind::nested, kOne, 3, &kPartSchema}};
  static constexpr Schema kSmall("small", kRules);
  Encoder out(kSmall);
  out.put_nested(kPart, [](Encoder& part) { part.put_number(kLength, 1); });
  expect_refusal(out, Code::out_of_range, "has bytes: 4; at most 3");
}

void put_chain(Encoder& out, std::size_t depth) {
  if (depth != 0) out.put_nested(kChild, [=](Encoder& inner) { put_chain(inner, depth - 1); });
}

TEST(EncoderTest, nests_as_deep_as_the_decoder_reads_and_no_deeper) {
  Encoder deep(kNodeSchema);
  put_chain(deep, kMaxDepth);
  EXPECT_TRUE(std::move(deep).finish().ok());
  Encoder deeper(kNodeSchema);
  put_chain(deeper, kMaxDepth + 1);
  expect_refusal(deeper, Code::out_of_range, "nested deeper than 8");
}

TEST(EncoderTest, after_a_failure_nothing_is_called_or_written) {
  Encoder out(kBoatSchema);
  out.put_number(kName, 1);
  out.put_nested(kPart, [](Encoder&) { ADD_FAILURE() << "called"; });
  expect_refusal(out, Code::invalid_argument, "is number");
}

}  // namespace
}  // namespace towpath::wire
