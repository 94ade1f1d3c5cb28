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
constexpr std::size_t kLongestNumber = 10;        // 7 bits in each byte

}  // namespace

bool Encoder::keep(const Status& status) {
  if (root_->failure_.ok()) root_->failure_ = status;
  return root_->failure_.ok();
}

const FieldRule* Encoder::begin_field(Tag tag, Kind kind, std::uint64_t amount) {
  if (!root_->failure_.ok()) return nullptr;
  const std::size_t offset = out().size();
  const FieldRule* rule = tally_.find(tag);
  const Status allowed =
      rule == nullptr ? tally_.unknown(tag, offset)
                      : tally_.add(*rule, {.kind = kind, .amount = amount, .offset = offset});
  if (!keep(allowed)) return nullptr;
  std::array<std::byte, sizeof(std::uint16_t) + sizeof(std::uint8_t)> begin{};
  store(ByteSpan(begin), static_cast<std::uint16_t>(tag));
  begin.back() = static_cast<std::byte>(kind);
  out().insert(out().end(), begin.begin(), begin.end());
  return rule;
}

void Encoder::put_number(Tag tag, std::uint64_t value) {
  if (begin_field(tag, Kind::number, value) == nullptr) return;
  std::array<std::byte, kLongestNumber> written{};
  auto* end = written.begin();
  for (; value >= 0x80; value >>= 7U) *end++ = static_cast<std::byte>(value | 0x80);
  *end++ = static_cast<std::byte>(value);
  out().insert(out().end(), written.begin(), end);
}

void Encoder::put_bytes(Tag tag, ConstByteSpan value) {
  if (value.size() > kMaxLength) {
    keep(error(Code::out_of_range, cat(tally_.schema().name, ": a field of ", value.size(),
                                       " bytes; at most ", kMaxLength)));
    return;
  }
  if (begin_field(tag, Kind::bytes, value.size()) == nullptr) return;
  append(out(), static_cast<std::uint32_t>(value.size()));
  out().insert(out().end(), value.begin(), value.end());
}

const FieldRule* Encoder::begin_nested(Tag tag) {
  // How many bytes it will have, end_nested() knows.
  const FieldRule* rule = begin_field(tag, Kind::nested, 0);
  if (rule != nullptr) append(out(), std::uint32_t{0});
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
