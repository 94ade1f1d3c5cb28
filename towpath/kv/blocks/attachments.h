// Attachments: what a user ties to blocks, by slot and type: at most one value of each type to a
// block. It never destroys a value itself: that may call back into whoever holds its lock.
// Thread: none of its own.
#pragma once

#include <memory>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <towpath/kv/block_id.h>

namespace towpath::kv {

class Attachments {
 public:
  using Value = std::shared_ptr<void>;
  using Values = std::vector<std::pair<std::type_index, Value>>;

  /// False: the slot has one of the type, which stays; `value` is still the caller's.
  bool add(SlotId slot, std::type_index type, Value&& value);
  /// Null: there is none.
  Value find(SlotId slot, std::type_index type) const;
  /// No longer tied to it.
  Value take(SlotId slot, std::type_index type);
  Values take_all(SlotId slot);

 private:
  std::unordered_map<SlotId, Values> by_slot_;  // no empty ones
};

}  // namespace towpath::kv
