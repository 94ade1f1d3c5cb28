#include <towpath/core/text.h>
#include <towpath/memory/system_region.h>

namespace towpath::memory {

Result<std::shared_ptr<SystemRegion>> SystemRegion::allocate(std::uint64_t size_bytes) {
  if (size_bytes == 0)
    return error(Code::invalid_argument, "cannot allocate 0 bytes of system memory",
                 "ask for at least 1 byte");
  auto mapping = sys::Mapping::anonymous(size_bytes);
  if (!mapping.ok())
    return error(mapping.code(), cat("cannot allocate ", size_bytes, " bytes of system memory"),
                 "ask for less, or free memory")
        .because(mapping.status());
  return std::make_shared<SystemRegion>(Private{}, *std::move(mapping));
}

RegionDescriptor SystemRegion::descriptor() const {
  return {.kind = MemoryKind::system,
          .address = address_of(mapping_.data()),
          .length = mapping_.size()};
}

}  // namespace towpath::memory
