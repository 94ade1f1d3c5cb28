#include <algorithm>

#include <towpath/kv/blocks/attachments.h>

namespace towpath::kv {
namespace {

auto of_type(auto& values, std::type_index type) {
  return std::ranges::find(values, type, &Attachments::Values::value_type::first);
}

}  // namespace

bool Attachments::add(SlotId slot, std::type_index type, Value&& value) {
  Values& values = by_slot_[slot];
  if (of_type(values, type) != values.end()) return false;
  values.emplace_back(type, std::move(value));
  return true;
}

Attachments::Value Attachments::find(SlotId slot, std::type_index type) const {
  const auto known = by_slot_.find(slot);
  if (known == by_slot_.end()) return nullptr;
  const auto found = of_type(known->second, type);
  return found == known->second.end() ? nullptr : found->second;
}

Attachments::Value Attachments::take(SlotId slot, std::type_index type) {
  const auto known = by_slot_.find(slot);
  if (known == by_slot_.end()) return nullptr;
  Values& values = known->second;
  const auto found = of_type(values, type);
  if (found == values.end()) return nullptr;
  Value taken = std::move(found->second);
  values.erase(found);
  if (values.empty()) by_slot_.erase(known);
  return taken;
}

Attachments::Values Attachments::take_all(SlotId slot) {
  const auto known = by_slot_.find(slot);
  if (known == by_slot_.end()) return {};
  Values taken = std::move(known->second);
  by_slot_.erase(known);
  return taken;
}

}  // namespace towpath::kv
