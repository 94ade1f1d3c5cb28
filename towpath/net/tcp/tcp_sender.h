// TcpSender: messages that wait to leave over one connection.
//
// A message leaves at once if it can: its buffer and the parts of its body by one call. What the
// socket does not take waits, in the order in which it was sent.
// Thread: one at a time.
#pragma once

#include <deque>
#include <memory>

#include <towpath/net/messages/message_worker.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {

class TcpSender {
 public:
  /// `buffers` outlive it.
  explicit TcpSender(MessageBuffers& buffers) : buffers_(buffers) {}
  /// What waits is dropped.
  ~TcpSender();
  TcpSender(const TcpSender&) = delete;
  TcpSender& operator=(const TcpSender&) = delete;

  std::size_t unsent() const noexcept { return unsent_.size(); }
  bool is_empty() const noexcept { return unsent_.empty(); }
  std::uint64_t unsent_bytes() const noexcept;
  /// As MessageEndpoint::send(). Null `stream`: it waits until leave_all().
  Status send(sys::ByteStream* stream, std::unique_ptr<MessageBuffer> buffer, BodySource* rest,
              std::uint64_t rest_bytes);
  /// What the socket takes, until it is enough for one call. Errors: peer_lost.
  Status leave_all(sys::ByteStream& stream);
  /// Bytes that have left so far.
  std::uint64_t left_bytes() const noexcept { return left_bytes_; }
  /// As MessageEndpoint::copy(). Errors: exhausted (no memory): all that waited was dropped, and
  /// nothing can be sent any more.
  Status copy(BodySource& rest);
  /// As send() does after an error.
  void drop(std::unique_ptr<MessageBuffer> buffer, BodySource* rest);

 private:
  struct Unsent {
    std::unique_ptr<MessageBuffer> buffer;
    ConstByteSpan left;  ///< of the buffer, its prefix too
    BodySource* rest = nullptr;
    std::uint64_t rest_left = 0;
    std::unique_ptr<MessageBuffer> copied;  ///< instead of `rest`
    std::size_t copied_left = 0;

    std::uint64_t bytes() const noexcept { return left.size() + rest_left + copied_left; }
    std::size_t parts(std::span<ConstByteSpan> into);
    void advance(std::uint64_t bytes);
  };

  Status leave_at_once(sys::ByteStream& stream);
  Status leave(sys::ByteStream& stream, Unsent& message);
  /// So that nobody looks at its `rest` any more.
  void copy_rest(Unsent& message);
  void put_away(Unsent& message);
  void drop_all();

  MessageBuffers& buffers_;
  std::deque<Unsent> unsent_;
  std::uint64_t left_bytes_ = 0;
  const Status no_memory_ = error(Code::exhausted, "no memory was left for a message");
};

}  // namespace towpath::net
