#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <towpath/backends/posix/open_file.h>
#include <towpath/core/format.h>
#include <towpath/sys/direct_probe.h>
#include <towpath/sys/os_error.h>

namespace towpath::backends::posix {
namespace {

Status check_type(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return sys::os_error(errno, cat("cannot look at descriptor ", fd));
  if (S_ISREG(info.st_mode) || S_ISBLK(info.st_mode) || S_ISCHR(info.st_mode)) return {};
  return error(Code::invalid_argument, cat("descriptor ", fd, " is no file that has offsets"),
               "register a regular file or a device");
}

// What is opened again takes over: synchronous writes stay so on every path.
constexpr int kKeptFlags = O_ACCMODE | O_SYNC | O_DSYNC;

/// Opens the file of `main` again, with those of the user's flags that are in `kept`; or says why
/// not.
sys::Fd open_again(const OpenFile::Parts& parts, int kept, std::string& refusal) {
  const std::string link = cat("/proc/self/fd/", parts.main.get());
  sys::Fd fd(::open(link.c_str(), (parts.identity.flags & kept) | O_CLOEXEC));
  if (!fd) refusal = sys::os_error(errno, cat("cannot open ", link)).to_string();
  return fd;
}

/// With O_APPEND the kernel writes at the end of the file, whatever the offset (pwrite(2), BUGS).
/// A duplicate shares the flag with the user's descriptor, so it is opened again without.
void prepare_offsets(OpenFile::Parts& parts) {
  sys::Fd plain = open_again(parts, kKeptFlags | O_DIRECT, parts.append_refusal);
  if (plain)
    parts.main = std::move(plain);
  else
    parts.writable = false;
}

/// Opens the twin, and looks whether the direct descriptor really is one.
void prepare_direct(OpenFile::Parts& parts) {
  parts.twin = open_again(parts, kKeptFlags, parts.twin_refusal);
  const sys::DirectProbe probe = sys::probe_direct(parts.main.get(), parts.writable);
  parts.direct_refusal = probe.refusal;
  if (probe.direct) parts.alignment = probe.alignment;
}

}  // namespace

Result<std::shared_ptr<OpenFile>> OpenFile::open(const Source& source, sys::FileEngine& engine,
                                                 Counters& counters) {
  Parts parts;
  TOWPATH_TRY(parts.identity, backend::identify_descriptor(source.fd));
  TOWPATH_TRY(check_type(source.fd));
  parts.main.reset(::fcntl(source.fd, F_DUPFD_CLOEXEC, 0));
  if (!parts.main) return sys::os_error(errno, cat("cannot duplicate descriptor ", source.fd));
  parts.name =
      source.name.empty() ? cat("fd ", source.fd) : cat("'", printable(source.name, 256), "'");
  parts.direct_refusal = source.direct_refusal;
  const int access = parts.identity.flags & O_ACCMODE;
  parts.readable = access != O_WRONLY;
  parts.writable = access != O_RDONLY;
  parts.engine = &engine;
  if (parts.writable && (parts.identity.flags & O_APPEND) != 0) prepare_offsets(parts);
  if ((parts.identity.flags & O_DIRECT) != 0) prepare_direct(parts);
  parts.held = {counters.files(parts.alignment > 1), 1};
  return std::make_shared<OpenFile>(std::move(parts));
}

OpenFile::OpenFile(Parts parts) : parts_(std::move(parts)) {
  main_ = enlist(parts_.main.get());
  if (parts_.twin) twin_ = enlist(parts_.twin.get());
}

OpenFile::~OpenFile() {
  for (const sys::EngineFile& file : {main_, twin_}) {
    if (file.slot != sys::kNoSlot) parts_.engine->remove_file(file.slot);
  }
}

sys::EngineFile OpenFile::enlist(int fd) {
  sys::EngineFile file{fd, sys::kNoSlot};
  if (parts_.engine == nullptr) return file;
  if (auto slot = parts_.engine->add_file(fd); slot.ok())
    file.slot = *slot;
  else
    slot_refusal_ = slot.status().to_string();
  return file;
}

Result<std::uint64_t> OpenFile::size() const {
  struct stat info {};
  if (::fstat(parts_.main.get(), &info) != 0)
    return sys::os_error(errno, cat("cannot ask for the size of ", name()));
  if (!S_ISBLK(info.st_mode)) return static_cast<std::uint64_t>(info.st_size);
  std::uint64_t bytes = 0;
  if (::ioctl(parts_.main.get(), BLKGETSIZE64, &bytes) != 0)
    return sys::os_error(errno, cat("cannot ask for the size of the device ", name()));
  return bytes;
}

Status OpenFile::access_refusal(bool write) const {
  if (write && !parts_.append_refusal.empty())
    return error(Code::denied,
                 cat(name(), " is open with O_APPEND, which ignores the offset of a write, and ",
                     "cannot be opened without it: ", parts_.append_refusal),
                 "open it without O_APPEND before its region is registered");
  return error(Code::denied, cat(name(), " is open for ", write ? "reading" : "writing", " only"),
               "open it O_RDWR before its region is registered");
}

Status OpenFile::unaligned_refusal() const {
  return error(Code::invalid_argument,
               cat("an unaligned write to ", name(), ", which is O_DIRECT in units of ",
                   alignment(), " B and has no buffered descriptor: ", parts_.twin_refusal),
               "align address, offset and length, or open the file without O_DIRECT");
}

std::string OpenFile::describe() const {
  std::string out = main_.slot != sys::kNoSlot ? "registered file" : "file";
  if (!slot_refusal_.empty()) out += cat(" (not registered: ", slot_refusal_, ")");
  if (!parts_.append_refusal.empty())
    out += cat("; all writes refused (O_APPEND: ", parts_.append_refusal, ")");
  if (!direct()) {
    out += ", through the page cache";
    if (!parts_.direct_refusal.empty())
      out += cat(" (O_DIRECT is refused: ", parts_.direct_refusal, ")");
    return out;
  }
  out += cat(", O_DIRECT in units of ", alignment(), " B; unaligned reads through bounce buffers");
  if (!has_twin())
    out += cat("; unaligned writes refused (no buffered descriptor: ", parts_.twin_refusal, ")");
  else if (writes_buffered())
    out += "; all writes through the page cache since one was unaligned";
  else
    out += "; an unaligned write would turn all writes to the page cache";
  return out;
}

}  // namespace towpath::backends::posix
