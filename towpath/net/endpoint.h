// Endpoint: an address of the kernel's own (sockaddr), for TCP; and how to reach any Address.
//
// Invariants: every socket is non-blocking, close-on-exec, and without Nagle's delay.
// Sources: tcp(7), ipv6(7), getaddrinfo(3).
// Thread: any.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include <sys/socket.h>

#include <towpath/core/result.h>
#include <towpath/net/address.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {

struct Endpoint {
  sockaddr_storage storage{};
  socklen_t size_bytes = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  /// Whether only this machine can reach it.
  bool is_loopback() const noexcept;
};

/// Where others may reach this machine: its interfaces that are up, without the loopback and
/// without addresses of one link only, IPv4 first; port 0. `interface`: only that one; empty: all.
/// Errors: exhausted.
Result<std::vector<Endpoint>> own_endpoints(std::string_view interface = {});

/// The address of ours from which the system would send there, by its routes as they are now; port
/// of no meaning. Nothing is sent. Errors: exhausted (no descriptor), unavailable (no way there).
Result<Endpoint> source_towards(const Endpoint& endpoint);

/// Of a connected socket; nobody's where it is not connected any more.
Endpoint peer_of(int socket) noexcept;

/// "10.0.0.7" and 9000, whatever name led there.
TcpAddress to_address(const Endpoint& endpoint);

/// Where `address` may be reached, best first. A literal costs nothing; a name is looked up as the
/// system does it, which may take seconds: prefer literals on a thread that must not wait.
/// Errors: not_found (no such name), unavailable (nobody could be asked).
Result<std::vector<Endpoint>> resolve(const TcpAddress& address);

/// Begins to connect. It does not wait: that nobody is there is heard from the stream
/// (unavailable). Errors now: exhausted (no descriptor), unavailable (no way there).
Result<std::unique_ptr<sys::ByteStream>> connect(const Endpoint& endpoint);

}  // namespace towpath::net
