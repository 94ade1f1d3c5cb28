// TcpIncoming: a connection that somebody opened to us: first his secret, then messages.
//
//   socket --> [ stage: prefixes, heads, short bodies ] --> on_message()
//          \-> BodySink::room(): all of a long body but its begin
//
// What comes is a stranger's until the secret was right, and bounded afterwards: a head and a body
// no longer than agreed on. Nothing is allocated for what a prefix only announces.
// Thread: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include <towpath/net/messages/message_worker.h>
#include <towpath/net/tcp/tcp_worker.h>
#include <towpath/net/token.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {

class TcpIncoming {
 public:
  struct Limits {
    std::size_t head_bytes = 0;
    std::size_t body_bytes = 0;
  };
  /// `secret` and `listener` outlive it. `id`: by which the listener knows it.
  TcpIncoming(std::unique_ptr<sys::ByteStream> stream, std::uint64_t id, const Token& secret,
              const Limits& limits, MessageListener& listener);
  /// Whoever waits for the rest of a body is told that it never comes.
  ~TcpIncoming();
  TcpIncoming(const TcpIncoming&) = delete;
  TcpIncoming& operator=(const TcpIncoming&) = delete;

  /// Tells who listens here.
  Status greet(std::uint64_t instance);
  /// Takes some of what has come. Errors: nothing more comes, and why (peer_lost, corrupt, denied).
  Status take();
  bool is_known() const noexcept { return is_known_; }
  std::uint64_t id() const noexcept { return id_; }
  int fd() const noexcept { return stream_->fd(); }

 private:
  ConstByteSpan staged() const noexcept { return {stage_.get() + begin_, end_ - begin_}; }
  void consume(std::size_t bytes) noexcept;
  Result<std::uint64_t> read(std::uint64_t& asked);
  Status take_staged();
  bool take_secret();
  void take_body();
  Result<bool> take_head();
  void put_down();
  void wait_for_more();

  const std::unique_ptr<sys::ByteStream> stream_;
  const std::uint64_t id_;
  const Token& secret_;
  const Limits limits_;
  MessageListener& listener_;
  bool is_known_ = false;

  const std::size_t stage_bytes_;  ///< more than the longest head and its prefix
  const std::unique_ptr<std::byte[]> stage_;
  std::size_t begin_ = 0;  ///< of what has come and was not taken
  std::size_t end_ = 0;
  Bytes head_;                  ///< of the message whose body comes
  std::uint64_t missing_ = 0;   ///< bytes of that body
  BodySink* sink_ = nullptr;    ///< null: nobody is told of it
  bool is_dropped_ = false;     ///< nobody wants what is missing
  std::uint64_t wakes_at_ = 1;  ///< bytes
};

}  // namespace towpath::net
