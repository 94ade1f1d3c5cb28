#include <algorithm>
#include <utility>

#include <unistd.h>

#include <towpath/agent/read_only_memory.h>

namespace towpath::agent {

namespace {

/// Only of memory that this library has not mapped itself.
bool may_be_read_only(const RegionDescriptor& region) {
  return is_host_addressable(region.kind) && region.may_fault;
}

}  // namespace

const sys::Fd* OwnMappings::file() {
  run::MutexLock lock(mutex_);
  if (!file_ && !is_unsupported_) {
    if (auto opened = open_(::getpid(), "/proc"); opened.ok())
      file_ = *std::move(opened);
    else
      is_unsupported_ = opened.code() == Code::unsupported;
  }
  return file_ ? &file_ : nullptr;
}

void ReadOnlyMemory::open_for(const RegionDescriptor& region) {
  if (may_be_read_only(region) && !std::exchange(is_open_, true)) open();
}

bool ReadOnlyMemory::holds(const RegionDescriptor& region) {
  if (!may_be_read_only(region)) return false;
  if (UINT64_MAX - region.address < region.length) return false;
  const std::uint64_t end = region.address + region.length;
  for (std::uint64_t at = region.address; at < end;) {
    const sys::ProcessMapping* const mapping = mapping_at(at);
    if (mapping == nullptr || mapping->is_writable) return false;
    at = mapping->end;
  }
  return true;
}

void ReadOnlyMemory::open() {
  single_ = mappings_.file();
  if (single_ != nullptr) return;
  if (auto all = sys::process_mappings(::getpid()); all.ok()) all_ = *std::move(all);
}

const sys::ProcessMapping* ReadOnlyMemory::mapping_at(std::uint64_t address) {
  if (last_.begin <= address && address < last_.end) return &last_;
  if (single_ != nullptr) {
    const auto found = sys::process_mapping_at(*single_, address);
    if (!found.ok()) return nullptr;
    last_ = *found;
    return &last_;
  }
  const auto after = std::ranges::upper_bound(all_, address, {}, &sys::ProcessMapping::begin);
  if (after == all_.begin() || address >= std::prev(after)->end) return nullptr;
  last_ = *std::prev(after);
  return &last_;
}

}  // namespace towpath::agent
