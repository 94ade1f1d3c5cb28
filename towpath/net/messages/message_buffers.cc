#include <towpath/net/messages/message_worker.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {

ConstByteSpan MessageBuffer::with_length() noexcept {
  wire::store<std::uint64_t>({bytes.get(), kMessageLengthBytes}, size);
  return {bytes.get(), kMessageLengthBytes + size};
}

std::unique_ptr<MessageBuffer> MessageBuffers::take() {
  if (idle_.empty()) return std::make_unique<MessageBuffer>(message_bytes_);
  std::unique_ptr<MessageBuffer> buffer = std::move(idle_.back());
  idle_.pop_back();
  buffer->size = 0;
  return buffer;
}

void MessageBuffers::give_back(std::unique_ptr<MessageBuffer> buffer) {
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(buffer));
}

}  // namespace towpath::net
