#include <towpath/net/ucx/ucx_worker.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {

ConstByteSpan UcxBuffer::with_length() noexcept {
  wire::store<std::uint64_t>({bytes.get(), kUcxLengthBytes}, size);
  return {bytes.get(), kUcxLengthBytes + size};
}

std::unique_ptr<UcxBuffer> UcxBuffers::take() {
  if (idle_.empty()) return std::make_unique<UcxBuffer>(message_bytes_);
  std::unique_ptr<UcxBuffer> buffer = std::move(idle_.back());
  idle_.pop_back();
  buffer->size = 0;
  return buffer;
}

void UcxBuffers::give_back(std::unique_ptr<UcxBuffer> buffer) {
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(buffer));
}

}  // namespace towpath::net
