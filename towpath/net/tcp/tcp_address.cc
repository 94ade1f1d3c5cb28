#include <algorithm>
#include <cstring>
#include <utility>

#include <netinet/in.h>

#include <towpath/core/check.h>
#include <towpath/net/tcp/tcp_address.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {
namespace {

using namespace wire;

constexpr std::size_t kPortBytes = 2;
constexpr std::size_t kMostAddressBytes = sizeof(in6_addr) + kPortBytes;

constexpr Tag kInstance = required(1), kSecret = required(2), kEndpoint = required(3);
constexpr FieldRule kRules[] = {
    {kInstance, "instance", Kind::number, kOne},
    {kSecret, "secret", Kind::bytes, kOne, TcpPlace::kSecretBytes},
    {kEndpoint, "endpoint", Kind::bytes, {1, TcpPlace::kMostEndpoints}, kMostAddressBytes},
};
constexpr Schema kSchema("TCP address", kRules);

/// "TPTCP", what these bytes are, and their version.
constexpr std::uint64_t kMagic = 0x0001'0050'4354'5054;

/// The address and its port, as they stand in the kernel's own: in the order of the network.
Bytes bytes_of(const Endpoint& endpoint) {
  const auto joined = [](const auto& address, const auto& port) {
    Bytes bytes(sizeof address + sizeof port);
    std::memcpy(bytes.data(), &address, sizeof address);
    std::memcpy(bytes.data() + sizeof address, &port, sizeof port);
    return bytes;
  };
  if (endpoint.storage.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &endpoint.storage, sizeof four);
    return joined(four.sin_addr, four.sin_port);
  }
  sockaddr_in6 six{};
  std::memcpy(&six, &endpoint.storage, sizeof six);
  return joined(six.sin6_addr, six.sin6_port);
}

template <typename Socket>
Endpoint endpoint_of(const Socket& address) {
  Endpoint endpoint{.size_bytes = sizeof address};
  std::memcpy(&endpoint.storage, &address, sizeof address);
  return endpoint;
}

Status take(TcpPlace& place, const Field& field) {
  const ConstByteSpan bytes = field.bytes();
  if (bytes.size() == sizeof(in_addr) + kPortBytes) {
    sockaddr_in four{.sin_family = AF_INET};
    std::memcpy(&four.sin_addr, bytes.data(), sizeof four.sin_addr);
    std::memcpy(&four.sin_port, bytes.data() + sizeof four.sin_addr, kPortBytes);
    place.endpoints.push_back(endpoint_of(four));
    return {};
  }
  if (bytes.size() != kMostAddressBytes) return field.refuse("no address of IPv4 or IPv6");
  sockaddr_in6 six{.sin6_family = AF_INET6};
  std::memcpy(&six.sin6_addr, bytes.data(), sizeof six.sin6_addr);
  std::memcpy(&six.sin6_port, bytes.data() + sizeof six.sin6_addr, kPortBytes);
  place.endpoints.push_back(endpoint_of(six));
  return {};
}

}  // namespace

std::array<std::byte, kGreetingBytes> greeting_of(std::uint64_t instance) {
  std::array<std::byte, kGreetingBytes> greeting{};
  store(greeting, kMagic);
  store(std::span(greeting).subspan(sizeof kMagic), instance);
  return greeting;
}

Bytes encode(const TcpPlace& place) {
  Encoder out(kSchema);
  out.put_number(kInstance, place.instance);
  out.put_text(kSecret, place.secret);
  for (const Endpoint& endpoint : place.endpoints) out.put_bytes(kEndpoint, bytes_of(endpoint));
  auto bytes = std::move(out).finish();
  TOWPATH_CHECK(bytes.ok(), "what a worker says of itself must fit its own schema");
  return *std::move(bytes);
}

Result<TcpPlace> decode_tcp_place(ConstByteSpan bytes) {
  TcpPlace place;
  TOWPATH_TRY(decode(Decoder(bytes, kSchema), [&](const Field& field) -> Status {
    switch (field.tag()) {
      case kInstance:
        place.instance = field.number();
        return place.instance != 0 ? Status() : field.refuse("0 is no instance");
      case kSecret:
        place.secret = field.text();
        return place.secret.size() == TcpPlace::kSecretBytes
                   ? Status()
                   : field.refuse("a secret has 16 bytes");
      default: return take(place, field);
    }
  }));
  return place;
}

}  // namespace towpath::net
