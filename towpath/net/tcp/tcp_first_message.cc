#include <towpath/core/format.h>
#include <towpath/net/tcp/tcp_first_message.h>

namespace towpath::net {

Result<bool> TcpFirstMessage::read(sys::ByteStream& stream) {
  if (bytes_.empty()) bytes_.resize(MessagePrefix::kBytes);
  for (;;) {
    while (filled_ < bytes_.size()) {
      TOWPATH_TRY(const auto got, stream.read_some(ByteSpan(bytes_).subspan(filled_)));
      if (got.ended) return error(Code::peer_lost, "the other side has closed the connection");
      if (got.size_bytes == 0) return false;
      filled_ += got.size_bytes;
    }
    const MessagePrefix prefix = load_prefix(bytes_);
    if (prefix.message_bytes() > max_bytes_) {
      return error(Code::corrupt,
                   cat("a first message of ", prefix.message_bytes(), " bytes; at most ",
                       max_bytes_, " are taken"),
                   "use the same release on both sides");
    }
    const std::size_t whole = MessagePrefix::kBytes + prefix.message_bytes();
    if (bytes_.size() == whole) return true;
    bytes_.resize(whole);
  }
}

ConstByteSpan TcpFirstMessage::head() const noexcept {
  return ConstByteSpan(bytes_).subspan(MessagePrefix::kBytes, load_prefix(bytes_).head_bytes);
}

ConstByteSpan TcpFirstMessage::body() const noexcept {
  return ConstByteSpan(bytes_).last(load_prefix(bytes_).body_bytes);
}

}  // namespace towpath::net
