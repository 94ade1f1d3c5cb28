// FramedConnection: sealed messages over one non-blocking stream, with what is half read and half
// written.
//
// It keeps no time and no policy: its owner does. Invariants: it holds at most one frame that comes
// in, and what was queued to go out; that goes out from memory which may be shared, so a reader
// that never reads costs no copy. Thread: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include <towpath/net/frame_reader.h>
#include <towpath/run/poller.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {

class FramedConnection {
 public:
  /// `first` is what the first frame that comes in may be.
  FramedConnection(std::unique_ptr<sys::ByteStream> stream, const wire::OpenLimits& first)
      : stream_(std::move(stream)), reader_(first) {}

  /// Of the frames after those that receive() has given.
  void expect(const wire::OpenLimits& limits) { reader_.expect(limits); }

  /// The next frame, when it is whole after reading at most `budget_bytes` more, which are taken
  /// off; what the stream has read already is taken beyond them. Errors: peer_lost (closed or
  /// reset, at the end of a frame or in it), unavailable (it was never connected), and
  /// FrameReader's.
  Result<std::optional<Frame>> receive(std::size_t& budget_bytes);
  /// Reads and forgets. Errors: as receive(), at the end too.
  Status discard(std::size_t& budget_bytes);

  void send(Bytes sealed) { send(std::make_shared<const Bytes>(std::move(sealed))); }
  void send(std::shared_ptr<const Bytes> sealed) { outgoing_.push_back(std::move(sealed)); }
  /// Writes what the stream takes now. Errors: peer_lost, unavailable.
  Status flush();
  bool has_unsent() const noexcept { return !outgoing_.empty(); }

  /// Whether an exchange has begun and is not over: a frame half read or half written.
  bool is_busy() const noexcept { return reader_.is_inside_frame() || has_unsent(); }
  std::size_t buffered_bytes() const noexcept { return reader_.buffered_bytes(); }
  std::uint64_t received_bytes() const noexcept { return received_bytes_; }
  /// For a server: nothing more is read while something is unsent.
  run::Interest interest() const noexcept {
    const bool writes = has_unsent() && !stream_->waits_for_input();
    return {.readable = !writes, .writable = writes};
  }
  int fd() const noexcept { return stream_->fd(); }

 private:
  // Nobody would be woken again for what the stream has read already.
  bool may_read(std::size_t budget_bytes) const noexcept {
    return budget_bytes > 0 || stream_->buffered_bytes() > 0;
  }
  Result<std::size_t> read_some(ByteSpan into, std::size_t& budget_bytes);

  std::unique_ptr<sys::ByteStream> stream_;
  FrameReader reader_;
  std::deque<std::shared_ptr<const Bytes>> outgoing_;
  std::size_t sent_of_first_ = 0;
  std::uint64_t received_bytes_ = 0;
};

}  // namespace towpath::net
