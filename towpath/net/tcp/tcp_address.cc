#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <netinet/in.h>
#include <sys/stat.h>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/net/digest.h>
#include <towpath/net/tcp/tcp_address.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/text_file.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {
namespace {

using namespace wire;

constexpr std::size_t kPortBytes = 2;
constexpr std::size_t kMostAddressBytes = sizeof(in6_addr) + kPortBytes;

// Of the tags 1 and 2 an earlier release made instance and secret, which are not the carrier's now.
constexpr Tag kEndpoint = required(3), kHost = required(4), kTlsKey = required(5),
              kWantsCertificate = required(6);
constexpr FieldRule kRules[] = {
    {kHost, "host", Kind::bytes, kAtMostOne, sizeof(HostMark)},
    {kTlsKey, "TLS key", Kind::bytes, kAtMostOne, sizeof(TlsKey)},
    {kWantsCertificate, "wants a certificate", Kind::number, kAtMostOne, 1},
    {kEndpoint, "endpoint", Kind::bytes, {1, TcpPlace::kMostEndpoints}, kMostAddressBytes},
};
constexpr Schema kSchema("TCP address", kRules);

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

template <std::size_t Size>
Status take_whole(std::optional<std::array<std::byte, Size>>& into, const Field& field) {
  if (field.bytes().size() != Size) return field.refuse(cat("it has ", Size, " bytes"));
  std::ranges::copy(field.bytes(), into.emplace().begin());
  return {};
}

}  // namespace

Result<HostMark> host_mark() {
  TOWPATH_TRY(const std::string boot, sys::read_text_file("/proc/sys/kernel/random/boot_id"));
  struct stat space {};
  if (::stat("/proc/thread-self/ns/net", &space) != 0)
    return sys::os_error(errno, "cannot ask for the network namespace");
  const Digest digest =
      sha256(as_bytes(cat("towpath host v1\n", boot, space.st_dev, ":", space.st_ino)));
  HostMark mark;
  std::copy_n(digest.begin(), mark.size(), mark.begin());
  return mark;
}

std::vector<Endpoint> reachable_from(const TcpPlace& place, const std::optional<HostMark>& host,
                                     const std::vector<Endpoint>& own) {
  if (host && place.host == host) return place.endpoints;
  std::vector<Endpoint> reachable;
  for (const Endpoint& endpoint : place.endpoints) {
    const std::string address = to_address(endpoint).host;
    const bool is_ours = std::ranges::any_of(
        own, [&](const Endpoint& one) { return to_address(one).host == address; });
    if (!endpoint.is_loopback() && !is_ours) reachable.push_back(endpoint);
  }
  return reachable;
}

Bytes encode(const TcpPlace& place) {
  Encoder out(kSchema);
  if (place.host) out.put_bytes(kHost, *place.host);
  if (place.tls_key) out.put_bytes(kTlsKey, *place.tls_key);
  if (place.wants_certificate) out.put_number(kWantsCertificate, 1);
  for (const Endpoint& endpoint : place.endpoints) out.put_bytes(kEndpoint, bytes_of(endpoint));
  auto bytes = std::move(out).finish();
  TOWPATH_CHECK(bytes.ok(), "what a worker says of itself must fit its own schema");
  return *std::move(bytes);
}

Result<TcpPlace> decode_tcp_place(ConstByteSpan bytes) {
  TcpPlace place;
  TOWPATH_TRY(decode(Decoder(bytes, kSchema), [&](const Field& field) -> Status {
    switch (field.tag()) {
      case kEndpoint: return take(place, field);
      case kHost: return take_whole(place.host, field);
      case kTlsKey: return take_whole(place.tls_key, field);
      default: place.wants_certificate = field.number() != 0; return {};
    }
  }));
  return place;
}

}  // namespace towpath::net
