#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/wire/envelope.h>
#include <towpath/wire/little_endian.h>

namespace towpath::wire {
namespace {

using ::testing::HasSubstr;

constexpr OpenLimits kLimits{
    .type = MessageType::metadata, .max_version = 2, .max_payload_bytes = 8};

Bytes sealed() { return seal({.type = MessageType::metadata, .version = 2}, as_bytes("payload!")); }

template <typename T>
Bytes with(T value, std::size_t offset) {
  Bytes bytes = sealed();
  store(ByteSpan(bytes).subspan(offset), value);
  return bytes;
}

void expect_refusal(const Bytes& bytes, Code code, std::string_view words) {
  const Status status = open(bytes, kLimits).status();
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_THAT(status.to_string(), HasSubstr(std::string(words)));
}

TEST(EnvelopeTest, opens_what_was_sealed_without_a_copy) {
  const Bytes bytes = sealed();
  const Message message = open(bytes, kLimits).value();
  EXPECT_EQ(message.kind, (MessageKind{MessageType::metadata, 2}));
  EXPECT_EQ(as_text(message.payload), "payload!");
  EXPECT_EQ(message.payload.data(), bytes.data() + kHeaderBytes);
}

TEST(EnvelopeTest, in_place_it_is_the_same_whatever_stood_in_the_header) {
  Bytes message(kHeaderBytes, std::byte{0xff});
  const ConstByteSpan payload = as_bytes("payload!");
  message.insert(message.end(), payload.begin(), payload.end());
  seal_in_place({.type = MessageType::metadata, .version = 2}, message);
  EXPECT_EQ(message, sealed());
}

TEST(EnvelopeTest, an_empty_payload_is_a_message) {
  EXPECT_TRUE(open(seal({MessageType::metadata, 1}, {}), kLimits).value().payload.empty());
}

TEST(EnvelopeTest, a_header_alone_reports_how_much_to_expect) {
  const Bytes bytes = sealed();
  const Header header = read_header(ConstByteSpan(bytes).first(kHeaderBytes), kLimits).value();
  EXPECT_EQ(header.total_bytes(), bytes.size());
}

TEST(EnvelopeTest, refuses_fewer_bytes_than_a_header) {
  expect_refusal(Bytes(31), Code::corrupt, "31 bytes of at least 32");
}

TEST(EnvelopeTest, refuses_what_does_not_begin_like_an_envelope) {
  expect_refusal(with(std::uint8_t{'X'}, 0), Code::corrupt, "begins with 'XOWP'");
}

TEST(EnvelopeTest, refuses_another_version_of_the_envelope) {
  expect_refusal(with(std::uint16_t{2}, 4), Code::unsupported,
                 "version 2; this side knows up to 1");
  expect_refusal(with(std::uint16_t{2}, 4), Code::unsupported, "upgrade this side");
  expect_refusal(with(std::uint16_t{0}, 4), Code::corrupt, "envelope version 0");
}

TEST(EnvelopeTest, refuses_a_header_length_out_of_bounds) {
  expect_refusal(with(std::uint16_t{31}, 6), Code::corrupt, "header of 31 bytes");
  expect_refusal(with(std::uint16_t{257}, 6), Code::corrupt, "header of 257 bytes");
}

TEST(EnvelopeTest, refuses_another_type_by_name) {
  expect_refusal(with(std::uint16_t{3}, 8), Code::invalid_argument,
                 "type layout (3) instead of metadata");
  expect_refusal(with(std::uint16_t{999}, 8), Code::invalid_argument, "type unknown (999)");
}

TEST(EnvelopeTest, refuses_a_newer_message) {
  expect_refusal(with(std::uint16_t{3}, 10), Code::unsupported,
                 "metadata version 3; this side knows");
  expect_refusal(with(std::uint16_t{0}, 10), Code::corrupt, "metadata version 0");
}

TEST(EnvelopeTest, refuses_a_reserved_word_in_use) {
  expect_refusal(with(std::uint32_t{1}, 12), Code::corrupt, "reserved word is 0x1");
}

TEST(EnvelopeTest, refuses_a_payload_over_the_limit) {
  expect_refusal(with(std::uint64_t{9}, 16), Code::out_of_range,
                 "9 bytes; this side takes up to 8");
}

TEST(EnvelopeTest, refuses_a_length_that_would_wrap_whatever_the_limit) {
  OpenLimits none = kLimits;
  none.max_payload_bytes = UINT64_MAX;
  const Bytes bytes = with(std::uint64_t{UINT64_MAX - 8}, 16);
  EXPECT_EQ(read_header(bytes, none).code(), Code::out_of_range);
}

TEST(EnvelopeTest, refuses_more_or_fewer_bytes_than_it_says) {
  expect_refusal(with(std::uint64_t{7}, 16), Code::corrupt, "says 39 bytes, but 40 are here");
  Bytes longer = sealed();
  longer.push_back(std::byte{0});
  expect_refusal(longer, Code::corrupt, "says 40 bytes, but 41 are here");
}

TEST(EnvelopeTest, refuses_a_wrong_checksum) {
  expect_refusal(with(std::uint64_t{0}, 24), Code::corrupt, "but says 0x0");
  expect_refusal(with(std::uint8_t{'P'}, 32), Code::corrupt, "has checksum");
}

// Small ones are hashed at once, others in parts.
TEST(EnvelopeTest, proves_messages_of_every_size) {
  const OpenLimits limits{
      .type = MessageType::metadata, .max_version = 1, .max_payload_bytes = 512};
  for (std::size_t size = 1; size <= 512; ++size) {
    Bytes bytes = seal({MessageType::metadata, 1}, Bytes(size, std::byte{7}));
    ASSERT_TRUE(open(bytes, limits).ok()) << size;
    bytes.back() ^= std::byte{1};
    ASSERT_EQ(open(bytes, limits).code(), Code::corrupt) << size;
  }
}

// A later version may add to the header what this one need not know.
TEST(EnvelopeTest, skips_what_a_longer_header_adds) {
  const Bytes plain = seal({MessageType::metadata, 1}, as_bytes("12345678lock"));
  Bytes longer = plain;
  store(ByteSpan(longer).subspan(6), std::uint16_t{40});
  store(ByteSpan(longer).subspan(16), std::uint64_t{4});
  const std::string words = open(longer, kLimits).status().to_string();
  ASSERT_THAT(words, HasSubstr("has checksum 0x"));
  const std::string digits = words.substr(words.find("0x") + 2);
  store(ByteSpan(longer).subspan(24), std::uint64_t{std::stoull(digits, nullptr, 16)});
  EXPECT_EQ(as_text(open(longer, kLimits).value().payload), "lock");
}

TEST(EnvelopeTest, every_type_has_a_name) {
  for (std::uint16_t type = 1; type <= 8; ++type)
    EXPECT_NE(name_of(static_cast<MessageType>(type)), "unknown") << type;
  EXPECT_EQ(name_of(static_cast<MessageType>(0)), "unknown");
}

}  // namespace
}  // namespace towpath::wire
