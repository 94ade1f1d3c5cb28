#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <towpath/sys/local_socket.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys {
namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int) * kMaxMessageFds);

bool would_block(int errno_value) { return errno_value == EAGAIN || errno_value == EWOULDBLOCK; }

void attach(msghdr& message, std::span<const int> fds) {
  if (fds.empty()) return;
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
}

/// Owns every descriptor that arrived, before anything is judged.
std::vector<Fd> take_fds(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

/// Fills `into`; the bytes in all.
Result<std::size_t> gather(std::span<const ConstByteSpan> parts,
                           std::array<iovec, kMaxMessageParts>& into) {
  if (parts.size() > into.size())
    return error(Code::invalid_argument,
                 cat("a message of ", parts.size(), " parts, at most ", into.size()));
  std::size_t size = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    into[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
    size += parts[i].size();
  }
  // An empty message could not be distinguished from the end of the connection.
  if (size == 0) return error(Code::invalid_argument, "cannot send an empty message");
  return size;
}

Status send_error(int errno_value, std::size_t size_bytes) {
  switch (errno_value) {
    case EMSGSIZE:
      return error(Code::invalid_argument,
                   cat("a message of ", size_bytes, " bytes is more than the socket can hold"),
                   "send smaller messages");
    case ENOTCONN: return error(Code::peer_lost, "the socket is not connected");
    default: return os_error(errno_value, cat("cannot send ", size_bytes, " bytes"));
  }
}

}  // namespace

Result<PeerCredentials> peer_credentials(int fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0)
    return os_error(errno, cat("cannot ask who is behind socket ", fd));
  return PeerCredentials{.pid = credentials.pid, .uid = credentials.uid, .gid = credentials.gid};
}

Result<std::pair<LocalSocket, LocalSocket>> LocalSocket::pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return os_error(errno, "cannot make a pair of sockets");
  return std::pair(LocalSocket(Fd(ends[0])), LocalSocket(Fd(ends[1])));
}

Result<bool> LocalSocket::send(ConstByteSpan bytes, std::span<const int> fds) {
  return send_parts({&bytes, 1}, fds);
}

Result<bool> LocalSocket::send_parts(std::span<const ConstByteSpan> parts,
                                     std::span<const int> fds) {
  std::array<iovec, kMaxMessageParts> gathered;
  TOWPATH_TRY(const std::size_t size, gather(parts, gathered));
  if (fds.size() > kMaxMessageFds)
    return error(Code::invalid_argument,
                 cat(fds.size(), " descriptors in one message, at most ", kMaxMessageFds));
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
  msghdr message{.msg_iov = gathered.data(), .msg_iovlen = parts.size()};
  if (!fds.empty()) message.msg_control = control.data();
  attach(message, fds);
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return true;
  if (would_block(errno)) return false;
  return send_error(errno, size);
}

Result<LocalSocket::Received> LocalSocket::receive(ByteSpan into) {
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
  iovec part{into.data(), into.size()};
  msghdr message{.msg_iov = &part,
                 .msg_iovlen = 1,
                 .msg_control = control.data(),
                 .msg_controllen = control.size()};
  ssize_t got = -1;
  do {
    // MSG_TRUNC: the answer is the message's real length.
    got = ::recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && would_block(errno)) return Received{.nothing = true};
  if (got < 0) return os_error(errno, "cannot receive a message");
  Received received{.size_bytes = static_cast<std::size_t>(got), .fds = take_fds(message)};
  if ((message.msg_flags & MSG_CTRUNC) != 0)
    return error(Code::denied,
                 cat("a message carried more descriptors than the ", kMaxMessageFds,
                     " allowed, or than this process may open; all are closed"),
                 "raise the limit of open files (ulimit -n) if it is low");
  if ((message.msg_flags & MSG_TRUNC) != 0)
    return error(Code::out_of_range,
                 cat("a message of ", got, " bytes came, there is room for ", into.size()));
  received.closed = got == 0;
  return received;
}

void LocalSocket::shut_down() noexcept { (void)::shutdown(fd(), SHUT_RDWR); }

}  // namespace towpath::sys
