#include <algorithm>

#include <towpath/backends/shm/process_copy.h>
#include <towpath/backends/shm/readable_memory.h>

namespace towpath::backends::shm {

ReadableMemory::ReadableMemory(pid_t pid, std::size_t regions) : pid_(pid) {
  constexpr std::size_t kFew = 128;  // reads that take as long as the mappings of a large program
  if (regions < kFew) return;
  auto mappings = sys::process_mappings(pid);
  if (!mappings.ok()) return;  // each is asked for
  mappings_ = *std::move(mappings);
  proven_.resize(mappings_.size());
}

Status ReadableMemory::check(std::uint64_t address, std::uint64_t length) {
  const sys::ProcessMapping* const mapping = mapping_of(address, length);
  if (mapping == nullptr) return try_process_memory(pid_, address, length);
  const auto index = static_cast<std::size_t>(mapping - mappings_.data());
  if (proven_[index]) return {};
  Status read = try_process_memory(pid_, address, length);
  proven_[index] = read.ok();
  return read;
}

const sys::ProcessMapping* ReadableMemory::mapping_of(std::uint64_t address, std::uint64_t length) {
  const auto covers = [&](const sys::ProcessMapping& mapping) {
    return mapping.begin <= address && address < mapping.end && length <= mapping.end - address;
  };
  if (last_ == nullptr || !covers(*last_)) {
    const auto after =
        std::ranges::upper_bound(mappings_, address, {}, &sys::ProcessMapping::begin);
    if (after == mappings_.begin()) return nullptr;
    last_ = &*std::prev(after);
  }
  return last_->is_plain && covers(*last_) ? last_ : nullptr;
}

}  // namespace towpath::backends::shm
