// The bytes themselves: golden examples, and what damage to them leads to.
#include <gtest/gtest.h>

#include <towpath/wire/envelope.h>
#include <towpath/wire/testing/sample.h>

namespace towpath::wire {
namespace {

using testing::decode_boat;
using testing::encode_boat;
using testing::from_hex;
using testing::sample_boat;
using testing::to_hex;

constexpr OpenLimits kFileLimits{
    .type = MessageType::layout, .max_version = 3, .max_payload_bytes = 1024};

Bytes sealed_sample() {
  return seal({.type = MessageType::layout, .version = 3}, encode_boat(sample_boat()).value());
}

TEST(WireFormatTest, golden_payload) {
  EXPECT_EQ(to_hex(encode_boat(sample_boat()).value()),
            "01800205000000"
            "6261726765"  // name: 5 bytes, "barge"
            "020001"
            "ac02"            // note: 300
            "0380030e000000"  // part: 14 bytes
            "018001"
            "07"  //   length: 7
            "02000203000000"
            "626f77"          //   label: 3 bytes, "bow"
            "03800306000000"  // part: 6 bytes
            "018001"
            "c0843d");  //   length: 1000000
}

TEST(WireFormatTest, golden_envelope) {
  EXPECT_EQ(to_hex(seal({.type = MessageType::layout, .version = 3}, as_bytes("lock"))),
            "544f5750"
            "0100"
            "2000"
            "0300"
            "0300"
            "00000000"
            "0400000000000000"
            "003a07094b497ca5"
            "6c6f636b");
}

TEST(WireFormatTest, decoding_gives_what_was_encoded) {
  const Bytes payload = encode_boat(sample_boat()).value();
  EXPECT_EQ(decode_boat(payload).value(), sample_boat());
  EXPECT_EQ(encode_boat(decode_boat(payload).value()).value(), payload);
}

TEST(WireFormatTest, an_envelope_cut_at_any_byte_is_refused) {
  const Bytes sealed = sealed_sample();
  for (std::size_t size = 0; size < sealed.size(); ++size)
    EXPECT_EQ(open(ConstByteSpan(sealed).first(size), kFileLimits).code(), Code::corrupt) << size;
}

TEST(WireFormatTest, every_turned_bit_of_an_envelope_is_noticed) {
  Bytes sealed = sealed_sample();
  ASSERT_TRUE(open(sealed, kFileLimits).ok());
  for (std::size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    sealed[bit / 8] ^= mask;
    EXPECT_FALSE(open(sealed, kFileLimits).ok()) << "bit " << bit;
    sealed[bit / 8] ^= mask;
  }
}

// Cut between two fields, a payload can still be a message: the envelope's length is the proof.
TEST(WireFormatTest, a_payload_cut_at_any_byte_is_refused_or_a_shorter_message) {
  const Bytes payload = encode_boat(sample_boat()).value();
  std::size_t shorter_messages = 0;
  for (std::size_t size = 0; size < payload.size(); ++size) {
    const auto boat = decode_boat(ConstByteSpan(payload).first(size));
    if (!boat.ok()) {
      EXPECT_EQ(boat.code(), Code::corrupt) << size;
      continue;
    }
    EXPECT_EQ(encode_boat(*boat).value().size(), size);
    ++shorter_messages;
  }
  EXPECT_EQ(shorter_messages, 3U);  // after the name, the note and the first part
}

TEST(WireFormatTest, no_turned_bit_of_a_payload_leads_outside_it) {
  Bytes payload = encode_boat(sample_boat()).value();
  for (std::size_t bit = 0; bit < payload.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1U << (bit % 8));
    payload[bit / 8] ^= mask;
    const auto boat = decode_boat(payload);
    if (boat.ok()) {
      EXPECT_TRUE(encode_boat(*boat).ok());
    }
    payload[bit / 8] ^= mask;
  }
}

}  // namespace
}  // namespace towpath::wire
