#include <towpath/core/format.h>
#include <towpath/memory/allocate.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/memory/system_region.h>

namespace towpath::memory {
namespace {

using Allocated = Result<std::shared_ptr<Region>>;

struct Missing {
  std::string_view what;
  std::string_view hint;
};

Status missing(const Allocation& asked, const Missing& lack) {
  return error(Code::unsupported,
               cat("cannot allocate ", asked.size_bytes, " bytes of ", name_of(asked.kind),
                   " memory: ", lack.what),
               std::string(lack.hint));
}

template <class R>
Allocated as_region(Result<std::shared_ptr<R>> region) {
  if (!region.ok()) return region.status();
  return std::shared_ptr<Region>(*std::move(region));
}

Allocated allocate_system(const Allocation& what) {
  HostPagesOptions pages = what.pages;
  pages.size_bytes = what.size_bytes;
  return as_region(SystemRegion::allocate(pages));
}

Allocated allocate_pinned(const Allocation& what) {
  if (what.pinned == nullptr)
    return missing(what, {"no GPU was given that could pin it",
                          "set Allocation::pinned to a PinnedAllocator, or use system memory"});
  return as_region(what.pinned->allocate(what.size_bytes));
}

Allocated allocate_device(const Allocation& what) {
  if (what.device == nullptr)
    return missing(what, {"no device was given",
                          "set Allocation::device to one that a driver opened (CudaDriver), or "
                          "lend memory that you have as a BorrowedRegion"});
  return as_region(DeviceRegion::allocate(what.device, what.size_bytes));
}

Allocated allocate_disk(const Allocation& what) {
  if (what.files == nullptr)
    return error(Code::invalid_argument, "cannot allocate disk memory without a file system",
                 "set Allocation::files, for example to a sys::SystemFileSystem");
  DiskOptions options = what.disk;
  options.size_bytes = what.size_bytes;
  return as_region(DiskRegion::open(options, *what.files));
}

Allocated allocate_object(const Allocation& what) {
  ObjectPlace place = what.object;
  place.size_bytes = what.size_bytes;
  return as_region(ObjectRegion::create(std::move(place)));
}

}  // namespace

Result<std::shared_ptr<Region>> allocate(const Allocation& what) {
  if (what.size_bytes == 0)
    return error(Code::invalid_argument, cat("cannot allocate 0 bytes of ", name_of(what.kind)),
                 "ask for at least 1 byte");
  switch (what.kind) {
    case MemoryKind::system: return allocate_system(what);
    case MemoryKind::pinned: return allocate_pinned(what);
    case MemoryKind::device: return allocate_device(what);
    case MemoryKind::disk: return allocate_disk(what);
    case MemoryKind::object: return allocate_object(what);
    case MemoryKind::block:
      return missing(
          what, {"raw devices are opened, not allocated", "use disk with a file on that device"});
  }
  return missing(what, {"the kind is none that this build knows", "use system or disk"});
}

}  // namespace towpath::memory
