#include <towpath/core/text.h>
#include <towpath/memory/allocate.h>
#include <towpath/memory/system_region.h>

namespace towpath::memory {
namespace {

struct Missing {
  std::string_view what;
  std::string_view remedy;
};

Missing missing_for(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::pinned:
      return {"no GPU driver is loaded that could pin it",
              "use system memory; a build with the device module gives pinned memory"};
    case MemoryKind::device:
      return {"no GPU driver is loaded",
              "use system memory, or lend device memory that you have as a BorrowedRegion; a build "
              "with the device module allocates it"};
    case MemoryKind::object:
      return {"objects belong to a store, and no object backend is in this build",
              "use disk; an object backend creates objects when they are written"};
    case MemoryKind::block:
      return {"raw devices are there, and not allocated",
              "name a stretch of one as a BlockRegion, or use disk with a file on that device"};
    default: return {"the kind is none that this build knows", "use system or disk"};
  }
}

Result<std::shared_ptr<Region>> allocate_disk(const Allocation& what) {
  if (what.files == nullptr)
    return error(Code::invalid_argument, "cannot allocate disk memory without a file system",
                 "set Allocation::files, for example to a sys::SystemFileSystem");
  DiskOptions options = what.disk;
  options.size_bytes = what.size_bytes;
  TOWPATH_TRY(auto region, DiskRegion::open(options, *what.files));
  return std::shared_ptr<Region>(std::move(region));
}

}  // namespace

Result<std::shared_ptr<Region>> allocate(const Allocation& what) {
  if (what.size_bytes == 0)
    return error(Code::invalid_argument, cat("cannot allocate 0 bytes of ", name_of(what.kind)),
                 "ask for at least 1 byte");
  if (what.kind == MemoryKind::disk) return allocate_disk(what);
  if (what.kind == MemoryKind::system) {
    TOWPATH_TRY(auto region, SystemRegion::allocate(what.size_bytes));
    return std::shared_ptr<Region>(std::move(region));
  }
  const Missing missing = missing_for(what.kind);
  return error(Code::unsupported,
               cat("cannot allocate ", what.size_bytes, " bytes of ", name_of(what.kind),
                   " memory: ", missing.what),
               std::string(missing.remedy));
}

}  // namespace towpath::memory
