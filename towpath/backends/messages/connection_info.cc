#include <array>
#include <string>
#include <utility>

#include <towpath/backends/messages/connection_info.h>
#include <towpath/core/check.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/net/session/handshake.h>
#include <towpath/sys/random.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/fixed_fields.h>
#include <towpath/wire/little_endian.h>

namespace towpath::backends::messages {
namespace {

using namespace wire;

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kMaxSecretBytes = 64;

constexpr Tag kInstance = required(1), kAddress = required(2), kSecret = required(3),
              kSessions = required(4);
constexpr FieldRule kInfoRules[] = {
    {kInstance, "instance", Kind::number, kOne},
    {kAddress, "address", Kind::bytes, kOne, kMaxAddressBytes},
    {kSecret, "secret", Kind::bytes, kAtMostOne, kMaxSecretBytes},
    {kSessions, "version of its sessions", Kind::number, kAtMostOne, UINT8_MAX},
};
constexpr Schema kInfoSchema("message backend connection info", kInfoRules);

constexpr Tag kToken = required(1), kBase = required(2), kLength = required(3),
              kReadOnly = optional(4);
constexpr FieldRule kKeyRules[] = {
    {kToken, "token", Kind::bytes, kOne, sizeof(std::uint64_t)},
    {kBase, "address", Kind::number, kOne},
    {kLength, "length", Kind::number, kOne},
    {kReadOnly, "read-only", Kind::number, kAtMostOne, 1},
};
constexpr Schema kKeySchema("message backend memory key", kKeyRules);

constexpr std::uint64_t kMostLeaseMs = std::uint64_t{7} * 24 * 3600 * 1000;
constexpr Tag kSession = required(1), kPartyAddress = required(2), kLink = optional(3),
              kLease = optional(4);
constexpr FieldRule kPartyRules[] = {
    {kSession, "session", Kind::number, kOne},
    {kPartyAddress, "address", Kind::bytes, kAtMostOne, kMaxAddressBytes},
    {kLink, "link", Kind::number, kAtMostOne},
    {kLease, "lease", Kind::number, kAtMostOne, kMostLeaseMs},
};
constexpr Schema kPartySchema("message backend party", kPartyRules);

Bytes finished(Encoder&& encoder) {
  auto bytes = std::move(encoder).finish();
  TOWPATH_CHECK(bytes.ok(), "what this backend says of itself must fit its own schema");
  return *std::move(bytes);
}

Status check_version(std::uint64_t version) {
  if (version == net::kSessionVersion) return {};
  return error(Code::unsupported,
               cat("message backend connection info: the peer's sessions have version ", version,
                   version == 0 ? " and prove nothing" : "", ", those of this side version ",
                   net::kSessionVersion),
               "use the same release on both sides");
}

Status take(ConnectionInfo& info, std::uint64_t& version, const Field& field) {
  switch (field.tag()) {
    case kInstance:
      info.instance = field.number();
      return info.instance != 0 ? Status() : field.refuse("0 is no instance");
    case kSecret:
      info.secret = Secret(std::string(field.text()));
      return field.bytes().size() >= net::kMinSecretBytes
                 ? Status()
                 : field.refuse("a secret has at least 128 bits");
    case kSessions: version = field.number(); return {};
    default:
      info.address.assign(field.bytes().begin(), field.bytes().end());
      return !info.address.empty() ? Status() : field.refuse("empty");
  }
}

Status take(PartyData& data, const Field& field) {
  if (field.tag() == kPartyAddress) {
    data.address.assign(field.bytes().begin(), field.bytes().end());
    return {};
  }
  if (field.tag() == kLink) {
    data.link = field.number();
    return {};
  }
  if (field.tag() == kLease) {
    data.lease = std::chrono::milliseconds(field.number());
    return {};
  }
  data.session = field.number();
  return data.session != 0 ? Status() : field.refuse("0 is no session");
}

}  // namespace

ConnectionInfo make_connection_info(ConstByteSpan address) {
  std::string secret(kSecretBytes, '\0');
  net::fill_random(std::as_writable_bytes(std::span(secret)));
  return {.instance = sys::random_u64(),
          .address = {address.begin(), address.end()},
          .secret = Secret(std::move(secret))};
}

Bytes encode(const ConnectionInfo& info) {
  Encoder out(kInfoSchema);
  out.put_number(kInstance, info.instance);
  out.put_bytes(kAddress, info.address);
  out.put_text(kSecret, info.secret.reveal());
  out.put_number(kSessions, net::kSessionVersion);
  return finished(std::move(out));
}

Bytes encode(const MemoryKey& key) {
  // A random number has not always as many bytes as one; keys of one length make a smaller
  // metadata.
  BytesField<kToken, sizeof key.token> token;
  store(token.value, key.token);
  const NumberField<kBase> base{key.address};
  const NumberField<kLength> length{key.length};
  std::array<std::byte, kMostBytes<decltype(token), decltype(base), decltype(length)>> room;
  if (!key.is_read_only)
    return {room.data(), put_fields<kKeySchema>(room.data(), token, base, length)};
  Encoder out(kKeySchema);
  out.put_bytes(kToken, token.value);
  out.put_number(kBase, key.address);
  out.put_number(kLength, key.length);
  out.put_number(kReadOnly, 1);
  return finished(std::move(out));
}

Bytes encode(const PartyData& data) {
  Encoder out(kPartySchema);
  out.put_number(kSession, data.session);
  if (!data.address.empty()) out.put_bytes(kPartyAddress, data.address);
  if (data.link != 0) out.put_number(kLink, data.link);
  if (data.lease.count() != 0)
    out.put_number(kLease, static_cast<std::uint64_t>(data.lease / std::chrono::milliseconds(1)));
  return finished(std::move(out));
}

Result<ConnectionInfo> decode_connection_info(ConstByteSpan bytes) {
  ConnectionInfo info;
  std::uint64_t version = 0;
  TOWPATH_TRY(decode(Decoder(bytes, kInfoSchema),
                     [&](const Field& field) { return take(info, version, field); }));
  TOWPATH_TRY(check_version(version));
  if (info.secret.empty())
    return error(Code::corrupt, "message backend connection info: it has no secret");
  return info;
}

Result<MemoryKey> decode_key(ConstByteSpan bytes) {
  MemoryKey key;
  TOWPATH_TRY(decode(Decoder(bytes, kKeySchema), [&](const Field& field) -> Status {
    switch (field.tag()) {
      case kToken:
        if (field.bytes().size() != sizeof key.token) return field.refuse("a token has 8 bytes");
        key.token = load<std::uint64_t>(field.bytes());
        break;
      case kBase: key.address = field.number(); break;
      case kReadOnly: key.is_read_only = field.number() == 1; break;
      default: key.length = field.number(); break;
    }
    return {};
  }));
  if (key.token == 0 || key.length == 0 || !checked_add(key.address, key.length)) {
    return error(Code::corrupt, cat("message backend memory key: no region: ", hex(key.address),
                                    " +", key.length, " with token ", key.token));
  }
  return key;
}

Result<PartyData> decode_party_data(ConstByteSpan bytes) {
  PartyData data;
  TOWPATH_TRY(
      decode(Decoder(bytes, kPartySchema), [&](const Field& field) { return take(data, field); }));
  return data;
}

}  // namespace towpath::backends::messages
