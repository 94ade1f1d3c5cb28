#include <utility>

#include <towpath/core/format.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/little_endian.h>

namespace towpath::wire {

Status Field::refuse(std::string_view why) const {
  const std::string where = describe(*schema_, *rule_, offset_);
  if (rule_->kind == Kind::number)
    return error(Code::corrupt, cat(where, " is ", number_, ": ", why));
  return error(Code::corrupt, cat(where, ": ", why));
}

bool Decoder::fail(Status why) {
  failure_ = std::move(why);
  return false;
}

bool Decoder::broken(std::string_view what) {
  return fail(error(Code::corrupt, cat(tally_.schema().name, ": at byte ", offset(), ": ", what)));
}

bool Decoder::take(std::size_t size_bytes, std::string_view what, ConstByteSpan& taken) {
  const std::size_t left = bytes_.size() - at_;
  if (size_bytes > left)
    return broken(cat(what, " of ", size_bytes, " bytes, but only ", left, " are left"));
  taken = bytes_.subspan(at_, size_bytes);
  at_ += size_bytes;
  return true;
}

// Seven bits in each byte, the lowest first; the top bit says that another byte follows. A number
// has one form only, the shortest, so that equal messages have equal bytes.
bool Decoder::take_number(std::uint64_t& number) {
  std::uint64_t value = 0;
  std::size_t at = at_;  // and not the member, which each byte would store
  for (unsigned shift = 0; at != bytes_.size(); shift += 7) {
    const auto byte = static_cast<std::uint64_t>(bytes_[at++]);
    const std::uint64_t bits = byte & 0x7fU;
    value |= bits << shift;
    const bool is_last = byte < 0x80U;
    if (!is_last && shift < 63) continue;
    at_ = at;
    if (!is_last || (shift == 63 && bits > 1)) return broken("a number of more than 64 bits");
    if (bits == 0 && shift != 0) return broken("a number longer than it needs to be");
    number = value;
    return true;
  }
  at_ = at;
  return broken("a number cut short");
}

// As it stands there, before anyone asked whether it may.
bool Decoder::take_value(Kind kind, Field& field) {
  field.bytes_ = {};
  if (kind == Kind::number) return take_number(field.number_);
  if (kind != Kind::bytes && kind != Kind::nested)
    return broken(cat("a field of unknown kind ", static_cast<unsigned>(kind)));
  ConstByteSpan length;
  if (!take(sizeof(std::uint32_t), "a length", length)) return false;
  if (!take(load<std::uint32_t>(length), "a field", field.bytes_)) return false;
  field.number_ = field.bytes_.size();
  return true;
}

Decoder::Step Decoder::step(Field& field) {
  constexpr std::size_t kHeadBytes = 3;
  if (!failure_.ok()) return Step::failed;
  while (at_ < bytes_.size()) {
    const std::size_t begin = offset();
    ConstByteSpan head = bytes_.subspan(at_);
    if (head.size() < kHeadBytes && !take(kHeadBytes, "a field's head", head)) return Step::failed;
    at_ += kHeadBytes;
    const Tag tag{load<std::uint16_t>(head)};
    const Kind kind{load<std::uint8_t>(head.subspan(2))};
    const FieldRule* rule = tally_.find(tag);
    if (rule == nullptr) {
      failure_ = tally_.unknown(tag, begin);
      if (!failure_.ok()) return Step::failed;
    }
    if (!take_value(kind, field)) return Step::failed;
    if (rule == nullptr) continue;
    Status allowed = tally_.add(*rule, {.kind = kind, .amount = field.number_, .offset = begin});
    if (!allowed.ok()) {
      failure_ = std::move(allowed);
      return Step::failed;
    }
    field.schema_ = &tally_.schema();
    field.rule_ = rule;
    field.offset_ = begin;
    field.value_offset_ = offset() - field.bytes_.size();
    field.depth_ = tally_.depth();
    return Step::field;
  }
  failure_ = tally_.complete();
  return failure_.ok() ? Step::end : Step::failed;
}

Result<std::optional<Field>> Decoder::next() {
  Field field;
  switch (step(field)) {
    case Step::field: return std::optional<Field>(field);
    case Step::end: return std::optional<Field>();
    default: return failure_;
  }
}

}  // namespace towpath::wire
