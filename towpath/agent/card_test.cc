#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/card.h>

namespace towpath::agent {
namespace {

Card sample() {
  Card card{.identity = {"prefill/0", 77}, .generation = 3, .partial = true};
  card.backends = {{"shm", to_bytes("how to connect")}, {"posix", {}}};
  card.regions.push_back({.region = {.kind = MemoryKind::system, .address = 0x1000, .length = 4096},
                          .keys = {{0, to_bytes("key")}, {1, {}}}});
  card.regions.push_back({.region = {.kind = MemoryKind::object,
                                     .address = 0,
                                     .length = 10,
                                     .device_id = 9,
                                     .key = "bucket/object"},
                          .keys = {}});
  return card;
}

TEST(CardTest, comes_back_as_it_was) {
  const Card card = sample();
  const auto again = decode_card(*encode(card));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->identity, card.identity);
  EXPECT_EQ(again->generation, 3U);
  EXPECT_TRUE(again->partial);
  ASSERT_EQ(again->backends.size(), 2U);
  EXPECT_EQ(again->backends[0].connection_info, card.backends[0].connection_info);
  ASSERT_EQ(again->regions.size(), 2U);
  EXPECT_EQ(again->regions[0].keys, card.regions[0].keys);
  EXPECT_EQ(again->regions[1].region.kind, MemoryKind::object);
  EXPECT_EQ(again->regions[1].region.device_id, 9U);
  EXPECT_EQ(again->regions[1].region.key, "bucket/object");
}

TEST(CardTest, what_makes_no_sense_is_refused) {
  const auto code = [](auto change) {
    Card card = sample();
    change(card);
    const auto bytes = encode(card);
    return bytes.ok() ? decode_card(*bytes).code() : bytes.code();
  };
  EXPECT_EQ(code([](Card& card) { card.identity.incarnation = 0; }), Code::corrupt);
  EXPECT_EQ(code([](Card& card) { card.identity.name.clear(); }), Code::corrupt);
  EXPECT_EQ(code([](Card& card) { card.identity.name.resize(2000); }), Code::out_of_range);
  EXPECT_EQ(code([](Card& card) { card.regions[0].region.length = 0; }), Code::corrupt);
  EXPECT_EQ(code([](Card& card) { card.regions[0].region.address = UINT64_MAX; }), Code::corrupt);
  EXPECT_EQ(code([](Card& card) { card.regions[0].keys[0].first = 2; }), Code::corrupt);
  EXPECT_EQ(code([](Card& card) { card.regions[0].region.kind = static_cast<MemoryKind>(9); }),
            Code::corrupt);
}

TEST(CardTest, every_truncation_and_every_flipped_bit_is_refused) {
  const Bytes good = *encode(sample());
  for (std::size_t length = 0; length < good.size(); ++length)
    ASSERT_FALSE(decode_card(ConstByteSpan(good).first(length)).ok()) << length;
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    ASSERT_FALSE(decode_card(bad).ok()) << "bit " << bit;
  }
}

}  // namespace
}  // namespace towpath::agent
