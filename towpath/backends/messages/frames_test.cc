#include <gtest/gtest.h>

#include <towpath/backends/messages/frames.h>
#include <towpath/backends/messages/handshake.h>
#include <towpath/backends/messages/testing/flat_frame.h>

namespace towpath::backends::messages {
namespace {

using testing::decode_flat;

Bytes frame_of(FrameHeader header, std::initializer_list<Piece> pieces, std::size_t payload) {
  net::MessageBuffer buffer(kFrameBytes);
  FrameWriter frame(buffer, header);
  for (const Piece& piece : pieces) frame.add(piece);
  frame.append(Bytes(payload, std::byte{7}));
  frame.finish();
  EXPECT_EQ(buffer.body_bytes, payload);
  return testing::flat(buffer);
}

constexpr Piece kPiece{.token = 3, .address = 4096, .stride = 64, .length = 16, .count = 2};

TEST(FrameTest, all_fields_come_back) {
  const FrameHeader header{
      .kind = FrameKind::write, .flags = kInUse, .session = 11, .stamp = 22, .echo = 33, .id = 44};
  const Bytes bytes = frame_of(header, {kPiece}, 32);
  const auto frame = decode_flat(bytes);
  ASSERT_TRUE(frame.ok()) << frame.status().to_string();
  EXPECT_EQ(frame->header.flags, kInUse);
  EXPECT_EQ(frame->header.session, 11U);
  EXPECT_EQ(frame->header.stamp, 22U);
  EXPECT_EQ(frame->header.echo, 33U);
  EXPECT_EQ(frame->header.id, 44U);
  ASSERT_EQ(frame->header.count, 1U);
  EXPECT_EQ(frame->piece(0).token, 3U);
  EXPECT_EQ(frame->piece(0).address, 4096U);
  EXPECT_EQ(frame->piece(0).stride, 64U);
  EXPECT_EQ(frame->piece(0).bytes(), 32U);
  EXPECT_EQ(frame->payload_bytes, 32U);
}

TEST(FrameTest, every_cut_is_refused) {
  const Bytes bytes = frame_of({.kind = FrameKind::write}, {kPiece}, 32);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(decode_flat(ConstByteSpan(bytes).first(size)).code(), Code::corrupt) << size;
}

TEST(FrameTest, pieces_without_sense_are_refused) {
  const FrameHeader read{.kind = FrameKind::read};
  EXPECT_TRUE(decode_flat(frame_of(read, {kPiece}, 0)).ok());
  for (const Piece& piece :
       {Piece{.address = 1, .length = 0, .count = 1}, Piece{.address = 1, .length = 1, .count = 0},
        Piece{.address = UINT64_MAX, .length = 2, .count = 1},
        Piece{.address = 1, .stride = UINT64_MAX / 2, .length = 1, .count = 9},
        Piece{.address = 1, .length = kPayloadBytes, .count = 2},
        Piece{.address = 1, .length = UINT32_MAX, .count = UINT32_MAX}})
    EXPECT_EQ(decode_flat(frame_of(read, {piece}, 0)).code(), Code::corrupt);
  EXPECT_EQ(decode_flat(frame_of(read, {}, 0)).code(), Code::corrupt);
  EXPECT_EQ(decode_flat(frame_of(read, {kPiece}, 1)).code(), Code::corrupt);
  EXPECT_EQ(decode_flat(frame_of({.kind = FrameKind::alive}, {}, 1)).code(), Code::corrupt);
}

TEST(FrameTest, refusals_must_ascend_and_have_a_reason) {
  const auto with = [](std::initializer_list<Refusal> refusals) {
    net::MessageBuffer buffer(kFrameBytes);
    FrameWriter frame(buffer, {.kind = FrameKind::wrote});
    for (const Refusal& refusal : refusals) frame.add(refusal);
    frame.finish();
    return decode_flat(testing::flat(buffer)).code();
  };
  EXPECT_EQ(with({{1, Code::not_found}, {5, Code::out_of_range}}), Code::ok);
  EXPECT_EQ(with({{5, Code::not_found}, {5, Code::not_found}}), Code::corrupt);
  EXPECT_EQ(with({{1, Code::ok}}), Code::corrupt);
  EXPECT_EQ(with({{kMaxPieces, Code::not_found}}), Code::corrupt);
}

TEST(HandshakeTest, values_come_back) {
  const Hello hello{.info = {.instance = 5, .address = to_bytes("address")},
                    .from = {std::string("a\0b", 3), 9},
                    .your_session = 77};
  const auto again = decode_hello(encode(hello));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->info.instance, 5U);
  EXPECT_EQ(as_text(again->info.address), "address");
  EXPECT_EQ(again->from, hello.from);
  EXPECT_EQ(again->your_session, 77U);
  const auto key = decode_key(encode(MemoryKey{1, 2, 3}));
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->length, 3U);
}

TEST(HandshakeTest, values_without_sense_are_refused) {
  EXPECT_FALSE(decode_connection_info(encode(ConnectionInfo{0, to_bytes("x")})).ok());
  EXPECT_FALSE(decode_connection_info(encode(ConnectionInfo{1, {}})).ok());
  EXPECT_FALSE(decode_key(encode(MemoryKey{0, 2, 3})).ok());
  EXPECT_FALSE(decode_key(encode(MemoryKey{1, 2, 0})).ok());
  EXPECT_FALSE(decode_key(encode(MemoryKey{1, UINT64_MAX, 2})).ok());
  const Bytes hello = encode(Hello{{1, to_bytes("x")}, {"n", 1}, 0});
  for (std::size_t size = 0; size < hello.size(); ++size)
    EXPECT_FALSE(decode_hello(ConstByteSpan(hello).first(size)).ok()) << size;
}

}  // namespace
}  // namespace towpath::backends::messages
