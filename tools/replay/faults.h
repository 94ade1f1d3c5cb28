// Faults: what a run found wrong, counted by name, with the first of each in full.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

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

  struct Entry {
    std::uint64_t count = 0;
    std::string first;
  };
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

}  // namespace towpath::tools::replay
