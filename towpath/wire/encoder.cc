#include <algorithm>
#include <cstring>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/little_endian.h>

namespace towpath::wire {

namespace {

constexpr std::uint64_t kMaxLength = UINT32_MAX;
constexpr std::size_t kLengthBytes = sizeof(std::uint32_t);

}  // namespace

bool Encoder::keep(const Status& status) {
  if (root_->failure_.ok()) root_->failure_ = status;
  return root_->failure_.ok();
}

void Encoder::flush() {
  large_.insert(large_.end(), small_.begin(), small_.begin() + static_cast<std::ptrdiff_t>(used_));
  used_ = 0;
}

// Inline, these two: they are most of what a small field costs.
inline const FieldRule* Encoder::begin_field(Tag tag, const FieldValue& value) {
  if (!root_->failure_.ok()) return nullptr;
  const FieldRule* rule = tally_.find(tag);
  const Status allowed =
      rule == nullptr ? tally_.unknown(tag, value.offset) : tally_.add(*rule, value);
  if (allowed.ok()) return rule;
  keep(allowed);
  return nullptr;
}

inline std::byte* Encoder::put_head(Tag tag, Kind kind, std::size_t room) {
  constexpr std::size_t kHeadBytes = sizeof(std::uint16_t) + sizeof(std::uint8_t);
  if (root_->used_ + kHeadBytes + room > kSmall) root_->flush();
  const ByteSpan head = ByteSpan(root_->small_).subspan(root_->used_);
  store(head, static_cast<std::uint16_t>(tag));
  head[sizeof(std::uint16_t)] = static_cast<std::byte>(kind);
  return head.data() + kHeadBytes;
}

void Encoder::put_number(Tag tag, std::uint64_t value) {
  constexpr std::size_t kMostBytes = 10;  // of 7 bits each
  if (begin_field(tag, {Kind::number, value, root_->size()}) == nullptr) return;
  std::byte* out = put_head(tag, Kind::number, kMostBytes);
  for (; value >= 0x80; value >>= 7U) *out++ = static_cast<std::byte>(value | 0x80);
  *out++ = static_cast<std::byte>(value);
  written(out);
}

void Encoder::put_bytes(Tag tag, ConstByteSpan value) {
  if (value.size() > kMaxLength) {
    keep(error(Code::out_of_range, cat(tally_.schema().name, ": a field of ", value.size(),
                                       " bytes; at most ", kMaxLength)));
    return;
  }
  if (begin_field(tag, {Kind::bytes, value.size(), root_->size()}) == nullptr) return;
  std::byte* const out = put_head(tag, Kind::bytes, kLengthBytes);
  store(ByteSpan(out, kLengthBytes), static_cast<std::uint32_t>(value.size()));
  written(out + kLengthBytes);
  if (root_->used_ + value.size() <= kSmall) {
    if (!value.empty()) std::memcpy(out + kLengthBytes, value.data(), value.size());
    written(out + kLengthBytes + value.size());
    return;
  }
  root_->flush();
  root_->large_.insert(root_->large_.end(), value.begin(), value.end());
}

const FieldRule* Encoder::begin_nested(Tag tag) {
  const FieldRule* rule = begin_field(tag, {Kind::nested, 0, root_->size()});
  // How many bytes it will have, end_nested() knows.
  if (rule != nullptr) written(put_head(tag, Kind::nested, kLengthBytes) + kLengthBytes);
  return rule;
}

void Encoder::end_nested(const FieldRule& rule, const Encoder& inner) {
  if (!keep(inner.tally_.complete())) return;
  const std::uint64_t size = root_->size() - inner.begin_;
  if (const std::uint64_t most = std::min(rule.max, kMaxLength); size > most) {
    keep(error(Code::out_of_range, cat(describe(tally_.schema(), rule, inner.begin_),
                                       " has bytes: ", size, "; at most ", most)));
    return;
  }
  const std::size_t at = inner.begin_ - kLengthBytes;  // never partly in either
  const std::size_t flushed = root_->large_.size();
  const ByteSpan length = at < flushed ? ByteSpan(root_->large_).subspan(at)
                                       : ByteSpan(root_->small_).subspan(at - flushed);
  store(length, static_cast<std::uint32_t>(size));
}

Result<Bytes> Encoder::finish() && {
  TOWPATH_CHECK(root_ == this, "finish() of a nested encoder");
  TOWPATH_TRY(failure_);
  TOWPATH_TRY(tally_.complete());
  if (large_.empty()) return Bytes(small_.data(), small_.data() + used_);
  flush();
  return std::move(large_);
}

}  // namespace towpath::wire
