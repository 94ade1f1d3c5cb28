// How the host driver lets another process reach a memfd of this one. Private to this folder.
//
// The handle names a descriptor of the process and the file behind it; the importer opens it below
// /proc, which the kernel allows to processes of one user, and looks whether it is that file still.
// Thread: any.
#pragma once

#include <cstdint>

#include <towpath/core/result.h>
#include <towpath/device/values.h>
#include <towpath/sys/fd.h>

namespace towpath::device {

enum class HostHandleKind : std::uint32_t { memory = 1, event = 2 };

struct HostExport {
  HostHandleKind kind = HostHandleKind::memory;
  int fd = -1;
  std::uint64_t size_bytes = 0;
};

Result<IpcHandle> make_handle(const HostExport& what);
/// Errors: invalid_argument (no handle of the kind, of this process, another size), not_found (the
/// process, or what it exported, is gone), those of sys::check_sealed(): the other process decides
/// what the handle names.
Result<sys::Fd> open_handle(const IpcHandle& handle, HostHandleKind kind, std::uint64_t size_bytes);

}  // namespace towpath::device
