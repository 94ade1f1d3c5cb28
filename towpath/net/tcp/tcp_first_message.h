// TcpFirstMessage: one short message of somebody who has not proven who he is. It never takes more
// bytes than were announced, so that what follows is left to another reader, and holds no more than
// was agreed on.
// Thread: one at a time.
#pragma once

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/net/messages/message_worker.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {

class TcpFirstMessage {
 public:
  /// `max_bytes`: of its head and body.
  explicit TcpFirstMessage(std::size_t max_bytes) noexcept : max_bytes_(max_bytes) {}

  /// Takes what has come of it. True: it is whole. Errors: peer_lost (closed), corrupt (too long).
  Result<bool> read(sys::ByteStream& stream);
  ConstByteSpan head() const noexcept;
  ConstByteSpan body() const noexcept;
  /// For the next one.
  void clear() noexcept { bytes_.clear(), filled_ = 0; }

 private:
  std::size_t max_bytes_;
  Bytes bytes_;             ///< as long as what is known to come
  std::size_t filled_ = 0;  ///< of them
};

}  // namespace towpath::net
