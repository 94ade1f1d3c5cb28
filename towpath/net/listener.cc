#include <cerrno>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/endpoint.h>
#include <towpath/net/listener.h>
#include <towpath/sys/os_error.h>

namespace towpath::net {

namespace {

/// A connection that is gone already hands its error to accept(2), which names them: look for the
/// next. Others would come again and again.
bool is_of_one_that_is_gone(int errno_value) {
  switch (errno_value) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH: return true;
    default: return false;
  }
}

// The file of a socket whose process is gone. Other files refuse a connection too, and are not
// ours.
bool is_left_over(const sys::LocalAddress& address) {
  struct stat what {};
  if (address.abstract || ::lstat(address.name.c_str(), &what) != 0) return false;
  return S_ISSOCK(what.st_mode) && sys::connect_stream(address).code() == Code::unavailable;
}

/// Of two processes that begin to listen at once, one could take the other's path, which is bound
/// and not listened at yet, for one that was left. Held until the descriptor is closed; after a
/// second it goes without, since anybody may lock a directory that he can read.
sys::Fd lock_directory_of(const std::string& path) {
  constexpr int kTries = 100, kPauseMs = 10;
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  sys::Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; fd && i < kTries && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++i)
    (void)::poll(nullptr, 0, kPauseMs);
  return fd;
}

Result<sys::Fd> bind_to(const Endpoint& endpoint) {
  const int family = endpoint.storage.ss_family;
  sys::Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return sys::os_error(errno, "cannot make a socket");
  const int yes = 1;
  const int no = 0;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (family == AF_INET6) (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (::bind(fd.get(), endpoint.get(), endpoint.size_bytes) == 0 &&
      ::listen(fd.get(), SOMAXCONN) == 0)
    return fd;
  const std::string what = cat("cannot listen at ", to_string(to_address(endpoint)));
  if (errno == EADDRNOTAVAIL)
    return error(Code::not_found, cat(what, ": it is no address of this machine"),
                 "see `ip address` for those that are");
  return sys::os_error(errno, what,
                       errno == EADDRINUSE ? "end the other process, or choose another port" : "");
}

}  // namespace

Result<Listener> Listener::listen(const Address& address) {
  if (const auto* local = std::get_if<sys::LocalAddress>(&address)) return listen_local(*local);
  return listen_tcp(std::get<TcpAddress>(address));
}

Result<Listener> Listener::listen_local(const sys::LocalAddress& address) {
  const sys::Fd lock = address.abstract ? sys::Fd() : lock_directory_of(address.name);
  auto socket = sys::LocalListener::listen(address, sys::SocketKind::stream);
  if (socket.code() == Code::already_exists && is_left_over(address)) {
    (void)::unlink(address.name.c_str());
    socket = sys::LocalListener::listen(address, sys::SocketKind::stream);
  }
  TOWPATH_TRY(socket.status());
  return Listener(*std::move(socket), address, false);
}

Result<Listener> Listener::listen_tcp(const TcpAddress& address) {
  TOWPATH_TRY(const auto endpoints, resolve(address));
  const Endpoint& wanted = endpoints.front();
  TOWPATH_TRY(sys::Fd socket, bind_to(wanted));
  Endpoint bound;
  bound.size_bytes = sizeof bound.storage;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound.storage), &bound.size_bytes) !=
      0)
    return sys::os_error(errno, "cannot ask where a socket listens");
  return Listener(Tcp{std::move(socket)}, to_address(bound), !bound.is_loopback());
}

int Listener::fd() const noexcept {
  if (const auto* local = std::get_if<sys::LocalListener>(&socket_)) return local->fd();
  return std::get<Tcp>(socket_).socket.get();
}

Result<sys::Fd> Listener::accept() {
  if (auto* local = std::get_if<sys::LocalListener>(&socket_)) return local->accept();
  for (;;) {
    sys::Fd fd(::accept4(this->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      const int yes = 1;
      (void)::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      return fd;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return sys::Fd();
    if (!is_of_one_that_is_gone(errno))
      return sys::os_error(errno, cat("cannot accept at ", to_string(address_)));
  }
}

}  // namespace towpath::net
