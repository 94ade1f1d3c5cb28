#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/shared_region.h>
#include <towpath/sys/memfd.h>

namespace towpath::memory {
namespace {

Status check_size(std::uint64_t size_bytes) {
  if (size_bytes > 0) return {};
  return error(Code::invalid_argument, "shared memory of 0 bytes", "ask for at least 1 byte");
}

}  // namespace

Result<std::shared_ptr<SharedMemoryRegion>> SharedMemoryRegion::create(
    const SharedMemoryOptions& options) {
  TOWPATH_TRY(check_size(options.size_bytes));
  auto memfd = sys::create_sealed_memfd(options.name, options.size_bytes);
  if (!memfd.ok())
    return error(memfd.code(), cat("cannot create ", options.size_bytes, " bytes of shared memory"),
                 "ask for less, or free memory")
        .because(memfd.status());
  return map(*std::move(memfd), {.size_bytes = options.size_bytes});
}

Result<std::shared_ptr<SharedMemoryRegion>> SharedMemoryRegion::map(
    sys::Fd memfd, const MapSharedMemory& options) {
  TOWPATH_TRY(check_size(options.size_bytes));
  const auto end = checked_add(options.fd_offset, options.size_bytes);
  if (!end)
    return error(Code::out_of_range,
                 cat("shared memory of ", options.size_bytes, " bytes at offset ",
                     options.fd_offset, " goes past the end of 64-bit space"),
                 "use the offset and size that the owner reported");
  TOWPATH_TRY(sys::check_sealed(memfd.get(), *end));
  TOWPATH_TRY(sys::Mapping mapping, sys::Mapping::of_file({.fd = memfd.get(),
                                                           .offset = options.fd_offset,
                                                           .size_bytes = options.size_bytes,
                                                           .writable = true,
                                                           .at = options.at}));
  return std::make_shared<SharedMemoryRegion>(Private{}, std::move(memfd), std::move(mapping),
                                              options.fd_offset);
}

RegionDescriptor SharedMemoryRegion::descriptor() const {
  return {.kind = MemoryKind::system,
          .address = address_of(mapping_.data()),
          .length = mapping_.size(),
          .fd = memfd_.get(),
          .fd_offset = fd_offset_,
          .may_fault = false};
}

}  // namespace towpath::memory
