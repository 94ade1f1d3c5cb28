#include <utility>

#include <towpath/core/format.h>
#include <towpath/wire/schema.h>

namespace towpath::wire {

namespace {

std::string text_of(Tag tag) {
  return cat(is_required(tag) ? "required " : "optional ", number_of(tag));
}

}  // namespace

std::string_view name_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::number: return "number";
    case Kind::bytes: return "bytes";
    case Kind::nested: return "nested";
  }
  return "unknown";
}

std::string describe(const Schema& schema, const FieldRule& rule, std::size_t offset) {
  return cat(schema.name, ": field ", rule.name, " (", text_of(rule.tag), ") at byte ", offset);
}

const FieldRule* Tally::search(Tag tag) noexcept {
  const auto rules = schema_->rules;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::size_t at = (next_ + i) % rules.size();
    if (rules[at].tag == tag) return rule_at(at);
  }
  return nullptr;
}

Status Tally::unknown(Tag tag, std::size_t offset) const {
  const bool is_skipped = side_ == Side::reading && !is_required(tag) && number_of(tag) != 0;
  if (is_skipped) return {};
  std::string what = cat(schema_->name, ": unknown field (", text_of(tag), ") at byte ", offset);
  if (side_ == Side::writing)
    return error(Code::invalid_argument, std::move(what), "add a rule for it to the schema");
  if (number_of(tag) == 0) return error(Code::corrupt, std::move(what));
  return error(Code::unsupported, std::move(what),
               "upgrade this side: the sender relies on this field");
}

Status Tally::refuse(const FieldRule& rule, const FieldValue& value) const {
  const std::string which = describe(*schema_, rule, value.offset);
  if (value.kind != rule.kind)
    return error(broken(), cat(which, " is ", name_of(value.kind), ", not ", name_of(rule.kind)));
  if (value.amount > rule.max)
    return error(Code::out_of_range, cat(which, rule.kind == Kind::number ? " is " : " has bytes: ",
                                         value.amount, "; at most ", rule.max));
  if (rule.kind == Kind::nested && depth_ == kMaxDepth)
    return error(Code::out_of_range, cat(which, " is nested deeper than ", kMaxDepth));
  return error(broken(), cat(which, " stands there more than ", rule.count.max,
                             rule.count.max == 1 ? " time" : " times"));
}

Status Tally::missing() const {
  for (std::size_t i = 0; i < schema_->rules.size(); ++i) {
    const FieldRule& rule = schema_->rules[i];
    if (counts_[i] < rule.count.min)
      return error(broken(), cat(schema_->name, ": field ", rule.name, " (", text_of(rule.tag),
                                 ") is missing: ", counts_[i], " of at least ", rule.count.min));
  }
  return {};
}

}  // namespace towpath::wire
