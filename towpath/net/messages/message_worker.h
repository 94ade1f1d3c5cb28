// MessageWorker: whole messages between processes and machines, as a seam: over UCX (net/ucx), or a
// network of a test's own.
//
// A worker has an address that others connect() to, and endpoints to others. A message goes out of
// a buffer that the worker lends, and comes in as a span that lives during on_message(). What the
// messages say is others' business.
//
//   MessageBuffers::take() -> fill -> MessageEndpoint::send() -> on_message() of the other worker
//
// Invariants: on_message() and on_broken() come only from inside progress(). Messages over one
// endpoint usually arrive in order, but it is not promised. An endpoint's destruction is abrupt:
// what was not sent is dropped, and the other side is told by on_broken().
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::net {

/// What travels before each message: its own length, little-endian. UCX hands a message out in
/// parts and does not tell of how many bytes.
inline constexpr std::size_t kMessageLengthBytes = 8;

/// Room for one message.
struct MessageBuffer {
  explicit MessageBuffer(std::size_t capacity_bytes)
      : bytes(std::make_unique_for_overwrite<std::byte[]>(kMessageLengthBytes + capacity_bytes)),
        capacity(capacity_bytes) {}
  ByteSpan room() noexcept { return {bytes.get() + kMessageLengthBytes, capacity}; }
  ConstByteSpan filled() const noexcept { return {bytes.get() + kMessageLengthBytes, size}; }
  /// The filled bytes behind their length.
  ConstByteSpan with_length() noexcept;

  std::unique_ptr<std::byte[]> bytes;
  std::size_t capacity;
  std::size_t size = 0;  ///< filled bytes, from the begin of room()
};

/// Buffers that were used once are used again. Thread: as its worker.
class MessageBuffers {
 public:
  explicit MessageBuffers(std::size_t message_bytes) : message_bytes_(message_bytes) {}

  std::size_t message_bytes() const noexcept { return message_bytes_; }
  std::unique_ptr<MessageBuffer> take();
  void give_back(std::unique_ptr<MessageBuffer> buffer);

 private:
  static constexpr std::size_t kMaxIdle = 64;

  const std::size_t message_bytes_;
  std::vector<std::unique_ptr<MessageBuffer>> idle_;
};

class MessageListener {
 public:
  virtual ~MessageListener() = default;
  virtual void on_message(ConstByteSpan message) = 0;
  /// The endpoint made with this `owner` is of no use any more. Told once; destroy it later, not
  /// from inside.
  virtual void on_broken(void* owner, const Status& why) = 0;
};

class MessageEndpoint {
 public:
  virtual ~MessageEndpoint() = default;
  /// Messages that were handed over and have not left yet.
  virtual std::size_t unsent() const noexcept = 0;
  /// Takes the buffer in any case. Errors: peer_lost, exhausted (out of memory).
  virtual Status send(std::unique_ptr<MessageBuffer> buffer) = 0;
};

class MessageWorker {
 public:
  virtual ~MessageWorker() = default;
  virtual ConstByteSpan address() const noexcept = 0;
  virtual MessageBuffers& buffers() noexcept = 0;
  /// Does not block and need not reach the other yet. `address` should come from a worker: UCX
  /// itself trusts it. Errors: unsupported (no common transport), exhausted.
  virtual Result<std::unique_ptr<MessageEndpoint>> connect(ConstByteSpan address, void* owner) = 0;
  /// Some of what there is to do; false when there was nothing.
  virtual bool progress() = 0;
  /// Asks that fd() becomes readable when progress() has something to do. False: there is already.
  virtual bool arm() = 0;
  virtual int fd() const noexcept = 0;
};

}  // namespace towpath::net
