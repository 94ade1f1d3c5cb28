#include <algorithm>

#include <towpath/net/ucx/ucx_parts.h>

namespace towpath::net {
namespace {

UcxParts::Whole split(const MessagePrefix& prefix, ConstByteSpan bytes) {
  return {.head = bytes.first(prefix.head_bytes), .body = bytes.subspan(prefix.head_bytes)};
}

}  // namespace

std::optional<UcxParts::Whole> UcxParts::take(std::size_t offset, ConstByteSpan part) {
  if (offset == 0) return begin(part);
  if (missing_ == 0) return std::nullopt;
  return gather(offset, part);
}

std::optional<UcxParts::Whole> UcxParts::begin(ConstByteSpan part) {
  missing_ = 0;
  const Whole as_it_is{.head = part, .body = {}};
  if (part.size() < MessagePrefix::kBytes) return as_it_is;
  prefix_ = load_prefix(part);
  const std::uint64_t length = prefix_.message_bytes();
  const ConstByteSpan bytes = part.subspan(MessagePrefix::kBytes);
  if (length > message_bytes_ || length < bytes.size()) return as_it_is;
  if (length == bytes.size()) return split(prefix_, bytes);
  if (!whole_) whole_ = std::make_unique<MessageBuffer>(message_bytes_);
  whole_->size = length;
  missing_ = MessagePrefix::kBytes + length;
  return gather(0, part);
}

std::optional<UcxParts::Whole> UcxParts::gather(std::size_t offset, ConstByteSpan part) {
  const std::size_t end = MessagePrefix::kBytes + whole_->size;
  if (offset > end || part.size() > std::min(end - offset, missing_)) {
    missing_ = 0;
    return std::nullopt;
  }
  copy_bytes(part, whole_->bytes.get() + offset);
  missing_ -= part.size();
  if (missing_ > 0) return std::nullopt;
  return split(prefix_, whole_->filled());
}

}  // namespace towpath::net
