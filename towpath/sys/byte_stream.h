// ByteStream: a connection of bytes without borders, as a seam: a Unix socket in production, a pair
// in memory for a test that wants the other side slow, cut, or one byte at a time.
//
// It does not block, and keeps no frames: those are net/.
// Thread: one at a time per end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/sys/fd.h>

namespace towpath::sys {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  struct Read {
    std::size_t size_bytes =
        0;               ///< what arrived; 0 with !ended: nothing now, try again when readable
    bool ended = false;  ///< the other side closed, and all it sent was read
  };
  /// Fills a prefix of `into`, which is not empty. Errors: peer_lost (cut), invalid_argument,
  /// out_of_range (of a socket: `into` cannot be written; nothing was taken).
  virtual Result<Read> read_some(ByteSpan into) = 0;
  /// Takes a prefix of `from`; 0: full now, try again when writable. Errors: peer_lost,
  /// out_of_range (of a socket: `from` cannot be read).
  virtual Result<std::size_t> write_some(ConstByteSpan from) = 0;
  /// The same for several parts, each not empty, in their order: as one call where that is
  /// possible. An error is reported when nothing was moved before it; else the next call reports
  /// it.
  virtual Result<Read> read_parts(std::span<const ByteSpan> parts);
  virtual Result<std::size_t> write_parts(std::span<const ConstByteSpan> parts);
  /// Nobody need be woken before so many bytes can be read, or the stream has ended: a wish, which
  /// a stream may pass over. Source: SO_RCVLOWAT, socket(7).
  virtual void wake_at(std::size_t bytes) noexcept { (void)bytes; }
  /// Bytes that read_some() gives although fd() is not readable: a stream that decrypts has them.
  virtual std::size_t buffered_bytes() const noexcept { return 0; }
  /// Whether write_some() takes nothing until more was read: a handshake is under way.
  virtual bool waits_for_input() const noexcept { return false; }
  /// Whether the kernel alone touches the bytes of its users: what cannot be touched is an error
  /// then, and not a signal. A stream that encrypts touches them itself.
  virtual bool moves_by_kernel() const noexcept { return false; }
  /// To wait on, the stream's own; -1 when there is none.
  virtual int fd() const noexcept = 0;

  /// Parts beyond these are left for the next call.
  static constexpr std::size_t kMostParts = 128;
};

/// Around a connected, non-blocking SOCK_STREAM socket.
std::unique_ptr<ByteStream> make_socket_stream(Fd socket);

struct MemoryStreamOptions {
  std::size_t capacity_bytes = 65536;     ///< of each direction, until write_some says 0
  std::size_t most_per_read = SIZE_MAX;   ///< 1: hands over a byte at a time
  std::size_t most_per_write = SIZE_MAX;  ///< 1: takes a byte at a time
  bool every_other_call_stalls = false;   ///< a slow side: each second call says "not now"
  /// So many bytes after which each direction is cut: the reader still gets those, then peer_lost;
  /// none: never.
  std::optional<std::uint64_t> cut_after_bytes;
};

/// Two ends in memory. Dropping one ends the other as a socket would. fd() is -1.
std::pair<std::unique_ptr<ByteStream>, std::unique_ptr<ByteStream>> make_memory_streams(
    const MemoryStreamOptions& options = {});

}  // namespace towpath::sys
