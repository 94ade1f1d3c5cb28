#include <array>
#include <utility>

#include <towpath/backends/messages/handshake.h>
#include <towpath/core/check.h>
#include <towpath/core/checked.h>
#include <towpath/core/text.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/fixed_fields.h>
#include <towpath/wire/little_endian.h>

namespace towpath::backends::messages {
namespace {

using namespace wire;

constexpr Tag kInstance = required(1), kAddress = required(2);
constexpr FieldRule kInfoRules[] = {
    {kInstance, "instance", Kind::number, kOne},
    {kAddress, "address", Kind::bytes, kOne, kMaxAddressBytes},
};
constexpr Schema kInfoSchema("message backend connection info", kInfoRules);

constexpr Tag kToken = required(1), kBase = required(2), kLength = required(3);
constexpr FieldRule kKeyRules[] = {
    {kToken, "token", Kind::bytes, kOne, sizeof(std::uint64_t)},
    {kBase, "address", Kind::number, kOne},
    {kLength, "length", Kind::number, kOne},
};
constexpr Schema kKeySchema("message backend memory key", kKeyRules);

constexpr Tag kInfo = required(1), kName = required(2), kIncarnation = required(3),
              kYourSession = required(4);
constexpr FieldRule kHelloRules[] = {
    {kInfo, "info", Kind::nested, kOne, kMaxAddressBytes + 64, &kInfoSchema},
    {kName, "name", Kind::bytes, kOne, kMaxAgentName},
    {kIncarnation, "incarnation", Kind::number, kOne},
    {kYourSession, "your session", Kind::number, kOne},
};
constexpr Schema kHelloSchema("message backend hello", kHelloRules);

Bytes finished(Encoder&& encoder) {
  auto bytes = std::move(encoder).finish();
  TOWPATH_CHECK(bytes.ok(), "what this backend says of itself must fit its own schema");
  return *std::move(bytes);
}

void put(Encoder& out, const ConnectionInfo& info) {
  out.put_number(kInstance, info.instance);
  out.put_bytes(kAddress, info.address);
}

Status take(ConnectionInfo& info, const Field& field) {
  if (field.tag() == kInstance) {
    info.instance = field.number();
    return info.instance != 0 ? Status() : field.refuse("0 is no instance");
  }
  info.address.assign(field.bytes().begin(), field.bytes().end());
  return !info.address.empty() ? Status() : field.refuse("empty");
}

Status take(Hello& hello, const Field& field) {
  switch (field.tag()) {
    case kInfo:
      return decode(field.nested(), [&](const Field& inner) { return take(hello.info, inner); });
    case kName:
      hello.from.name = field.text();
      return !hello.from.name.empty() ? Status() : field.refuse("empty");
    case kIncarnation:
      hello.from.incarnation = field.number();
      return hello.from.incarnation != 0 ? Status() : field.refuse("0 is no incarnation");
    default: hello.your_session = field.number(); return {};
  }
}

}  // namespace

Bytes encode(const ConnectionInfo& info) {
  Encoder out(kInfoSchema);
  put(out, info);
  return finished(std::move(out));
}

Bytes encode(const MemoryKey& key) {
  // A random number has not always as many bytes as one; keys of one length make a smaller card.
  BytesField<kToken, sizeof key.token> token;
  store(token.value, key.token);
  const NumberField<kBase> base{key.address};
  const NumberField<kLength> length{key.length};
  std::array<std::byte, kMostBytes<decltype(token), decltype(base), decltype(length)>> room;
  return {room.data(), put_fields<kKeySchema>(room.data(), token, base, length)};
}

Bytes encode(const Hello& hello) {
  Encoder out(kHelloSchema);
  out.put_nested(kInfo, [&](Encoder& inner) { put(inner, hello.info); });
  out.put_text(kName, hello.from.name);
  out.put_number(kIncarnation, hello.from.incarnation);
  out.put_number(kYourSession, hello.your_session);
  return finished(std::move(out));
}

Result<ConnectionInfo> decode_connection_info(ConstByteSpan bytes) {
  ConnectionInfo info;
  TOWPATH_TRY(
      decode(Decoder(bytes, kInfoSchema), [&](const Field& field) { return take(info, field); }));
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

Result<Hello> decode_hello(ConstByteSpan bytes) {
  Hello hello;
  TOWPATH_TRY(
      decode(Decoder(bytes, kHelloSchema), [&](const Field& field) { return take(hello, field); }));
  return hello;
}

}  // namespace towpath::backends::messages
