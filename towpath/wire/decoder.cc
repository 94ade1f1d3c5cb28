#include <towpath/core/text.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/little_endian.h>

namespace towpath::wire {

Status Field::refuse(std::string_view why) const {
  const std::string where = describe(*schema_, *rule_, offset_);
  if (rule_->kind == Kind::number)
    return error(Code::corrupt, cat(where, " is ", number_, ": ", why));
  return error(Code::corrupt, cat(where, ": ", why));
}

Status Decoder::broken(std::string_view what) const {
  return error(Code::corrupt, cat(tally_.schema().name, ": at byte ", offset(), ": ", what));
}

Result<ConstByteSpan> Decoder::take(std::size_t size_bytes, std::string_view what) {
  const std::size_t left = bytes_.size() - at_;
  if (size_bytes > left)
    return broken(cat(what, " of ", size_bytes, " bytes, but only ", left, " are left"));
  const ConstByteSpan taken = bytes_.subspan(at_, size_bytes);
  at_ += size_bytes;
  return taken;
}

// Seven bits in each byte, the lowest first; the top bit says that another byte follows. A number
// has one form only, the shortest, so that equal messages have equal bytes.
Result<std::uint64_t> Decoder::take_number() {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ == bytes_.size()) return broken("a number cut short");
    const auto byte = static_cast<std::uint64_t>(bytes_[at_++]);
    const std::uint64_t bits = byte & 0x7fU;
    if (shift == 63 && bits > 1) return broken("a number of more than 64 bits");
    number |= bits << shift;
    if ((byte & 0x80U) != 0) continue;
    if (bits == 0 && shift != 0) return broken("a number longer than it needs to be");
    return number;
  }
  return broken("a number of more than 64 bits");
}

Result<Decoder::Value> Decoder::take_value(Kind kind) {
  if (kind == Kind::number) {
    TOWPATH_TRY(const std::uint64_t number, take_number());
    return Value{.number = number, .bytes = {}};
  }
  if (kind != Kind::bytes && kind != Kind::nested)
    return broken(cat("a field of unknown kind ", static_cast<unsigned>(kind)));
  TOWPATH_TRY(const ConstByteSpan length, take(sizeof(std::uint32_t), "a length"));
  TOWPATH_TRY(const ConstByteSpan bytes, take(load<std::uint32_t>(length), "a field"));
  return Value{.number = bytes.size(), .bytes = bytes};
}

Result<std::optional<Field>> Decoder::find_next() {
  while (at_ < bytes_.size()) {
    const std::size_t begin = offset();
    TOWPATH_TRY(const ConstByteSpan head, take(3, "a field's head"));
    const Tag tag{load<std::uint16_t>(head)};
    const Kind kind{load<std::uint8_t>(head.subspan(2))};
    const FieldRule* rule = tally_.find(tag);
    if (rule == nullptr) TOWPATH_TRY(tally_.unknown(tag, begin));
    TOWPATH_TRY(const Value value, take_value(kind));
    if (rule == nullptr) continue;
    TOWPATH_TRY(tally_.add(*rule, {.kind = kind, .amount = value.number, .offset = begin}));
    Field field;
    field.schema_ = &tally_.schema();
    field.rule_ = rule;
    field.number_ = value.number;
    field.bytes_ = value.bytes;
    field.offset_ = begin;
    field.value_offset_ = offset() - value.bytes.size();
    field.depth_ = tally_.depth();
    return std::optional<Field>(field);
  }
  TOWPATH_TRY(tally_.complete());
  return std::optional<Field>();
}

Result<std::optional<Field>> Decoder::next() {
  TOWPATH_TRY(failure_);
  auto found = find_next();
  failure_ = found.status();
  return found;
}

}  // namespace towpath::wire
