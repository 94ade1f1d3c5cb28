#include <algorithm>
#include <array>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/text.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/little_endian.h>

namespace towpath::wire {

namespace {

constexpr std::uint64_t kMaxLength = UINT32_MAX;  // lengths are u32

}  // namespace

bool Encoder::keep(const Status& status) {
  if (root_->failure_.ok()) root_->failure_ = status;
  return root_->failure_.ok();
}

const FieldRule* Encoder::begin_field(Tag tag, const FieldValue& value, Begin& begin) {
  if (!root_->failure_.ok()) return nullptr;
  const FieldRule* rule = tally_.find(tag);
  const Status allowed =
      rule == nullptr ? tally_.unknown(tag, value.offset) : tally_.add(*rule, value);
  if (!allowed.ok()) {
    keep(allowed);
    return nullptr;
  }
  store(ByteSpan(begin.bytes), static_cast<std::uint16_t>(tag));
  begin.bytes[sizeof(std::uint16_t)] = static_cast<std::byte>(value.kind);
  begin.size = sizeof(std::uint16_t) + sizeof(std::uint8_t);
  return rule;
}

void Encoder::Begin::put_length(std::uint64_t length) {
  store(ByteSpan(bytes).subspan(size), static_cast<std::uint32_t>(length));
  size += sizeof(std::uint32_t);
}

void Encoder::write(const Begin& begin) {
  out().insert(out().end(), begin.bytes.begin(), begin.bytes.begin() + begin.size);
}

void Encoder::put_number(Tag tag, std::uint64_t value) {
  Begin begin;
  if (begin_field(tag, {Kind::number, value, out().size()}, begin) == nullptr) return;
  for (; value >= 0x80; value >>= 7U)
    begin.bytes[begin.size++] = static_cast<std::byte>(value | 0x80);
  begin.bytes[begin.size++] = static_cast<std::byte>(value);
  write(begin);
}

void Encoder::put_bytes(Tag tag, ConstByteSpan value) {
  if (value.size() > kMaxLength) {
    keep(error(Code::out_of_range, cat(tally_.schema().name, ": a field of ", value.size(),
                                       " bytes; at most ", kMaxLength)));
    return;
  }
  Begin begin;
  if (begin_field(tag, {Kind::bytes, value.size(), out().size()}, begin) == nullptr) return;
  begin.put_length(value.size());
  write(begin);
  out().insert(out().end(), value.begin(), value.end());
}

const FieldRule* Encoder::begin_nested(Tag tag) {
  Begin begin;
  const FieldRule* rule = begin_field(tag, {Kind::nested, 0, out().size()}, begin);
  if (rule == nullptr) return nullptr;
  begin.put_length(0);  // how many bytes it will have, end_nested() knows
  write(begin);
  return rule;
}

void Encoder::end_nested(const FieldRule& rule, const Encoder& inner) {
  if (!keep(inner.tally_.complete())) return;
  const std::uint64_t size = out().size() - inner.begin_;
  if (const std::uint64_t most = std::min(rule.max, kMaxLength); size > most) {
    keep(error(Code::out_of_range, cat(describe(tally_.schema(), rule, inner.begin_),
                                       " has bytes: ", size, "; at most ", most)));
    return;
  }
  store(ByteSpan(out()).subspan(inner.begin_ - sizeof(std::uint32_t)),
        static_cast<std::uint32_t>(size));
}

Result<Bytes> Encoder::finish() && {
  TOWPATH_CHECK(root_ == this, "finish() of a nested encoder");
  TOWPATH_TRY(failure_);
  TOWPATH_TRY(tally_.complete());
  return std::move(bytes_);
}

}  // namespace towpath::wire
