#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/net/session/handshake.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {
namespace {

using namespace wire;

// ---- One message: docs/formats/session.md

enum class Step : std::uint8_t { hello = 1, answer = 2, confirmation = 3 };

constexpr std::string_view name_of(Step step) {
  switch (step) {
    case Step::hello: return "a hello";
    case Step::answer: return "an answer";
    case Step::confirmation: return "a confirmation";
  }
  return "an unknown step";
}

constexpr std::uint32_t kMagic = 0x48535054;  // "TPSH"
constexpr std::size_t kFrontBytes = 8;
constexpr std::size_t kProofBytes = sizeof(Digest);

constexpr Tag kName = required(1), kIncarnation = required(2), kInstance = required(3),
              kData = required(4);
constexpr FieldRule kPartyRules[] = {
    {kName, "name", Kind::bytes, kOne, kMaxAgentName},
    {kIncarnation, "incarnation", Kind::number, kOne},
    {kInstance, "instance", Kind::number, kOne},
    {kData, "data", Kind::bytes, kOne, kMaxPartyData},
};
constexpr Schema kPartySchema("party of a handshake", kPartyRules);

constexpr Tag kNonce = required(1), kFrom = required(2), kBackend = required(3), kTo = required(4),
              kHasAes = optional(5);
constexpr std::size_t kMaxPartyBytes = kMaxAgentName + kMaxPartyData + 64;
constexpr FieldRule kHelloRules[] = {
    {kNonce, "nonce", Kind::bytes, kOne, sizeof(Nonce)},
    {kFrom, "from", Kind::nested, kOne, kMaxPartyBytes, &kPartySchema},
    {kBackend, "backend", Kind::bytes, kOne, 32},
    {kTo, "to", Kind::number, kOne},
    {kHasAes, "has AES", Kind::number, kAtMostOne},
};
constexpr Schema kHelloSchema("hello of a handshake", kHelloRules);
constexpr FieldRule kAnswerRules[] = {
    {kNonce, "nonce", Kind::bytes, kOne, sizeof(Nonce)},
    {kFrom, "from", Kind::nested, kOne, kMaxPartyBytes, &kPartySchema},
    {kHasAes, "has AES", Kind::number, kAtMostOne},
};
constexpr Schema kAnswerSchema("answer of a handshake", kAnswerRules);

/// What a hello or an answer says; of an answer, `backend` and `to` are empty.
struct Content {
  Nonce nonce{};
  SessionParty from;
  std::string backend;
  std::uint64_t to = 0;
};

Status take_party(SessionParty& party, const Field& field) {
  switch (field.tag()) {
    case kName:
      party.agent.name = field.text();
      return !party.agent.name.empty() ? Status() : field.refuse("empty");
    case kIncarnation:
      party.agent.incarnation = field.number();
      return party.agent.incarnation != 0 ? Status() : field.refuse("0 is no incarnation");
    case kInstance:
      party.instance = field.number();
      return party.instance != 0 ? Status() : field.refuse("0 is no instance");
    default: party.data.assign(field.bytes().begin(), field.bytes().end()); return {};
  }
}

Status take_field(Content& content, const Field& field) {
  switch (field.tag()) {
    case kNonce:
      if (field.bytes().size() != content.nonce.size()) return field.refuse("a nonce has 32 bytes");
      std::ranges::copy(field.bytes(), content.nonce.begin());
      return {};
    case kFrom:
      return decode(field.nested(),
                    [&](const Field& inner) { return take_party(content.from, inner); });
    case kBackend: content.backend = field.text(); return {};
    case kTo: content.to = field.number(); return {};
    default: content.from.has_aes = field.number() != 0; return {};
  }
}

Result<Content> decode_content(ConstByteSpan fields, const Schema& schema) {
  Content content{.from = {.has_aes = false}};  // a release that knows nothing of it says nothing
  TOWPATH_TRY(decode(Decoder(fields, schema),
                     [&](const Field& field) { return take_field(content, field); }));
  return content;
}

Bytes encode(const Content& content, const Schema& schema) {
  Encoder out(schema);
  out.put_bytes(kNonce, content.nonce);
  out.put_nested(kFrom, [&](Encoder& inner) {
    inner.put_text(kName, content.from.agent.name);
    inner.put_number(kIncarnation, content.from.agent.incarnation);
    inner.put_number(kInstance, content.from.instance);
    inner.put_bytes(kData, content.from.data);
  });
  if (&schema == &kHelloSchema) {
    out.put_text(kBackend, content.backend);
    out.put_number(kTo, content.to);
  }
  if (content.from.has_aes) out.put_number(kHasAes, 1);
  auto fields = std::move(out).finish();
  TOWPATH_CHECK(fields.ok(), "what a side says of itself must fit its own schema");
  return *std::move(fields);
}

// ---- Proofs

Digest prove(const SessionTerms& terms, std::initializer_list<ConstByteSpan> exchanged) {
  const SymmetricKey key =
      derive_key(as_bytes(terms.secret.reveal()), {}, "towpath session v1 proofs");
  Bytes transcript;
  for (const ConstByteSpan part : exchanged)
    transcript.insert(transcript.end(), part.begin(), part.end());
  return hmac_sha256(key.bytes(), transcript);
}

/// The message of a step, with its proof over `before` and itself.
Bytes make(Step step, ConstByteSpan fields, const SessionTerms& terms,
           std::initializer_list<ConstByteSpan> before) {
  Bytes message(kFrontBytes);
  store(std::span(message), kMagic);
  message[4] = std::byte{kSessionVersion};
  message[5] = static_cast<std::byte>(step);
  store(std::span(message).subspan(6), static_cast<std::uint16_t>(fields.size()));
  message.insert(message.end(), fields.begin(), fields.end());
  Bytes earlier;
  for (const ConstByteSpan part : before) earlier.insert(earlier.end(), part.begin(), part.end());
  const Digest proof = prove(terms, {earlier, message});
  message.insert(message.end(), proof.begin(), proof.end());
  return message;
}

/// The fields of a message of this step. Errors: corrupt, unsupported, denied.
Result<ConstByteSpan> open(Step step, ConstByteSpan message) {
  if (message.size() < kFrontBytes || load<std::uint32_t>(message) != kMagic)
    return error(Code::corrupt, cat("handshake: ", message.size(), " bytes that are none of it"));
  if (const auto version = load<std::uint8_t>(message.subspan(4)); version != kSessionVersion) {
    return error(
        Code::unsupported,
        cat("handshake: the peer has version ", version, ", this side version ", kSessionVersion),
        "use the same release on both sides");
  }
  if (const auto found = static_cast<Step>(message[5]); found != step) {
    return error(Code::denied, cat("handshake: ", name_of(found), " came in place of ",
                                   name_of(step), ": sent back, repeated or out of turn"));
  }
  const std::size_t fields = load<std::uint16_t>(message.subspan(6));
  if (message.size() != kFrontBytes + fields + kProofBytes) {
    return error(Code::corrupt, cat("handshake: ", name_of(step), " of ", message.size(),
                                    " bytes announces ", fields, " of fields"));
  }
  return message.subspan(kFrontBytes, fields);
}

/// Whether `message` ends in a proof over `before` and itself. Errors: denied.
Status check(Step step, ConstByteSpan message, const SessionTerms& terms,
             std::initializer_list<ConstByteSpan> before) {
  const ConstByteSpan body = message.first(message.size() - kProofBytes);
  Bytes exchanged;
  for (const ConstByteSpan part : before)
    exchanged.insert(exchanged.end(), part.begin(), part.end());
  if (equal_in_constant_time(message.last(kProofBytes), prove(terms, {exchanged, body}))) return {};
  return error(Code::denied,
               cat("handshake: ", name_of(step),
                   " proves nothing: its sender does not hold the "
                   "secret of the metadata, or it is of another handshake, or was altered"),
               "load the peer's newest metadata on both sides");
}

Status check_secret(const SessionTerms& terms) {
  const std::size_t bytes = terms.secret.reveal().size();
  if (bytes >= kMinSecretBytes) return {};
  return error(Code::invalid_argument,
               cat("a secret of ", 8 * bytes, " bits; at least ", 8 * kMinSecretBytes));
}

/// Of the session, once all was exchanged.
SessionKeys keys_of(const SessionTerms& terms, bool is_dialler, Mac::Algorithm seals,
                    std::initializer_list<ConstByteSpan> exchanged) {
  Sha256 transcript;
  for (const ConstByteSpan part : exchanged) transcript.add(part);
  const Digest salt = transcript.finish();
  const ConstByteSpan secret = as_bytes(terms.secret.reveal());
  const SealKey dialler{derive_key(secret, salt, "towpath session v1 key of the dialler"), seals};
  const SealKey listener{derive_key(secret, salt, "towpath session v1 key of the listener"), seals};
  return is_dialler ? SessionKeys{dialler, listener} : SessionKeys{listener, dialler};
}

Mac::Algorithm seals_of(bool has_aes, bool peer_has_aes) {
  return has_aes && peer_has_aes ? Mac::Algorithm::aes_cmac : Mac::Algorithm::siphash;
}

}  // namespace

// ---- The side that dials

Result<DialHandshake> DialHandshake::begin(SessionTerms terms, const SessionParty& self,
                                           Expected listener) {
  TOWPATH_TRY(check_secret(terms));
  DialHandshake handshake(std::move(terms), std::move(listener), self.has_aes);
  const Content content{.nonce = random_nonce(),
                        .from = self,
                        .backend = handshake.terms_.backend,
                        .to = handshake.listener_.instance};
  handshake.hello_ = make(Step::hello, encode(content, kHelloSchema), handshake.terms_, {});
  return handshake;
}

Result<DialHandshake::Outcome> DialHandshake::take(ConstByteSpan answer) const {
  TOWPATH_TRY(const ConstByteSpan fields, open(Step::answer, answer));
  TOWPATH_TRY(check(Step::answer, answer, terms_, {hello_}));
  TOWPATH_TRY(Content content, decode_content(fields, kAnswerSchema));
  if (content.from.agent != listener_.agent || content.from.instance != listener_.instance) {
    return error(Code::denied, cat("handshake: in place of ", to_string(listener_.agent), " ",
                                   to_string(content.from.agent), " answers"));
  }
  Outcome outcome{.listener_data = std::move(content.from.data)};
  outcome.confirmation = make(Step::confirmation, {}, terms_, {hello_, answer});
  outcome.keys = keys_of(terms_, true, seals_of(has_aes_, content.from.has_aes), {hello_, answer});
  return outcome;
}

// ---- The side that listens

Result<AcceptHandshake> AcceptHandshake::begin(SessionTerms terms, const SessionParty& self,
                                               ConstByteSpan hello) {
  TOWPATH_TRY(check_secret(terms));
  TOWPATH_TRY(const ConstByteSpan fields, open(Step::hello, hello));
  TOWPATH_TRY(check(Step::hello, hello, terms, {}));
  TOWPATH_TRY(Content content, decode_content(fields, kHelloSchema));
  if (content.to != self.instance || content.backend != terms.backend) {
    return error(Code::denied, cat("handshake: a hello for ", printable(content.backend),
                                   " of instance ", hex(content.to), " came to ", terms.backend,
                                   " of instance ", hex(self.instance), ": it was redirected"));
  }
  AcceptHandshake handshake(std::move(terms));
  handshake.seals_ = seals_of(self.has_aes, content.from.has_aes);
  handshake.dialler_ = std::move(content.from);
  handshake.hello_.assign(hello.begin(), hello.end());
  const Content ours{.nonce = random_nonce(), .from = self};
  handshake.answer_ = make(Step::answer, encode(ours, kAnswerSchema), handshake.terms_, {hello});
  return handshake;
}

Result<SessionKeys> AcceptHandshake::take(ConstByteSpan confirmation) const {
  TOWPATH_TRY(open(Step::confirmation, confirmation).status());
  TOWPATH_TRY(check(Step::confirmation, confirmation, terms_, {hello_, answer_}));
  return keys_of(terms_, false, seals_, {hello_, answer_});
}

}  // namespace towpath::net
