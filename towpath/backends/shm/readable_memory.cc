#include <iterator>
#include <utility>

#include <towpath/backends/shm/process_copy.h>
#include <towpath/backends/shm/readable_memory.h>

namespace towpath::backends::shm {

ReadableMemory::ReadableMemory(pid_t pid, std::size_t regions, Open* open) : pid_(pid) {
  constexpr std::size_t kFew = 128;  // reads that take as long as the mappings of a large program
  if (regions < kFew) return;
  if (auto single = open(pid, "/proc"); single.ok()) {
    single_ = *std::move(single);
    return;
  }
  const auto mappings = sys::process_mappings(pid);
  if (!mappings.ok()) return;  // each is asked for
  for (const sys::ProcessMapping& mapping : *mappings)
    known_.emplace_hint(known_.end(), mapping.begin, Known{mapping});
}

Status ReadableMemory::check(std::uint64_t address, std::uint64_t length) {
  Known* const known = mapping_of(address, length);
  if (known == nullptr) return try_process_memory(pid_, address, length);
  if (known->is_proven) return {};
  Status read = try_process_memory(pid_, address, length);
  known->is_proven = read.ok();
  return read;
}

ReadableMemory::Known* ReadableMemory::mapping_of(std::uint64_t address, std::uint64_t length) {
  const auto covers = [&](const sys::ProcessMapping& mapping) {
    return mapping.begin <= address && address < mapping.end && length <= mapping.end - address;
  };
  if (last_ == nullptr || !covers(last_->mapping)) last_ = find(address);
  const bool is_known = last_ != nullptr && last_->mapping.is_plain && covers(last_->mapping);
  return is_known ? last_ : nullptr;
}

ReadableMemory::Known* ReadableMemory::find(std::uint64_t address) {
  if (const auto after = known_.upper_bound(address); after != known_.begin()) {
    Known& before = std::prev(after)->second;
    if (address < before.mapping.end) return &before;
  }
  if (!single_) return nullptr;
  const auto found = sys::process_mapping_at(single_, address);
  if (!found.ok()) return nullptr;
  return &known_.insert_or_assign(found->begin, Known{*found}).first->second;
}

}  // namespace towpath::backends::shm
