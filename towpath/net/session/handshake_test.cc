// A handshake, and everything that somebody on the wire may do to one.
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/net/session/handshake.h>

namespace towpath::net {
namespace {

const std::string kSecret = "a secret of 32 bytes, as it were";

SessionTerms terms(const std::string& secret = kSecret, std::string backend = "tcp") {
  return {Secret(secret), std::move(backend)};
}

SessionParty party(const std::string& name, std::uint64_t instance) {
  const std::string data = "data of " + name;
  return {.agent = {name, 7},
          .instance = instance,
          .data = {as_bytes(data).begin(), as_bytes(data).end()}};
}

class HandshakeTest : public ::testing::Test {
 protected:
  DialHandshake dial() const {
    return DialHandshake::begin(terms(), dialler_, {listener_.agent, listener_.instance}).value();
  }
  Result<AcceptHandshake> accept(ConstByteSpan hello) const {
    return AcceptHandshake::begin(terms(), listener_, hello);
  }
  static void expect_denied(const Status& status, std::string_view why) {
    EXPECT_EQ(status.code(), Code::denied) << status.to_string();
    EXPECT_NE(status.message().find(why), std::string_view::npos) << status.to_string();
  }

  const SessionParty dialler_ = party("near", 11);
  const SessionParty listener_ = party("far", 22);
};

TEST_F(HandshakeTest, both_sides_know_each_other_and_share_keys) {
  const DialHandshake near = dial();
  const auto far = accept(near.hello());
  ASSERT_TRUE(far.ok()) << far.status().to_string();
  EXPECT_EQ(far->dialler().agent, dialler_.agent);
  EXPECT_EQ(far->dialler().instance, dialler_.instance);
  EXPECT_EQ(far->dialler().data, dialler_.data);
  const auto outcome = near.take(far->answer());
  ASSERT_TRUE(outcome.ok()) << outcome.status().to_string();
  EXPECT_EQ(outcome->listener_data, listener_.data);
  const auto keys = far->take(outcome->confirmation);
  ASSERT_TRUE(keys.ok()) << keys.status().to_string();
  EXPECT_EQ(to_hex(outcome->keys.sending.key.bytes()), to_hex(keys->receiving.key.bytes()));
  EXPECT_EQ(to_hex(outcome->keys.receiving.key.bytes()), to_hex(keys->sending.key.bytes()));
  EXPECT_NE(to_hex(keys->sending.key.bytes()), to_hex(keys->receiving.key.bytes()));
}

TEST_F(HandshakeTest, seals_are_made_by_aes_where_both_sides_have_it) {
  for (const bool near_has : {false, true}) {
    for (const bool far_has : {false, true}) {
      SessionParty self = dialler_, other = listener_;
      self.has_aes = near_has, other.has_aes = far_has;
      const auto near = DialHandshake::begin(terms(), self, {other.agent, other.instance}).value();
      const auto far = AcceptHandshake::begin(terms(), other, near.hello()).value();
      const auto outcome = near.take(far.answer()).value();
      const auto expected =
          near_has && far_has ? Mac::Algorithm::aes_cmac : Mac::Algorithm::siphash;
      EXPECT_EQ(outcome.keys.sending.algorithm, expected);
      EXPECT_EQ(far.take(outcome.confirmation).value().receiving.algorithm, expected);
    }
  }
}

TEST_F(HandshakeTest, secret_never_travels_and_keys_are_of_one_handshake) {
  std::string first_key;
  for (int round = 0; round < 2; ++round) {
    const DialHandshake near = dial();
    const auto far = accept(near.hello()).value();
    const auto outcome = near.take(far.answer()).value();
    for (const ConstByteSpan sent :
         {near.hello(), far.answer(), ConstByteSpan(outcome.confirmation)})
      EXPECT_EQ(as_text(sent).find(kSecret.substr(0, 16)), std::string_view::npos);
    EXPECT_NE(to_hex(outcome.keys.sending.key.bytes()), first_key);
    first_key = to_hex(outcome.keys.sending.key.bytes());
  }
}

TEST_F(HandshakeTest, who_does_not_hold_the_secret_is_denied_on_both_sides) {
  const std::string other(kSecret.size(), 'x');
  const auto intruder =
      DialHandshake::begin(terms(other), dialler_, {listener_.agent, listener_.instance}).value();
  expect_denied(accept(intruder.hello()).status(), "does not hold the secret");

  const DialHandshake near = dial();
  // What an attacker can make of a hello that was meant for another.
  const auto theirs =
      DialHandshake::begin(terms(other), dialler_, {listener_.agent, listener_.instance}).value();
  const auto attacker = AcceptHandshake::begin(terms(other), listener_, theirs.hello()).value();
  expect_denied(near.take(attacker.answer()).status(), "does not hold the secret");
}

TEST_F(HandshakeTest, replayed_messages_are_denied) {
  const DialHandshake before = dial();
  const auto answered_before = accept(before.hello()).value();
  const auto outcome_before = before.take(answered_before.answer()).value();

  const DialHandshake now = dial();
  expect_denied(now.take(answered_before.answer()).status(), "another handshake");
  // A hello that was recorded is answered, and leads no further.
  const auto answered_again = accept(before.hello());
  ASSERT_TRUE(answered_again.ok());
  expect_denied(answered_again->take(outcome_before.confirmation).status(), "another handshake");
  // Nor does the answer that it drew help against the one who dials now.
  expect_denied(now.take(answered_again->answer()).status(), "another handshake");
}

TEST_F(HandshakeTest, reflected_messages_are_denied) {
  const DialHandshake near = dial();
  expect_denied(near.take(near.hello()).status(), "in place of an answer");
  const auto far = accept(near.hello()).value();
  expect_denied(far.take(far.answer()).status(), "in place of a confirmation");
  expect_denied(far.take(near.hello()).status(), "in place of a confirmation");
  expect_denied(accept(far.answer()).status(), "in place of a hello");
  // An answer whose step is changed into that of a hello keeps the proof of an answer.
  Bytes turned(far.answer().begin(), far.answer().end());
  turned[5] = std::byte{1};
  expect_denied(accept(turned).status(), "proves nothing");
  // To the dialler's own listener, even if both had one secret.
  expect_denied(AcceptHandshake::begin(terms(), dialler_, near.hello()).status(), "redirected");
}

TEST_F(HandshakeTest, redirected_messages_are_denied) {
  const DialHandshake near = dial();
  const SessionParty another = party("far", 23);  // its next life, with the same secret
  expect_denied(AcceptHandshake::begin(terms(), another, near.hello()).status(), "redirected");
  expect_denied(AcceptHandshake::begin(terms(kSecret, "ucx"), listener_, near.hello()).status(),
                "redirected");
  // A holder of the secret who answers as itself.
  SessionParty third = party("third", listener_.instance);
  const auto answered = AcceptHandshake::begin(terms(), third, near.hello()).value();
  expect_denied(near.take(answered.answer()).status(), "in place of far");
  third = listener_;
  third.agent.incarnation = 8;
  const auto reborn = AcceptHandshake::begin(terms(), third, near.hello()).value();
  expect_denied(near.take(reborn.answer()).status(), "in place of far");
}

TEST_F(HandshakeTest, another_version_is_refused_by_name) {
  const DialHandshake near = dial();
  Bytes newer(near.hello().begin(), near.hello().end());
  newer[4] = std::byte{9};
  const Status refused = accept(newer).status();
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.message().find("version 9"), std::string_view::npos) << refused.to_string();
  const auto far = accept(near.hello()).value();
  Bytes older(far.answer().begin(), far.answer().end());
  older[4] = std::byte{0};
  EXPECT_EQ(near.take(older).code(), Code::unsupported);
}

TEST_F(HandshakeTest, every_altered_bit_and_every_cut_is_refused) {
  const DialHandshake near = dial();
  const auto far = accept(near.hello()).value();
  const auto outcome = near.take(far.answer()).value();
  const auto try_all = [](ConstByteSpan good, auto take) {
    Bytes bad(good.begin(), good.end());
    for (std::size_t bit = 0; bit < 8 * bad.size(); ++bit) {
      bad[bit / 8] ^= std::byte(1U << (bit % 8));
      EXPECT_FALSE(take(bad).ok()) << bit;
      bad[bit / 8] ^= std::byte(1U << (bit % 8));
    }
    for (std::size_t size = 0; size < good.size(); ++size)
      EXPECT_FALSE(take(good.first(size)).ok()) << size;
    bad.push_back(std::byte{0});
    EXPECT_FALSE(take(bad).ok());
    EXPECT_TRUE(take(good).ok());
  };
  try_all(near.hello(), [&](ConstByteSpan hello) { return accept(hello).status(); });
  try_all(far.answer(), [&](ConstByteSpan answer) { return near.take(answer).status(); });
  try_all(outcome.confirmation, [&](ConstByteSpan last) { return far.take(last).status(); });
}

TEST_F(HandshakeTest, secret_of_less_than_128_bits_is_refused) {
  for (const std::size_t bytes : {0UL, 1UL, kMinSecretBytes - 1}) {
    const SessionTerms weak = terms(std::string(bytes, 's'));
    const auto near = DialHandshake::begin(weak, dialler_, {listener_.agent, 22});
    EXPECT_EQ(near.code(), Code::invalid_argument);
    EXPECT_EQ(AcceptHandshake::begin(weak, listener_, dial().hello()).code(),
              Code::invalid_argument);
  }
  EXPECT_TRUE(DialHandshake::begin(terms(std::string(kMinSecretBytes, 's')), dialler_,
                                   {listener_.agent, 22})
                  .ok());
}

}  // namespace
}  // namespace towpath::net
