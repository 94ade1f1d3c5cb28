#include <utility>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/device/host/host_copy.h>
#include <towpath/device/host/host_device.h>
#include <towpath/device/host/host_event.h>
#include <towpath/device/host/host_ipc.h>
#include <towpath/device/host/host_pool.h>
#include <towpath/device/host/host_stream.h>
#include <towpath/sys/memfd.h>

namespace towpath::device {
namespace {

Status check_size(std::uint64_t size_bytes) {
  if (size_bytes > 0) return {};
  return error(Code::invalid_argument, "cannot allocate 0 bytes", "ask for at least 1 byte");
}

bool overlap(std::uint64_t a, std::uint64_t a_size, std::uint64_t b, std::uint64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

}  // namespace

Memory HostDevice::memory_at(std::uint64_t address, Origin origin, std::uint64_t size_bytes) {
  return {
      shared_from_this(),
      {.origin = origin, .address = address, .size_bytes = size_bytes, .device_address = address}};
}

Memory HostDevice::hold(std::uint64_t address, Held held) {
  Memory memory = memory_at(address, held.origin, held.size_bytes);
  const run::MutexLock lock(mutex_);
  held_.emplace(address, std::move(held));
  return memory;
}

Status HostDevice::reserve(std::uint64_t size_bytes) {
  const run::MutexLock lock(mutex_);
  const std::uint64_t free_bytes = info_.memory_bytes - used_bytes_;
  if (size_bytes > free_bytes)
    return error(Code::exhausted,
                 cat("cannot allocate ", size_bytes, " bytes on device ", info_.ordinal, ": ",
                     free_bytes, " of ", info_.memory_bytes, " are free"),
                 "free device memory, or ask for less");
  used_bytes_ += size_bytes;
  return {};
}

Result<MemoryFigures> HostDevice::figures() const {
  const run::MutexLock lock(mutex_);
  return MemoryFigures{.free_bytes = info_.memory_bytes - used_bytes_,
                       .total_bytes = info_.memory_bytes};
}

Result<std::unique_ptr<Current>> HostDevice::make_current() { return std::make_unique<Current>(); }

Result<Memory> HostDevice::allocate(std::uint64_t size_bytes) {
  TOWPATH_TRY(check_size(size_bytes));
  TOWPATH_TRY(reserve(size_bytes));
  auto fd = sys::create_sealed_memfd("towpath-host-device", size_bytes);
  auto mapping = fd.ok() ? sys::Mapping::of_file({.fd = fd->get(), .size_bytes = size_bytes})
                         : Result<sys::Mapping>(fd.status());
  if (!mapping.ok()) {
    const run::MutexLock lock(mutex_);
    used_bytes_ -= size_bytes;
    return mapping.status();
  }
  const std::uint64_t address = address_of(mapping->data());
  return hold(address, {.origin = Origin::device,
                        .size_bytes = size_bytes,
                        .fd = *std::move(fd),
                        .mapping = *std::move(mapping)});
}

Result<Memory> HostDevice::allocate_pinned(std::uint64_t size_bytes) {
  TOWPATH_TRY(check_size(size_bytes));
  TOWPATH_TRY(sys::Mapping mapping, sys::Mapping::anonymous(size_bytes));
  const std::uint64_t address = address_of(mapping.data());
  return hold(address, {.origin = Origin::pinned,
                        .size_bytes = size_bytes,
                        .fd = sys::Fd(),
                        .mapping = std::move(mapping)});
}

Status HostDevice::check_not_registered(ByteSpan bytes) const {
  for (const auto& [address, held] : held_) {
    if (!overlap(address, held.size_bytes, address_of(bytes.data()), bytes.size())) continue;
    return error(Code::already_exists,
                 cat(bytes.size(), " bytes at ", hex(address_of(bytes.data())),
                     " overlap what is pinned at ", hex(address)),
                 "register memory once");
  }
  return {};
}

Result<Memory> HostDevice::register_host(ByteSpan bytes) {
  if (bytes.empty() || bytes.data() == nullptr)
    return error(Code::invalid_argument, "cannot register no bytes", "pass mapped memory");
  const std::uint64_t address = address_of(bytes.data());
  {
    const run::MutexLock lock(mutex_);
    TOWPATH_TRY(check_not_registered(bytes));
    held_.emplace(address, Held{.origin = Origin::registered, .size_bytes = bytes.size()});
  }
  return memory_at(address, Origin::registered, bytes.size());
}

Status HostDevice::give_back(const MemoryFacts& facts) {
  const run::MutexLock lock(mutex_);
  const auto found = held_.find(facts.address);
  if (found == held_.end() || found->second.origin != facts.origin)
    return error(Code::not_found, cat("nothing is held at ", hex(facts.address)));
  if (facts.origin == Origin::device) used_bytes_ -= facts.size_bytes;
  held_.erase(found);
  return {};
}

Result<std::shared_ptr<Stream>> HostDevice::create_stream() {
  TOWPATH_TRY(auto stream, HostStream::create(shared_from_this(), clock_));
  return std::shared_ptr<Stream>(std::move(stream));
}

Result<std::shared_ptr<Event>> HostDevice::create_event(const EventOptions& options) {
  TOWPATH_TRY(auto event, HostEvent::create(options));
  return std::shared_ptr<Event>(std::move(event));
}

Result<std::shared_ptr<Pool>> HostDevice::create_pool(const PoolOptions&) {
  return std::make_shared<HostPool>(shared_from_this());
}

Status HostDevice::copy(const Copy& what) {
  TOWPATH_TRY(check(what));
  copy_bytes(what);
  return {};
}

Result<bool> HostDevice::can_reach(const Device& peer) const {
  return peer.driver().name == driver_.name;
}

Status HostDevice::enable_peer(const Device& peer) {
  if (peer.driver().name == driver_.name) return {};
  return error(Code::unsupported, cat("a host device cannot reach memory of ", peer.info().name));
}

Result<IpcHandle> HostDevice::export_memory(const Memory& memory) {
  const run::MutexLock lock(mutex_);
  const auto found = held_.find(memory.address());
  if (found == held_.end() || found->second.origin != Origin::device)
    return error(Code::invalid_argument,
                 cat(hex(memory.address()), " is no memory that this device allocated"),
                 "export what allocate() gave");
  return make_handle({.kind = HostHandleKind::memory,
                      .fd = found->second.fd.get(),
                      .size_bytes = found->second.size_bytes});
}

Result<ExportedMemory> HostDevice::export_at(std::uint64_t address) {
  const run::MutexLock lock(mutex_);
  const auto behind = held_.upper_bound(address);
  const auto found = behind == held_.begin() ? held_.end() : std::prev(behind);
  if (found == held_.end() || found->second.origin != Origin::device ||
      address - found->first >= found->second.size_bytes)
    return error(Code::invalid_argument, cat(hex(address), " lies in no memory of this device"),
                 "export an address of what allocate() gave");
  const Held& held = found->second;
  TOWPATH_TRY(const IpcHandle handle, make_handle({.kind = HostHandleKind::memory,
                                                   .fd = held.fd.get(),
                                                   .size_bytes = held.size_bytes}));
  return ExportedMemory{
      .handle = handle, .offset = address - found->first, .size_bytes = held.size_bytes};
}

Result<Memory> HostDevice::import_memory(const IpcHandle& handle, std::uint64_t size_bytes) {
  TOWPATH_TRY(sys::Fd fd, open_handle(handle, HostHandleKind::memory, size_bytes));
  TOWPATH_TRY(sys::Mapping mapping,
              sys::Mapping::of_file({.fd = fd.get(), .size_bytes = size_bytes}));
  const std::uint64_t address = address_of(mapping.data());
  return hold(address, {.origin = Origin::imported,
                        .size_bytes = size_bytes,
                        .fd = std::move(fd),
                        .mapping = std::move(mapping)});
}

Result<IpcHandle> HostDevice::export_event(const Event& event) {
  const auto* const ours = dynamic_cast<const HostEvent*>(&event);
  if (ours == nullptr) return error(Code::invalid_argument, "the event is of another driver");
  return ours->handle();
}

Result<std::shared_ptr<Event>> HostDevice::import_event(const IpcHandle& handle) {
  TOWPATH_TRY(auto event, HostEvent::import(handle));
  return std::shared_ptr<Event>(std::move(event));
}

std::optional<PointerFacts> HostDevice::facts_of(std::uint64_t address) const {
  const run::MutexLock lock(mutex_);
  auto after = held_.upper_bound(address);
  if (after == held_.begin()) return std::nullopt;
  const auto& [begin, held] = *--after;
  if (address - begin >= held.size_bytes) return std::nullopt;
  const bool on_device = held.origin == Origin::device || held.origin == Origin::imported;
  return PointerFacts{.kind = on_device ? MemoryKind::device : MemoryKind::pinned,
                      .device = info_.ordinal};
}

}  // namespace towpath::device
