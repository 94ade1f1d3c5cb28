// Faults: what a run found wrong, counted by name, with the first of each in full. They travel with
// the summary of their process.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "tools/replay/message.h"

namespace towpath::tools::replay {

class Faults {
 public:
  /// `what` begins with the fault's name, up to the first colon: "swap-kv: K and V are swapped
  /// ...".
  void add(const std::string& what) {
    Entry& entry = by_name_[what.substr(0, what.find(':'))];
    if (entry.count++ == 0) entry.first = what;
  }
  void add(const std::string& name, std::uint64_t count, const std::string& first) {
    Entry& entry = by_name_[name];
    if (entry.count == 0) entry.first = first;
    entry.count += count;
  }

  /// Those of this name are known of: they count no more. How many there were.
  std::uint64_t take(const std::string& name) {
    const auto entry = by_name_.extract(name);
    return entry.empty() ? 0 : entry.mapped().count;
  }

  struct Entry {
    std::uint64_t count = 0;
    std::string first;
  };
  std::uint64_t count_of(const std::string& name) const {
    const auto entry = by_name_.find(name);
    return entry == by_name_.end() ? 0 : entry->second.count;
  }
  bool none() const { return by_name_.empty(); }
  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const auto& [name, entry] : by_name_) sum += entry.count;
    return sum;
  }
  const std::map<std::string, Entry>& by_name() const { return by_name_; }

 private:
  std::map<std::string, Entry> by_name_;
};

inline void put(Message& message, const Faults& faults) {
  for (const auto& [name, entry] : faults.by_name()) {
    message.figures["fault." + name] = entry.count;
    message.texts["fault." + name] = entry.first;
  }
}

inline void take_faults(const Message& message, Faults& faults) {
  for (const auto& [name, text] : message.texts)
    if (name.starts_with("fault.")) faults.add(name.substr(6), figure_of(message, name), text);
}

}  // namespace towpath::tools::replay
