#include <towpath/net/messages/message_worker.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {

MessagePrefix load_prefix(ConstByteSpan from) noexcept {
  return {.head_bytes = wire::load<std::uint32_t>(from),
          .body_bytes = wire::load<std::uint32_t>(from.subspan(4))};
}

ConstByteSpan MessageBuffer::with_prefix(std::uint64_t rest_bytes) noexcept {
  const ByteSpan prefix(bytes.get(), MessagePrefix::kBytes);
  wire::store(prefix, static_cast<std::uint32_t>(size - body_bytes));
  wire::store(prefix.subspan(4), static_cast<std::uint32_t>(body_bytes + rest_bytes));
  return {bytes.get(), MessagePrefix::kBytes + size};
}

std::unique_ptr<MessageBuffer> MessageBuffers::take() {
  if (idle_.empty()) return std::make_unique<MessageBuffer>(message_bytes_);
  std::unique_ptr<MessageBuffer> buffer = std::move(idle_.back());
  idle_.pop_back();
  buffer->size = buffer->body_bytes = 0;
  return buffer;
}

void MessageBuffers::give_back(std::unique_ptr<MessageBuffer> buffer) noexcept {
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(buffer));
}

}  // namespace towpath::net
