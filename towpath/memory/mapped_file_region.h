// MappedFileRegion: host memory in a file with a name, which other processes map too.
//
// For processes that know each other's paths only; where a descriptor can be handed over, a sealed
// memfd (shared_region.h) is safer: it cannot be cut short. Pinned for a GPU with
// PinnedRegion::pin.
// Invariants: the file is never shortened by us, so nobody who maps it dies of us. Its name goes
// when the region that made it does, but for a copy in a forked child; the bytes live on for those
// who map them. Thread: immutable; the bytes are as safe as all processes make them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <towpath/core/result.h>
#include <towpath/memory/region.h>
#include <towpath/sys/file.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/own_process.h>

namespace towpath::sys {
struct SharedFile;
}

namespace towpath::memory {

struct CreateMappedFile {
  std::string path;  ///< in /dev/shm, or on hugetlbfs, say; must not be there yet
  std::uint64_t size_bytes = 0;
};

struct OpenMappedFile {
  std::string path;
  /// What the file must be, as its maker reported; nothing: whatever has the name now.
  std::optional<sys::FileIdentity> identity;
  std::uint64_t offset = 0;      ///< of the first byte; a multiple of the page size
  std::uint64_t size_bytes = 0;  ///< 0: to the end of the file
  /// What the maker says its bytes are aligned to: a power of two, at most the page size.
  std::uint64_t alignment = 1;
};

class MappedFileRegion final : public Region {
  struct Private {};

 public:
  /// Errors: those of sys::create_shared_file, and of sys::Mapping::of_file.
  static Result<std::shared_ptr<MappedFileRegion>> create(const CreateMappedFile& options);
  /// Errors: denied (it is another file than was reported), out_of_range (it ends before the extent
  /// does), invalid_argument (unaligned; an alignment that cannot be kept), or those of
  /// sys::open_shared_file.
  static Result<std::shared_ptr<MappedFileRegion>> open(const OpenMappedFile& options);

  MappedFileRegion(Private, std::string path, const sys::SharedFile& file, sys::Mapping mapping,
                   bool created);
  ~MappedFileRegion() override;

  RegionDescriptor descriptor() const override;
  const std::string& path() const noexcept { return path_; }
  /// For those who shall open it.
  const sys::FileIdentity& identity() const noexcept { return identity_; }

 private:
  const std::string path_;
  const sys::FileIdentity identity_;
  sys::Mapping mapping_;
  const bool created_;
  const sys::OwnProcess process_;  // that made it
};

}  // namespace towpath::memory
