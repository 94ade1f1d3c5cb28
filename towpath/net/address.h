// Address: where a service listens, as a value that is written and read as text.
//
//   unix:/run/towpath.sock   a socket's file          unix:@name   an abstract name, without a file
//   tcp://10.0.0.7:9000      also 10.0.0.7:9000       tcp://[::1]:9000, [::1]:9000, host.name:9000
//
// It names nothing that exists: listener.h opens it, endpoint.h looks it up.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include <towpath/core/result.h>
#include <towpath/sys/local_socket.h>

namespace towpath::net {

struct TcpAddress {
  std::string host;        ///< a literal of IPv4 or IPv6 (without brackets), or a name
  std::uint16_t port = 0;  ///< 0, for a listener: the kernel chooses

  friend auto operator<=>(const TcpAddress&, const TcpAddress&) = default;
};

using Address = std::variant<sys::LocalAddress, TcpAddress>;

/// As parse_address() reads it; what cannot be printed is escaped.
std::string to_string(const Address& address);

/// Errors: invalid_argument, with the forms that are understood.
Result<Address> parse_address(std::string_view text);

inline bool is_local(const Address& address) noexcept {
  return std::holds_alternative<sys::LocalAddress>(address);
}

}  // namespace towpath::net
