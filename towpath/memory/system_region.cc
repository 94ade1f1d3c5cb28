#include <towpath/core/format.h>
#include <towpath/memory/system_region.h>

namespace towpath::memory {

Result<std::shared_ptr<SystemRegion>> SystemRegion::allocate(std::uint64_t size_bytes) {
  return allocate(HostPagesOptions{.size_bytes = size_bytes});
}

Result<std::shared_ptr<SystemRegion>> SystemRegion::allocate(const HostPagesOptions& options) {
  if (options.size_bytes == 0)
    return error(Code::invalid_argument, "cannot allocate 0 bytes of system memory",
                 "ask for at least 1 byte");
  auto pages = HostPages::allocate(options);
  if (!pages.ok())
    return error(pages.code(),
                 cat("cannot allocate ", options.size_bytes, " bytes of system memory"),
                 pages.status().hint().empty() ? "ask for less, or free memory"
                                               : std::string(pages.status().hint()))
        .because(pages.status());
  return std::make_shared<SystemRegion>(Private{}, *std::move(pages), options.size_bytes);
}

RegionDescriptor SystemRegion::descriptor() const {
  return {.kind = MemoryKind::system,
          .address = address_of(pages_.mapping.data()),
          .length = size_bytes_,
          .may_fault = false};
}

}  // namespace towpath::memory
