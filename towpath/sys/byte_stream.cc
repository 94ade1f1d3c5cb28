#include <cerrno>

#include <sys/socket.h>

#include <towpath/sys/byte_stream.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys {
namespace {

class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(Fd socket) noexcept : socket_(std::move(socket)) {}

  Result<Read> read_some(ByteSpan into) override {
    // A read of nothing could not be told from the end.
    if (into.empty()) return error(Code::invalid_argument, "a read into no bytes");
    ssize_t got = -1;
    do {
      got = ::recv(fd(), into.data(), into.size(), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Read{};
    if (got < 0) return os_error(errno, cat("cannot read from socket ", fd()));
    return Read{.size_bytes = static_cast<std::size_t>(got), .ended = got == 0};
  }

  Result<std::size_t> write_some(ConstByteSpan from) override {
    ssize_t put = -1;
    do {
      put = ::send(fd(), from.data(), from.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (put < 0 && errno == EINTR);
    if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::size_t{0};
    if (put < 0) return os_error(errno, cat("cannot write to socket ", fd()));
    return static_cast<std::size_t>(put);
  }

  int fd() const noexcept override { return socket_.get(); }

 private:
  Fd socket_;
};

}  // namespace

std::unique_ptr<ByteStream> make_socket_stream(Fd socket) {
  return std::make_unique<SocketStream>(std::move(socket));
}

}  // namespace towpath::sys
