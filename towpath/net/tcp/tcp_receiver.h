// TcpReceiver: the messages that come over one connection, once its other side has proven itself.
//
//   socket --> [ stage: prefixes, heads, short bodies ] --> on_message()
//          \-> BodySink::room(): all of a long body but its begin
//
// A head and a body are no longer than agreed on. Nothing is allocated for what a prefix only
// announces.
// Thread: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include <towpath/net/messages/message_worker.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {

class TcpReceiver {
 public:
  struct Limits {
    std::size_t head_bytes = 0;
    std::size_t body_bytes = 0;
  };
  /// `stream` and `listener` outlive it. `from`: by which the listener knows the connection.
  TcpReceiver(sys::ByteStream& stream, std::uint64_t from, const Limits& limits,
              MessageListener& listener);
  /// Who waits for the rest of a body learns that it never comes.
  ~TcpReceiver();
  TcpReceiver(const TcpReceiver&) = delete;
  TcpReceiver& operator=(const TcpReceiver&) = delete;

  /// Takes some of what has come, until that and what the listener did about it are enough for one
  /// call. Errors: nothing more comes, and why (peer_lost, corrupt).
  Status take();
  /// The message that is being delivered is answered with so many bytes.
  void note_answered(std::uint64_t bytes) noexcept { work_ += bytes; }
  /// What the last take() has done: bytes that came and that were answered, and messages.
  std::uint64_t work() const noexcept { return work_; }
  /// The last take() ended for that: there may be more, also where nobody counts it.
  bool has_done_enough() const noexcept;
  /// There is more to take() now, for which the stream's descriptor may wake nobody: messages that
  /// were left in the stage, or what a stream that decrypts holds back.
  bool has_rest() const noexcept { return is_cut_short_ || stream_.buffered_bytes() > 0; }

 private:
  ConstByteSpan staged() const noexcept { return {stage_.get() + begin_, end_ - begin_}; }
  void consume(std::size_t bytes) noexcept;
  Result<std::uint64_t> read(std::uint64_t& asked);
  Status take_staged();
  void take_body();
  Result<bool> take_head();
  void put_down();
  void wait_for_more();

  sys::ByteStream& stream_;
  const std::uint64_t from_;
  const Limits limits_;
  MessageListener& listener_;

  const std::size_t stage_bytes_;  ///< more than the longest head and its prefix
  const std::unique_ptr<std::byte[]> stage_;
  std::size_t begin_ = 0;  ///< of what has come and was not taken
  std::size_t end_ = 0;
  Bytes head_;                  ///< of the message whose body comes
  std::uint64_t missing_ = 0;   ///< bytes of that body
  BodySink* sink_ = nullptr;    ///< null: nobody is notified of it
  bool is_dropped_ = false;     ///< nobody wants what is missing
  std::uint64_t work_ = 0;      ///< of this call, or the last one, in bytes
  bool is_cut_short_ = false;   ///< what is staged was not all taken
  std::uint64_t wakes_at_ = 1;  ///< bytes
};

}  // namespace towpath::net
