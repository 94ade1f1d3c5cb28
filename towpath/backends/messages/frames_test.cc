#include <gtest/gtest.h>

#include <towpath/backends/messages/connection_info.h>
#include <towpath/backends/messages/frames.h>
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

TEST(FrameTest, note_has_one_proof_and_hello_no_seal) {
  net::MessageBuffer buffer(kFrameBytes);
  FrameWriter note(buffer, {.kind = FrameKind::note});
  note.add(net::Mac::Proof{11, 22});
  note.append(as_bytes("text"));
  note.finish();
  const auto frame = decode_frame(head_of(buffer), buffer.body_bytes);
  ASSERT_TRUE(frame.ok()) << frame.status().to_string();
  EXPECT_TRUE(frame->payload_proof() == (net::Mac::Proof{11, 22}));
  EXPECT_EQ(decode_flat(frame_of({.kind = FrameKind::note}, {}, 4)).code(), Code::corrupt);

  net::MessageBuffer second(kFrameBytes);
  FrameWriter hello(second, {.kind = FrameKind::hello});
  hello.append(as_bytes("handshake"));
  hello.finish();
  EXPECT_EQ(head_of(second).size(), kHeaderBytes);
  EXPECT_TRUE(decode_frame(head_of(second), second.body_bytes).ok());
}

TEST(FrameTest, trailer_stands_behind_the_payload_of_data_alone) {
  const auto decoded = [](FrameKind kind, std::uint64_t body_bytes) {
    static net::MessageBuffer buffer(kFrameBytes);
    FrameWriter(buffer, {.kind = kind, .flags = kTrailer}).finish();
    return decode_frame(head_of(buffer), body_bytes);
  };
  EXPECT_EQ(decoded(FrameKind::data, sizeof(Trailer) + 7)->payload_bytes, 7U);
  EXPECT_EQ(decoded(FrameKind::data, kMaxBodyBytes)->payload_bytes, kPayloadBytes);
  for (const std::uint64_t wrong : {std::uint64_t{0}, std::uint64_t{31}, kMaxBodyBytes + 1})
    EXPECT_EQ(decoded(FrameKind::data, wrong).code(), Code::corrupt) << wrong;
  EXPECT_FALSE(decoded(FrameKind::alive, 0)->has_trailer()) << "there it asks for an answer";
}

TEST(FrameTest, another_version_is_refused_by_name) {
  Bytes bytes = frame_of({.kind = FrameKind::alive}, {}, 0);
  bytes[3] = std::byte{4};
  const Status refused = decode_flat(bytes).status();
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.message().find("version 4"), std::string_view::npos) << refused.to_string();
  bytes[0] = std::byte{'t'};
  EXPECT_EQ(decode_flat(bytes).code(), Code::corrupt);
}

ConnectionInfo some_info() { return make_connection_info(as_bytes("address")); }

TEST(ConnectionInfoTest, values_come_back) {
  const ConnectionInfo info = some_info();
  const auto again = decode_connection_info(encode(info));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->instance, info.instance);
  EXPECT_EQ(as_text(again->address), "address");
  EXPECT_EQ(again->secret.reveal(), info.secret.reveal());
  EXPECT_EQ(info.secret.reveal().size(), 32U);
  EXPECT_NE(some_info().secret.reveal(), info.secret.reveal());
  const auto key = decode_key(encode(MemoryKey{1, 2, 3}));
  ASSERT_TRUE(key.ok());
  EXPECT_EQ(key->length, 3U);
  const auto party = decode_party_data(encode(PartyData{7, to_bytes("there")}));
  ASSERT_TRUE(party.ok());
  EXPECT_EQ(party->session, 7U);
  EXPECT_EQ(as_text(party->address), "there");
}

TEST(ConnectionInfoTest, values_without_sense_are_refused) {
  ConnectionInfo none = some_info();
  none.instance = 0;
  EXPECT_FALSE(decode_connection_info(encode(none)).ok());
  ConnectionInfo nowhere = some_info();
  nowhere.address = {};
  EXPECT_FALSE(decode_connection_info(encode(nowhere)).ok());
  ConnectionInfo weak = some_info();
  weak.secret = Secret("fifteen bytes!!");
  const auto refused = decode_connection_info(encode(weak));
  EXPECT_NE(refused.status().message().find("128 bits"), std::string_view::npos)
      << refused.status().to_string();
  EXPECT_FALSE(decode_key(encode(MemoryKey{0, 2, 3})).ok());
  EXPECT_FALSE(decode_key(encode(MemoryKey{1, 2, 0})).ok());
  EXPECT_FALSE(decode_key(encode(MemoryKey{1, UINT64_MAX, 2})).ok());
  EXPECT_FALSE(decode_party_data(encode(PartyData{0, {}})).ok());
  const Bytes info = encode(some_info());
  for (std::size_t size = 0; size < info.size(); ++size)
    EXPECT_FALSE(decode_connection_info(ConstByteSpan(info).first(size)).ok()) << size;
}

// Instance 5 and address "x", as the release before wrote them: two fields.
TEST(ConnectionInfoTest, release_before_is_refused_by_name) {
  const Bytes good = encode(some_info());
  Bytes old = good;
  // The two fields stand first; what is behind them is of this release.
  for (std::size_t size = good.size(); size > 0; --size) {
    old.resize(size);
    const auto refused = decode_connection_info(old);
    if (refused.code() != Code::unsupported) continue;
    EXPECT_NE(refused.status().message().find("prove nothing"), std::string_view::npos);
    return;
  }
  FAIL() << "no cut of it was taken for the release before";
}

}  // namespace
}  // namespace towpath::backends::messages
