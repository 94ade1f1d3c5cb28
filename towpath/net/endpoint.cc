#include <algorithm>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <towpath/core/format.h>
#include <towpath/net/endpoint.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/os_error.h>

namespace towpath::net {

namespace {

struct FreeList {
  void operator()(addrinfo* list) const noexcept { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeList>;

Code code_of_lookup(int failed) {
  switch (failed) {
    case EAI_NONAME:
    case EAI_NODATA: return Code::not_found;
    case EAI_MEMORY: return Code::exhausted;
    default: return Code::unavailable;
  }
}

/// 0 for what is no address of IP.
socklen_t size_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) return sizeof(sockaddr_in);
  return address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : 0;
}

bool is_of_one_link(const Endpoint& endpoint) {
  sockaddr_in6 six{};
  std::memcpy(&six, &endpoint.storage, sizeof six);
  return six.sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr);
}

}  // namespace

bool Endpoint::is_loopback() const noexcept {
  if (storage.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &storage, sizeof four);
    return (ntohl(four.sin_addr.s_addr) >> 24U) == 127;
  }
  sockaddr_in6 six{};
  std::memcpy(&six, &storage, sizeof six);
  return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr) ||
         (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr) && six.sin6_addr.s6_addr[12] == 127);
}

TcpAddress to_address(const Endpoint& endpoint) {
  char host[NI_MAXHOST] = {};
  char port[NI_MAXSERV] = {};
  if (getnameinfo(endpoint.get(), endpoint.size_bytes, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  return {host, static_cast<std::uint16_t>(std::strtoul(port, nullptr, 10))};
}

Result<std::vector<Endpoint>> own_endpoints(std::string_view interface) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) return sys::os_error(errno, "cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(found, ::freeifaddrs);
  std::vector<Endpoint> endpoints;
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    const bool is_up = (each->ifa_flags & IFF_UP) != 0 && (each->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_up || each->ifa_addr == nullptr) continue;
    if (!interface.empty() && interface != each->ifa_name) continue;
    Endpoint endpoint{.size_bytes = size_of(*each->ifa_addr)};
    if (endpoint.size_bytes == 0) continue;
    std::memcpy(&endpoint.storage, each->ifa_addr, endpoint.size_bytes);
    if (!is_of_one_link(endpoint)) endpoints.push_back(endpoint);
  }
  std::ranges::stable_partition(
      endpoints, [](const Endpoint& one) { return one.storage.ss_family == AF_INET; });
  return endpoints;
}

// To connect a datagram socket is to look up the route (udp(7)).
Result<Endpoint> source_towards(const Endpoint& endpoint) {
  const sys::Fd fd(::socket(endpoint.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return sys::os_error(errno, "cannot make a socket");
  Endpoint source{.size_bytes = sizeof source.storage};
  auto* const address = reinterpret_cast<sockaddr*>(&source.storage);
  if (::connect(fd.get(), endpoint.get(), endpoint.size_bytes) != 0 ||
      ::getsockname(fd.get(), address, &source.size_bytes) != 0)
    return sys::os_error(errno, cat("no way to ", to_string(to_address(endpoint))));
  return source;
}

Endpoint peer_of(int socket) noexcept {
  Endpoint peer{.size_bytes = sizeof peer.storage};
  (void)::getpeername(socket, reinterpret_cast<sockaddr*>(&peer.storage), &peer.size_bytes);
  return peer;
}

Result<std::vector<Endpoint>> resolve(const TcpAddress& address) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(address.host.c_str(), cat(address.port).c_str(), &wanted, &found);
  const AddressList list(found);
  if (failed != 0)
    return error(code_of_lookup(failed),
                 cat("cannot look up '", printable(address.host), "': ", gai_strerror(failed)),
                 "write the address as a number, or mend the name service");
  std::vector<Endpoint> endpoints;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    Endpoint& endpoint = endpoints.emplace_back();
    std::memcpy(&endpoint.storage, each->ai_addr, each->ai_addrlen);
    endpoint.size_bytes = each->ai_addrlen;
  }
  return endpoints;
}

Result<std::unique_ptr<sys::ByteStream>> connect(const Endpoint& endpoint) {
  const int family = endpoint.storage.ss_family;
  sys::Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return sys::os_error(errno, "cannot make a socket");
  const int yes = 1;
  (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (::connect(fd.get(), endpoint.get(), endpoint.size_bytes) != 0 && errno != EINPROGRESS &&
      errno != EINTR)  // interrupted: it goes on by itself
    return sys::os_error(errno, cat("cannot connect to ", to_string(to_address(endpoint))));
  return sys::make_socket_stream(std::move(fd));
}

}  // namespace towpath::net
