// GdsFile: a file that libcufile moves bytes to and from, shared by all regions of it.
//
// It owns a descriptor of its own, opened anew with O_DIRECT, so that the user's may be closed and
// need not be direct, and libcufile's handle to it.
// Invariants: the handle goes before the descriptor. Thread: immutable; moving bytes: any.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include <towpath/backend/open_descriptor.h>
#include <towpath/backends/gds/cufile.h>
#include <towpath/core/descriptor.h>
#include <towpath/sys/fd.h>

namespace towpath::backends::gds {

class GdsFile {
 public:
  /// Of the region's descriptor, or of the path in its key where it has none.
  /// Errors: invalid_argument (names no file), denied, unsupported (it takes no O_DIRECT, or the
  /// bytes would be staged while that is refused); the library's.
  static Result<std::shared_ptr<GdsFile>> open(std::shared_ptr<const CuFile> cufile,
                                               const RegionDescriptor& region);
  /// Where bytes lie: in a file system, or on a drive without one.
  struct Place {
    std::uint64_t device = 0;  ///< its number: a file system often has that of its drive
    bool is_drive = false;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  /// Of a region's file, before it is opened. Errors: invalid_argument (names no file), not_found,
  /// denied.
  static Result<Place> place_of(const RegionDescriptor& region);

  struct Parts {
    std::shared_ptr<const CuFile> cufile;
    sys::Fd fd;
    std::string name;
    backend::OpenDescriptor identity;  ///< the flags without O_DIRECT
    std::string direct_refusal;        ///< why it is open without O_DIRECT; empty: it is with
    bool readable = true;
    bool writable = true;
  };
  GdsFile(Parts parts, cufile::FileHandle handle) : parts_(std::move(parts)), handle_(handle) {}
  GdsFile(const GdsFile&) = delete;
  GdsFile& operator=(const GdsFile&) = delete;
  ~GdsFile() { parts_.cufile->call().deregister_file(handle_); }

  const std::string& name() const noexcept { return parts_.name; }
  const backend::OpenDescriptor& identity() const noexcept { return parts_.identity; }
  cufile::FileHandle handle() const noexcept { return handle_; }
  bool allows(bool write) const noexcept { return write ? parts_.writable : parts_.readable; }
  /// Whether the descriptor of a region that was opened as this file still is one of it. Errors:
  /// already_exists (its number went to another).
  Status confirm(const RegionDescriptor& region) const;
  std::string describe() const;

 private:
  const Parts parts_;
  cufile::FileHandle handle_;  // does not change
};

}  // namespace towpath::backends::gds
