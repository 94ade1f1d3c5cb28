#include <cstdint>
#include <limits>
#include <string_view>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/disk_region.h>

namespace towpath::memory {
namespace {

constexpr std::string_view kTemplateEnd = "XXXXXX";

struct Opened {
  std::unique_ptr<sys::File> file;
  bool created = false;
};

std::string quoted_path(const std::string& path) { return cat("'", printable(path, 256), "'"); }

bool is_directory(const std::string& path) { return path.ends_with('/'); }
bool is_template(const std::string& path) { return path.ends_with(kTemplateEnd); }

Status check(const DiskOptions& options) {
  if (options.size_bytes == 0)
    return error(Code::invalid_argument,
                 cat("a disk region of 0 bytes in ", quoted_path(options.path)),
                 "ask for at least 1 byte");
  if (options.path.empty())
    return error(Code::invalid_argument, "a disk region without a path",
                 "name a file, a template that ends in XXXXXX, or a directory that ends in /");
  if (options.path == kTemplateEnd || options.path.ends_with(cat('/', kTemplateEnd)))
    return error(Code::invalid_argument,
                 cat("the template ", quoted_path(options.path), " has no name"),
                 "put some letters before XXXXXX");
  return {};
}

/// The directory that the file will be in; empty: the current one.
std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return {};
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string hint_for(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "check the path; for a new file in a directory, end it with '/'";
    case Code::exhausted: return "free space, or choose another directory";
    case Code::denied: return "choose a path that this user may write";
    default: return {};
  }
}

Status cannot_open(const std::string& path, const Status& cause) {
  return error(cause.code(), cat("cannot open the disk region ", quoted_path(path)),
               hint_for(cause.code()))
      .because(cause);
}

Result<Opened> open_new(const DiskOptions& options, sys::FileSystem& files) {
  const std::string where = is_directory(options.path) ? parent_of(options.path) : options.path;
  TOWPATH_TRY(auto file,
              files.open_temporary({.where = where, .direct = options.direct != DirectIo::off}));
  return Opened{.file = std::move(file), .created = true};
}

/// Whether the file is ours to remove is decided by the file system in one step: it was made by
/// this very call, or it was there.
Result<Opened> open_named(const DiskOptions& options, sys::FileSystem& files) {
  const bool direct = options.direct != DirectIo::off;
  auto made = files.open(options.path,
                         {.writable = true, .create = true, .exclusive = true, .direct = direct});
  if (made.ok()) return Opened{.file = *std::move(made), .created = true};
  if (made.code() != Code::already_exists || options.life == FileLife::nameless)
    return made.status();
  TOWPATH_TRY(auto found, files.open(options.path, {.writable = true, .direct = direct}));
  return Opened{.file = std::move(found), .created = false};
}

Result<Opened> open_file(const DiskOptions& options, sys::FileSystem& files) {
  if (const std::string parent = parent_of(options.path); !parent.empty())
    TOWPATH_TRY(files.make_directories(parent));
  const bool is_new = is_directory(options.path) || is_template(options.path);
  return is_new ? open_new(options, files) : open_named(options, files);
}

}  // namespace

Result<std::shared_ptr<DiskRegion>> DiskRegion::open(const DiskOptions& options,
                                                     sys::FileSystem& files) {
  TOWPATH_TRY(check(options));
  auto opened = open_file(options, files);
  if (!opened.ok()) return cannot_open(options.path, opened.status());
  auto region =
      std::make_shared<DiskRegion>(Private{}, files, std::move(opened->file), opened->created);
  if (Status status = region->prepare(options); !status.ok())
    return cannot_open(options.path, status);
  return region;
}

DiskRegion::DiskRegion(Private, sys::FileSystem& files, std::unique_ptr<sys::File> file,
                       bool created)
    : files_(files), file_(std::move(file)), created_(created), removed_at_end_(created) {}

Status DiskRegion::prepare(const DiskOptions& options) {
  if (options.life == FileLife::nameless) TOWPATH_TRY(unlink());
  if (options.direct == DirectIo::required) TOWPATH_TRY(require_direct());
  // Direct reads and writes of the last bytes are as long as the alignment, so the file is too.
  const auto length = align_up(options.size_bytes, file_->alignment());
  if (!length || *length > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    return error(Code::out_of_range,
                 cat(options.size_bytes, " bytes are more than any file holds"));
  TOWPATH_TRY(require_space(*length));
  TOWPATH_TRY(file_->preallocate(*length));
  size_bytes_ = options.size_bytes;
  removed_at_end_ = created_ && options.life != FileLife::kept;
  return {};
}

Status DiskRegion::require_direct() const {
  if (direct()) return {};
  return error(Code::unsupported, cat("direct I/O is required, but refused: ", direct_refusal()),
               "choose a directory on a disk file system, or DirectIo::wanted");
}

/// Refuses what cannot fit before trying: a kernel that is asked fills the disk first, for
/// everybody.
Status DiskRegion::require_space(std::uint64_t length) const {
  TOWPATH_TRY(const std::uint64_t present, file_->size());
  const std::string parent = parent_of(path());
  const auto available = files_.available_bytes(parent.empty() ? "." : parent);
  // 0 is also what file systems say that do not know.
  if (!available.ok() || *available == 0) return {};
  if (length <= present || length - present <= *available) return {};
  return error(Code::exhausted,
               cat(length - present, " more bytes are needed, ", *available, " are available"),
               hint_for(Code::exhausted));
}

DiskRegion::~DiskRegion() {
  if (removed_at_end_ && process_.is_this()) (void)unlink();
}

RegionDescriptor DiskRegion::descriptor() const {
  const int fd = file_->fd();
  return {.kind = MemoryKind::disk,
          .address = 0,
          .length = size_bytes_,
          .device_id = fd < 0 ? 0 : static_cast<std::uint64_t>(fd),
          .fd = fd,
          .key = path()};
}

Status DiskRegion::unlink() {
  if (!created_)
    return error(Code::denied,
                 cat(quoted_path(path()), " was there before, so it is not ours to remove"),
                 "remove it yourself");
  const run::MutexLock lock(mutex_);
  if (unlinked_) return {};
  const Status status = files_.remove(path());
  unlinked_ = status.ok() || status.code() == Code::not_found;
  return unlinked_ ? Status() : status;
}

}  // namespace towpath::memory
