#include <algorithm>

#include <towpath/net/ucx/ucx_parts.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {

std::optional<ConstByteSpan> UcxParts::take(std::size_t offset, ConstByteSpan part) {
  if (offset == 0) return begin(part);
  if (missing_ == 0) return std::nullopt;
  return gather(offset, part);
}

std::optional<ConstByteSpan> UcxParts::begin(ConstByteSpan part) {
  missing_ = 0;
  if (part.size() < kMessageLengthBytes) return part;
  const auto length = wire::load<std::uint64_t>(part);
  const ConstByteSpan bytes = part.subspan(kMessageLengthBytes);
  if (length > message_bytes_ || length < bytes.size()) return part;
  if (length == bytes.size()) return bytes;
  if (!whole_) whole_ = std::make_unique<MessageBuffer>(message_bytes_);
  whole_->size = length;
  missing_ = kMessageLengthBytes + length;
  return gather(0, part);
}

std::optional<ConstByteSpan> UcxParts::gather(std::size_t offset, ConstByteSpan part) {
  const std::size_t end = kMessageLengthBytes + whole_->size;
  if (offset > end || part.size() > std::min(end - offset, missing_)) {
    missing_ = 0;
    return std::nullopt;
  }
  std::ranges::copy(part, whole_->bytes.get() + offset);
  missing_ -= part.size();
  if (missing_ > 0) return std::nullopt;
  return whole_->filled();
}

}  // namespace towpath::net
