#include <string>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/rendezvous/frame.h>
#include <towpath/wire/encoder.h>

namespace towpath::rendezvous {
namespace {

constexpr std::size_t kLimit = 1000;

Result<Frame> reread(const Bytes& sealed) {
  TOWPATH_TRY(const wire::Message message, wire::open(sealed, frame_limits(kLimit)));
  return decode_frame(message.payload);
}

TEST(FrameTest, every_kind_comes_out_as_it_went_in) {
  for (const FrameKind kind : {FrameKind::fetch, FrameKind::publish, FrameKind::withdraw,
                               FrameKind::metadata, FrameKind::done}) {
    const MetadataName name(std::string("\0any\xff bytes", 11), "label");
    const auto frame = reread(encode({.kind = kind, .name = name, .metadata = to_bytes("card")}));
    ASSERT_TRUE(frame.ok()) << frame.status().to_string();
    EXPECT_EQ(frame->kind, kind);
    EXPECT_EQ(frame->name, name);
    EXPECT_EQ(frame->metadata, to_bytes("card"));
    EXPECT_TRUE(frame->why.ok());
  }
}

TEST(FrameTest, largest_frame_fits_the_limits_and_no_larger) {
  const MetadataName name(std::string(kMaxAgentName, 'n'), std::string(kMaxLabel, 'l'));
  EXPECT_TRUE(reread(encode({FrameKind::metadata, name, Bytes(kLimit)})).ok());
  EXPECT_EQ(reread(encode({FrameKind::metadata, name, Bytes(kLimit + 1000)})).code(),
            Code::out_of_range);
}

TEST(FrameTest, refusals_carry_code_and_message) {
  const auto frame = reread(encode(
      {.kind = FrameKind::refused, .name = "n", .why = error(Code::not_found, "no metadata")}));
  EXPECT_EQ(frame->why.code(), Code::not_found);
  EXPECT_EQ(frame->why.message(), "the peer refuses: no metadata");
  const auto bare = reread(encode({.kind = FrameKind::refused, .name = "n"}));
  EXPECT_EQ(bare->why.code(), Code::corrupt) << "a refusal that gives no code";
}

// A payload of fields that encode() would not write.
Bytes odd_payload(std::uint64_t kind, std::uint64_t code) {
  static constexpr wire::FieldRule kRules[] = {
      {wire::required(1), "kind", wire::Kind::number},
      {wire::required(2), "agent", wire::Kind::bytes},
      {wire::required(5), "code", wire::Kind::number},
  };
  static constexpr wire::Schema kSchema("odd", kRules);
  wire::Encoder out(kSchema);
  out.put_number(wire::required(1), kind);
  out.put_text(wire::required(2), "n");
  out.put_number(wire::required(5), code);
  return std::move(out).finish().value();
}

TEST(FrameTest, lies_are_refused_by_name) {
  EXPECT_EQ(decode_frame(odd_payload(0, 1)).code(), Code::corrupt);
  EXPECT_EQ(decode_frame(odd_payload(7, 1)).code(), Code::out_of_range);
  EXPECT_EQ(decode_frame(odd_payload(6, 300)).code(), Code::out_of_range);
  EXPECT_EQ(decode_frame(odd_payload(6, 99))->why.code(), Code::corrupt) << "an unknown code";
  EXPECT_EQ(decode_frame(odd_payload(6, 0))->why.code(), Code::corrupt) << "a refusal that says ok";
  EXPECT_EQ(decode_frame({}).code(), Code::corrupt);
}

}  // namespace
}  // namespace towpath::rendezvous
