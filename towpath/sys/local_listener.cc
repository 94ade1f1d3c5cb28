#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/local_socket.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/random.h>

namespace towpath::sys {
namespace {

// The kernel cuts it to net.core.somaxconn: 4096, or 128 before Linux 5.4.
constexpr int kBacklog = 1024;

constexpr const char* kFoldersInMemory[] = {"/dev/shm", "/tmp"};  // the latter often is

struct RawAddress {
  sockaddr_un name{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&name); }
};

Result<RawAddress> to_raw(const LocalAddress& address) {
  RawAddress raw;
  constexpr std::size_t kMost = sizeof raw.name.sun_path - 1;
  if (address.name.empty() || address.name.size() > kMost)
    return error(Code::invalid_argument,
                 cat("a socket name of ", address.name.size(), " bytes: ", to_string(address)),
                 cat("use 1 to ", kMost, " bytes"));
  if (!address.abstract && address.name.find('\0') != std::string::npos)
    return error(Code::invalid_argument, cat("a zero byte in path ", to_string(address)));
  raw.name.sun_family = AF_UNIX;
  // Abstract names begin with a zero byte and have no end but their length; paths end with one.
  std::memcpy(raw.name.sun_path + (address.abstract ? 1 : 0), address.name.data(),
              address.name.size());
  raw.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.name.size());
  return raw;
}

Result<Fd> make_socket(SocketKind kind) {
  const int type = kind == SocketKind::message ? SOCK_SEQPACKET : SOCK_STREAM;
  Fd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return os_error(errno, "cannot make a socket");
  return fd;
}

Status connect_error(int errno_value, const LocalAddress& address) {
  const std::string what = cat("cannot connect to ", to_string(address));
  switch (errno_value) {
    case EAGAIN:
      return error(Code::exhausted, cat(what, ": its backlog is full"),
                   "try again; the listener is slow to accept");
    case ECONNREFUSED: return error(Code::unavailable, cat(what, ": nobody listens there"));
    case EPROTOTYPE:
      return os_error(errno_value, what, "the listener is of the other kind (message, stream)");
    default: return os_error(errno_value, what);
  }
}

Result<Fd> connect_kind(const LocalAddress& address, SocketKind kind) {
  TOWPATH_TRY(const RawAddress raw, to_raw(address));
  TOWPATH_TRY(Fd fd, make_socket(kind));
  int rc = -1;
  do {
    rc = ::connect(fd.get(), raw.get(), raw.length);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) return connect_error(errno, address);
  return fd;
}

}  // namespace

std::string to_string(const LocalAddress& address) {
  return cat(address.abstract ? "abstract socket '" : "socket '", printable(address.name, 107),
             "'");
}

Result<LocalSocket> LocalSocket::connect(const LocalAddress& address) {
  TOWPATH_TRY(Fd fd, connect_kind(address, SocketKind::message));
  return LocalSocket(std::move(fd));
}

Result<std::unique_ptr<ByteStream>> connect_stream(const LocalAddress& address) {
  TOWPATH_TRY(Fd fd, connect_kind(address, SocketKind::stream));
  return make_socket_stream(std::move(fd));
}

Result<LocalListener> LocalListener::listen(const LocalAddress& address, SocketKind kind) {
  return open(address, kind, false);
}

Result<LocalListener> LocalListener::listen_unnamed(SocketKind kind) {
  Status why;
  for (const char* const folder : kFoldersInMemory) {
    const LocalAddress address{.name = cat(folder, "/.towpath-", hex(random_u64()))};
    auto listener = open(address, kind, true);
    why = listener.ok() ? listener->lose_name() : listener.status();
    if (why.ok()) return listener;
  }
  return error(Code::unsupported, "no socket without a name").because(std::move(why));
}

// The place holds the socket's inode, by which the kernel finds the listener.
Status LocalListener::lose_name() {
  const std::string& path = address_.name;
  place_.reset(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  Status why;
  struct stat info {};
  if (!place_ || ::fstat(place_.get(), &info) != 0)
    why = os_error(errno, cat("cannot open ", to_string(address_)));
  else if (info.st_dev != device_ || info.st_ino != inode_ || (info.st_mode & S_IWUSR) == 0)
    why = error(Code::denied, cat(to_string(address_), " is not as it was made"));
  if (why.ok()) {
    (void)::unlink(path.c_str());
    inode_ = 0;
  }
  return why;
}

Result<LocalListener> LocalListener::open(const LocalAddress& address, SocketKind kind,
                                          bool is_private) {
  TOWPATH_TRY(const RawAddress raw, to_raw(address));
  LocalListener listener;
  TOWPATH_TRY(listener.socket_, make_socket(kind));
  // The path gets the socket's mode (net/unix/af_unix.c, unix_bind_bsd()).
  if (is_private && ::fchmod(listener.fd(), S_IRUSR | S_IWUSR) != 0)
    return os_error(errno, "cannot close a socket to other users");
  if (::bind(listener.fd(), raw.get(), raw.length) != 0)
    return os_error(errno, cat("cannot listen at ", to_string(address)),
                    errno == EADDRINUSE && !address.abstract
                        ? "remove the path if nobody listens there any more, or use another"
                        : "");
  struct stat info {};
  if (!address.abstract && ::lstat(address.name.c_str(), &info) == 0) {
    listener.device_ = info.st_dev;
    listener.inode_ = info.st_ino;
  }
  listener.address_ = address;
  if (::listen(listener.fd(), kBacklog) != 0)
    return os_error(errno, cat("cannot listen at ", to_string(address)));
  return listener;
}

LocalListener& LocalListener::operator=(LocalListener&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(place_, other.place_);
  std::swap(address_, other.address_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  std::swap(process_, other.process_);
  return *this;
}

LocalListener::~LocalListener() {
  if (!socket_ || address_.abstract || inode_ == 0 || !process_.is_this()) return;
  struct stat info {};
  if (::lstat(address_.name.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_)
    (void)::unlink(address_.name.c_str());
}

Result<Fd> LocalListener::accept() {
  for (;;) {
    Fd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) return fd;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Fd();
    // The one that waited went away again; look for the next.
    if (errno != EINTR && errno != ECONNABORTED)
      return os_error(errno, cat("cannot accept at ", to_string(address_)));
  }
}

void LocalListener::shut_down() noexcept { (void)::shutdown(fd(), SHUT_RDWR); }

}  // namespace towpath::sys
