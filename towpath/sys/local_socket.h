// Sockets between processes of one machine (AF_UNIX): messages with borders, which can carry open
// descriptors, and the credentials that the kernel vouches for.
//
// It is not a protocol: messages are opaque. For streams of bytes see byte_stream.h.
// Invariants: nothing blocks; everything is close-on-exec; no SIGPIPE; descriptors that arrive are
// owned at once, so none leaks, whatever else is wrong with their message.
// Sources: unix(7), SCM_RIGHTS, SO_PEERCRED.
// Thread: one at a time per object.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/sys/byte_stream.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/own_process.h>

namespace towpath::sys {

/// Descriptors that one message may carry; the kernel's own bound is 253.
inline constexpr std::size_t kMaxMessageFds = 64;
/// Extents that one message may be gathered from.
inline constexpr std::size_t kMaxMessageParts = 8;

enum class SocketKind { message, stream };

/// Where a listener is found.
struct LocalAddress {
  /// A path (107 bytes at most), or with `abstract` any bytes (1 to 107), which live in no file
  /// system and vanish with their socket, and which every user of the machine can connect to.
  std::string name;
  bool abstract = false;

  friend auto operator<=>(const LocalAddress&, const LocalAddress&) = default;
};

std::string to_string(const LocalAddress& address);

/// Who is at the other end, as it was when the connection was made.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

/// For any connected AF_UNIX socket.
Result<PeerCredentials> peer_credentials(int fd);

/// One connection of messages (SOCK_SEQPACKET).
class LocalSocket {
 public:
  struct Received {
    bool nothing = false;  ///< no message is here now
    bool closed = false;   ///< the other side is gone, and all it sent was read
    std::size_t size_bytes = 0;
    std::vector<Fd> fds;
  };

  /// Errors: unavailable (nobody listens), not_found (no such path), exhausted (the backlog is
  /// full: try again), denied.
  static Result<LocalSocket> connect(const LocalAddress& address);
  static Result<std::pair<LocalSocket, LocalSocket>> pair();
  /// Around a connected SOCK_SEQPACKET socket.
  explicit LocalSocket(Fd socket) noexcept : socket_(std::move(socket)) {}

  /// Sends one message, whole; false: would block, nothing was sent. `fds` stay the caller's.
  /// Errors: invalid_argument (empty, more than kMaxMessageFds or than the socket can hold),
  /// peer_lost.
  Result<bool> send(ConstByteSpan bytes, std::span<const int> fds = {});
  /// The same for a message that lies in parts; at most kMaxMessageParts.
  Result<bool> send_parts(std::span<const ConstByteSpan> parts, std::span<const int> fds = {});
  /// Takes one message. Errors: out_of_range (the message is longer than `into`; the sizes are
  /// reported and the message is gone), peer_lost, denied (more descriptors than kMaxMessageFds, or
  /// than this process may open: all of them are closed).
  Result<Received> receive(ByteSpan into);

  /// Ends the connection, also where a forked child has a copy of the socket, by which it would
  /// stay open. What was sent before is received all the same.
  void shut_down() noexcept;

  Result<PeerCredentials> peer() const { return peer_credentials(fd()); }
  int fd() const noexcept { return socket_.get(); }

 private:
  Fd socket_;
};

/// A stream (SOCK_STREAM) to a listener of that kind. Errors: as LocalSocket::connect().
Result<std::unique_ptr<ByteStream>> connect_stream(const LocalAddress& address);

class LocalListener {
 public:
  /// Errors: already_exists (the name is taken, also by a path that a dead process left), denied,
  /// invalid_argument (the name).
  static Result<LocalListener> listen(const LocalAddress& address,
                                      SocketKind kind = SocketKind::message);
  /// One that has no name, and that no other user can connect to: a process that may open this
  /// one's descriptors opens place() in /proc/PID/fd, as what descriptor it has there, and
  /// connects to the path /proc/self/fd/THAT. It has a name for some system calls, in a folder in
  /// memory. Errors: those of listen(), unsupported (no folder for it).
  static Result<LocalListener> listen_unnamed(SocketKind kind = SocketKind::message);
  LocalListener(LocalListener&&) noexcept = default;
  LocalListener& operator=(LocalListener&&) noexcept;
  /// Removes the path, if it is still the one that listen() made; not in a forked child.
  ~LocalListener();

  /// The next connection, non-blocking, for LocalSocket or make_socket_stream; without a descriptor
  /// when nobody waits. Errors: exhausted.
  Result<Fd> accept();
  /// Nobody can connect any more, also where a forked child has a copy of the socket. What waits
  /// is still accepted.
  void shut_down() noexcept;

  int fd() const noexcept { return socket_.get(); }
  const LocalAddress& address() const noexcept { return address_; }
  /// Of one without a name: its place in a file system (O_PATH); else -1.
  int place() const noexcept { return place_.get(); }

 private:
  LocalListener() = default;
  static Result<LocalListener> open(const LocalAddress& address, SocketKind kind, bool is_private);
  Status lose_name();

  Fd socket_;
  Fd place_;
  LocalAddress address_;
  // Of the path that was made, to see that it is still the same.
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  OwnProcess process_;  // that made it
};

}  // namespace towpath::sys
