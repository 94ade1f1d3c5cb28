#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/device/host/host_ipc.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/os_error.h>

namespace towpath::device {
namespace {

constexpr std::uint64_t kMagic = 0x7470'686f'7374'6970;

struct Record {
  std::uint64_t magic = kMagic;
  HostHandleKind kind = HostHandleKind::memory;
  std::int32_t fd = -1;
  std::int64_t process = 0;
  std::uint64_t inode = 0;
  std::uint64_t size_bytes = 0;
};
static_assert(sizeof(Record) <= sizeof(IpcHandle::bytes));

}  // namespace

Result<IpcHandle> make_handle(const HostExport& what) {
  struct stat info {};
  if (::fstat(what.fd, &info) != 0) return sys::os_error(errno, "cannot export host memory");
  const Record record{.kind = what.kind,
                      .fd = what.fd,
                      .process = ::getpid(),
                      .inode = info.st_ino,
                      .size_bytes = what.size_bytes};
  IpcHandle handle;
  std::memcpy(handle.bytes.data(), &record, sizeof record);
  return handle;
}

Result<sys::Fd> open_handle(const IpcHandle& handle, HostHandleKind kind,
                            std::uint64_t size_bytes) {
  Record record;
  std::memcpy(&record, handle.bytes.data(), sizeof record);
  if (record.magic != kMagic || record.kind != kind || record.size_bytes != size_bytes)
    return error(Code::invalid_argument, "the handle is none that a host device exported so",
                 "pass the bytes and the size that the other process reported");
  if (record.process == ::getpid())
    return error(Code::invalid_argument, "the handle is of this process itself",
                 "use the memory or the event that it was made from");
  const std::string path = cat("/proc/", record.process, "/fd/", record.fd);
  sys::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd)
    return sys::os_error(errno, cat("cannot reach what process ", record.process, " exported"));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_ino != record.inode)
    return error(Code::not_found,
                 cat("process ", record.process, " no longer has what it exported"),
                 "ask it for a new handle");
  TOWPATH_TRY(sys::check_sealed(fd.get(), size_bytes));
  return fd;
}

}  // namespace towpath::device
