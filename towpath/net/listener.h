// Listener: takes connections at an Address, of this machine or of a network.
//
// It lets in whoever comes; who may stay is decided by its owner (hello.h, sys::peer_credentials).
// Invariants: nothing blocks; the file of a Unix socket goes with the listener.
// Thread: one at a time.
#pragma once

#include <variant>

#include <towpath/core/result.h>
#include <towpath/net/address.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/local_socket.h>

namespace towpath::net {

class Listener {
 public:
  /// Opens `address`. A file that a dead process left is replaced; the port of a dead one may be
  /// used again at once. "tcp://[::]:port" takes IPv4 too.
  /// Errors: already_exists (someone listens there), not_found (the address is not of this machine,
  /// or its name is unknown), invalid_argument, denied, exhausted.
  static Result<Listener> listen(const Address& address);

  /// The next connection, non-blocking; without a descriptor when nobody waits. Errors: exhausted,
  /// denied (a filter of the system's).
  Result<sys::Fd> accept();

  /// Where it listens: with the port that the kernel chose, if that was asked.
  const Address& address() const noexcept { return address_; }
  /// Whether processes of other machines can connect.
  bool is_reachable_from_outside() const noexcept { return outside_; }
  int fd() const noexcept;

 private:
  struct Tcp {
    sys::Fd socket;
  };
  Listener(std::variant<sys::LocalListener, Tcp> socket, Address address, bool outside)
      : socket_(std::move(socket)), address_(std::move(address)), outside_(outside) {}

  static Result<Listener> listen_local(const sys::LocalAddress& address);
  static Result<Listener> listen_tcp(const TcpAddress& address);

  std::variant<sys::LocalListener, Tcp> socket_;
  Address address_;
  bool outside_ = false;
};

}  // namespace towpath::net
