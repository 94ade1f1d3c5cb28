#include <algorithm>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/text.h>
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

void Encoder::grow_to(std::size_t size_bytes) {
  if (bytes_.size() < size_bytes) bytes_.resize(size_bytes);
}

const FieldRule* Encoder::begin_field(Tag tag, const FieldValue& value) {
  if (!root_->failure_.ok()) return nullptr;
  const FieldRule* rule = tally_.find(tag);
  const Status allowed =
      rule == nullptr ? tally_.unknown(tag, value.offset) : tally_.add(*rule, value);
  if (allowed.ok()) return rule;
  keep(allowed);
  return nullptr;
}

std::byte* Encoder::put_head(Tag tag, Kind kind, std::size_t room) {
  constexpr std::size_t kFirst = 64;
  constexpr std::size_t kHeadBytes = sizeof(std::uint16_t) + sizeof(std::uint8_t);
  Bytes& bytes = root_->bytes_;
  const std::size_t needed = root_->size_ + kHeadBytes + room;
  if (needed > bytes.size()) root_->grow_to(std::max({kFirst, 2 * bytes.size(), needed}));
  const ByteSpan head(bytes.data() + root_->size_, kHeadBytes);
  store(head, static_cast<std::uint16_t>(tag));
  head[sizeof(std::uint16_t)] = static_cast<std::byte>(kind);
  return head.data() + kHeadBytes;
}

void Encoder::put_number(Tag tag, std::uint64_t value) {
  constexpr std::size_t kMostBytes = 10;  // of 7 bits each
  if (begin_field(tag, {Kind::number, value, root_->size_}) == nullptr) return;
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
  if (begin_field(tag, {Kind::bytes, value.size(), root_->size_}) == nullptr) return;
  std::byte* const out = put_head(tag, Kind::bytes, kLengthBytes + value.size());
  store(ByteSpan(out, kLengthBytes), static_cast<std::uint32_t>(value.size()));
  written(std::ranges::copy(value, out + kLengthBytes).out);
}

const FieldRule* Encoder::begin_nested(Tag tag) {
  const FieldRule* rule = begin_field(tag, {Kind::nested, 0, root_->size_});
  // How many bytes it will have, end_nested() knows.
  if (rule != nullptr) written(put_head(tag, Kind::nested, kLengthBytes) + kLengthBytes);
  return rule;
}

void Encoder::end_nested(const FieldRule& rule, const Encoder& inner) {
  if (!keep(inner.tally_.complete())) return;
  const std::uint64_t size = root_->size_ - inner.begin_;
  if (const std::uint64_t most = std::min(rule.max, kMaxLength); size > most) {
    keep(error(Code::out_of_range, cat(describe(tally_.schema(), rule, inner.begin_),
                                       " has bytes: ", size, "; at most ", most)));
    return;
  }
  store(ByteSpan(root_->bytes_).subspan(inner.begin_ - kLengthBytes),
        static_cast<std::uint32_t>(size));
}

Result<Bytes> Encoder::finish() && {
  TOWPATH_CHECK(root_ == this, "finish() of a nested encoder");
  TOWPATH_TRY(failure_);
  TOWPATH_TRY(tally_.complete());
  bytes_.resize(size_);
  return std::move(bytes_);
}

}  // namespace towpath::wire
