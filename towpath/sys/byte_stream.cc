#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include <sys/socket.h>
#include <sys/uio.h>

#include <towpath/sys/byte_stream.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys {
namespace {

/// The kernel's words for parts, at most ByteStream::kMostParts of them.
template <typename Part>
class Parts {
 public:
  explicit Parts(std::span<const Part> parts) noexcept {
    message_.msg_iov = vectors_.data();
    message_.msg_iovlen = std::min(parts.size(), vectors_.size());
    for (std::size_t i = 0; i < message_.msg_iovlen; ++i)
      vectors_[i] = {const_cast<std::byte*>(parts[i].data()), parts[i].size()};
  }
  msghdr* get() noexcept { return &message_; }

 private:
  std::array<iovec, ByteStream::kMostParts> vectors_;
  msghdr message_{};
};

/// Memory that is not there is no fault of the connection, which goes on.
Status socket_error(int errno_value, std::string what) {
  if (errno_value != EFAULT) return os_error(errno_value, std::move(what));
  return error(Code::out_of_range,
               cat(what, ": memory that is unmapped, protected, or of a file that was cut"));
}

bool is_not_now(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK); }

template <typename Call>
ssize_t repeated(Call call) {
  ssize_t result = -1;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(Fd socket) noexcept : socket_(std::move(socket)) {}

  Result<Read> read_some(ByteSpan into) override {
    // A read of nothing could not be distinguished from the end.
    if (into.empty()) return error(Code::invalid_argument, "a read into no bytes");
    return read(repeated([&] { return ::recv(fd(), into.data(), into.size(), MSG_DONTWAIT); }));
  }
  Result<Read> read_parts(std::span<const ByteSpan> parts) override {
    if (parts.empty()) return error(Code::invalid_argument, "a read into no bytes");
    Parts into(parts);
    return read(repeated([&] { return ::recvmsg(fd(), into.get(), MSG_DONTWAIT); }));
  }

  Result<std::size_t> write_some(ConstByteSpan from) override {
    return written(repeated([&] { return ::send(fd(), from.data(), from.size(), kQuietly); }));
  }
  Result<std::size_t> write_parts(std::span<const ConstByteSpan> parts) override {
    Parts from(parts);
    return written(repeated([&] { return ::sendmsg(fd(), from.get(), kQuietly); }));
  }

  void wake_at(std::size_t bytes) noexcept override {
    const int least = static_cast<int>(std::clamp<std::size_t>(bytes, 1, INT_MAX));
    (void)::setsockopt(fd(), SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
  }

  bool moves_by_kernel() const noexcept override { return true; }
  int fd() const noexcept override { return socket_.get(); }

 private:
  static constexpr int kQuietly = MSG_DONTWAIT | MSG_NOSIGNAL;

  Result<Read> read(ssize_t got) const {
    if (is_not_now(got)) return Read{};
    if (got < 0) return socket_error(errno, cat("cannot read from socket ", fd()));
    return Read{.size_bytes = static_cast<std::size_t>(got), .ended = got == 0};
  }
  Result<std::size_t> written(ssize_t put) const {
    if (is_not_now(put)) return std::size_t{0};
    if (put < 0) return socket_error(errno, cat("cannot write to socket ", fd()));
    return static_cast<std::size_t>(put);
  }

  Fd socket_;
};

}  // namespace

Result<ByteStream::Read> ByteStream::read_parts(std::span<const ByteSpan> parts) {
  Read all;
  for (const ByteSpan part : parts) {
    auto some = read_some(part);
    if (!some.ok() || some->ended) return all.size_bytes > 0 ? all : some;
    all.size_bytes += some->size_bytes;
    if (some->size_bytes < part.size()) break;
  }
  return all;
}

Result<std::size_t> ByteStream::write_parts(std::span<const ConstByteSpan> parts) {
  std::size_t all = 0;
  for (const ConstByteSpan part : parts) {
    auto some = write_some(part);
    if (!some.ok()) return all > 0 ? all : some;
    all += *some;
    if (*some < part.size()) break;
  }
  return all;
}

std::unique_ptr<ByteStream> make_socket_stream(Fd socket) {
  return std::make_unique<SocketStream>(std::move(socket));
}

}  // namespace towpath::sys
