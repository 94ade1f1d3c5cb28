#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/net/session/seal.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {
namespace {

SealKey key(unsigned number) {
  return {.key = derive_key(as_bytes("sixteen bytes!!!"), {}, cat("key ", number))};
}

Bytes sealed(Sealer& sealer, std::string_view text) {
  Bytes head(text.size() + kSealBytes);
  std::ranges::copy(as_bytes(text), head.begin());
  sealer.seal(head);
  return head;
}

std::vector<Bytes> some_sealed(std::size_t count) {
  Sealer sealer(key(1));
  std::vector<Bytes> heads;
  for (std::size_t i = 0; i < count; ++i) heads.push_back(sealed(sealer, cat("head ", i)));
  return heads;
}

void expect_denied(const Status& status, std::string_view why) {
  EXPECT_EQ(status.code(), Code::denied);
  EXPECT_NE(status.message().find(why), std::string_view::npos) << status.to_string();
}

TEST(SealTest, sealed_heads_pass_in_their_order) {
  for (const Delivery delivery : {Delivery::ordered, Delivery::unordered}) {
    SealReader reader(key(1), delivery);
    for (const Bytes& head : some_sealed(10)) EXPECT_TRUE(reader.check(head).ok());
  }
}

TEST(SealTest, every_altered_bit_is_denied) {
  const Bytes head = some_sealed(1).front();
  for (std::size_t bit = 0; bit < 8 * head.size(); ++bit) {
    SealReader reader(key(1), Delivery::ordered);
    Bytes bad = head;
    bad[bit / 8] ^= std::byte(1U << (bit % 8));
    expect_denied(reader.check(bad), "forged or altered");
    EXPECT_TRUE(reader.check(head).ok()) << "what was refused counts for nothing";
  }
}

TEST(SealTest, heads_of_another_key_and_of_no_seal_are_denied) {
  SealReader reader(key(2), Delivery::ordered);
  expect_denied(reader.check(some_sealed(1).front()), "forged");
  for (std::size_t size = 0; size < kSealBytes; ++size)
    expect_denied(reader.check(Bytes(size)), "no seal");
}

TEST(SealTest, ordered_delivery_takes_neither_repetition_nor_gap) {
  const auto heads = some_sealed(3);
  SealReader reader(key(1), Delivery::ordered);
  expect_denied(reader.check(heads[1]), "left out");
  EXPECT_TRUE(reader.check(heads[0]).ok());
  expect_denied(reader.check(heads[0]), "repeated");
  expect_denied(reader.check(heads[2]), "left out");
}

TEST(SealTest, unordered_delivery_takes_each_once_in_any_order) {
  const auto heads = some_sealed(5);
  SealReader reader(key(1), Delivery::unordered);
  for (const std::size_t i : {2, 0, 4, 1, 3}) EXPECT_TRUE(reader.check(heads[i]).ok()) << i;
  for (const Bytes& head : heads) expect_denied(reader.check(head), "repeated");
}

TEST(SealTest, unordered_delivery_forgets_nothing_within_its_window_and_takes_nothing_before) {
  const auto heads = some_sealed(3 * kMaxOvertaken);
  SealReader reader(key(1), Delivery::unordered);
  for (std::size_t i = 0; i < heads.size(); i += 2) ASSERT_TRUE(reader.check(heads[i]).ok());
  // The last that was checked has number heads.size() - 1, counted from 1.
  const std::size_t first_within = heads.size() - 1 - kMaxOvertaken;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const Status taken = reader.check(heads[i]);
    if (i == heads.size() - 1) break;  // moves the window
    EXPECT_EQ(taken.ok(), i % 2 == 1 && i >= first_within) << i;
  }
}

TEST(SealTest, long_gap_leaves_nothing_of_the_old_window) {
  Sealer sealer(key(1));
  SealReader reader(key(1), Delivery::unordered);
  std::vector<Bytes> heads;
  for (std::size_t i = 0; i < 2 * kMaxOvertaken; ++i) heads.push_back(sealed(sealer, "head"));
  ASSERT_TRUE(reader.check(heads.front()).ok());
  ASSERT_TRUE(reader.check(heads.back()).ok());
  for (std::size_t i = kMaxOvertaken; i + 1 < heads.size(); ++i)
    ASSERT_TRUE(reader.check(heads[i]).ok()) << i;
}

TEST(SealTest, proof_of_a_body_is_none_of_a_head) {
  Sealer sealer(key(1));
  const SealReader reader(key(1), Delivery::ordered);
  const ConstByteSpan body = as_bytes("a notification");
  EXPECT_TRUE(reader.proves_body(body, sealer.prove_body(body)));
  EXPECT_FALSE(reader.proves_body(as_bytes("another"), sealer.prove_body(body)));
  Bytes head(body.size() + 8 + Mac::kProofBytes);
  std::ranges::copy(body, head.begin());
  wire::store(std::span(head).subspan(body.size()), std::uint64_t{1});
  const auto proof = sealer.prove_body(ConstByteSpan(head).first(body.size() + 8));
  wire::store(std::span(head).subspan(body.size() + 8), proof.low);
  wire::store(std::span(head).subspan(body.size() + 16), proof.high);
  SealReader fresh(key(1), Delivery::ordered);
  expect_denied(fresh.check(head), "forged");
}

}  // namespace
}  // namespace towpath::net
