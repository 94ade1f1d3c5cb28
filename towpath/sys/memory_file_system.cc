#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include <towpath/sys/memory_disk.h>
#include <towpath/sys/open_rules.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys {

using internal::check_open;
using internal::parent_of;
using internal::quoted_path;
using internal::temporary_base;

MemoryFileSystem::MemoryFileSystem() : disk_(std::make_shared<internal::MemoryDisk>()) {}
MemoryFileSystem::~MemoryFileSystem() = default;

void MemoryFileSystem::inject(FileFault fault) {
  const std::lock_guard lock(disk_->mutex);
  disk_->faults.push_back({std::move(fault)});
}

void MemoryFileSystem::heal() {
  const std::lock_guard lock(disk_->mutex);
  disk_->faults.clear();
}

void MemoryFileSystem::set_capacity(std::uint64_t bytes) {
  const std::lock_guard lock(disk_->mutex);
  disk_->capacity = bytes;
}

namespace {

/// Pages in which the two differ are written, or not.
void write_some(internal::Content& content, const std::function<bool()>& survives) {
  constexpr std::size_t kPage = internal::Content::kPage;
  const Bytes& live = content.live;
  Bytes& saved = content.saved;
  for (const std::size_t page : content.changed) {
    const std::size_t at = page * kPage;
    if (at >= live.size()) break;
    const std::size_t end = std::min(at + kPage, live.size());
    if (content.is_saved(page) || content.lost.contains(page) || !survives()) continue;
    saved.resize(std::max(saved.size(), end));
    std::memcpy(saved.data() + at, live.data() + at, end - at);
  }
}

}  // namespace

void MemoryFileSystem::crash(const std::function<bool()>& survives) {
  const std::lock_guard lock(disk_->mutex);
  ++disk_->crashes;
  // A journal keeps what was done to names in its order: here all of it is there, or none; what is
  // there now is on the disk.
  if (disk_->names != disk_->saved_names && !(survives && survives()))
    disk_->names = disk_->saved_names;
  disk_->saved_names = disk_->names;
  disk_->directory_locks.clear();
  for (auto& [name, content] : disk_->names) {
    if (survives) write_some(*content, survives);
    content->go_back();
    content->lock.reset();
  }
}

void MemoryFileSystem::fail_write_back(const std::string& path) {
  const std::lock_guard lock(disk_->mutex);
  const auto found = disk_->names.find(path);
  if (found == disk_->names.end()) return;
  internal::Content& content = *found->second;
  content.go_back();
  ++content.failed_write_backs;
}

std::uint64_t MemoryFileSystem::calls(FileOp op) const {
  const std::lock_guard lock(disk_->mutex);
  const auto found = disk_->calls.find(op);
  return found == disk_->calls.end() ? 0 : found->second;
}

Result<std::unique_ptr<File>> MemoryFileSystem::open(const std::string& path,
                                                     const OpenFile& options) {
  TOWPATH_TRY(check_open(path, options));
  const std::lock_guard lock(disk_->mutex);
  if (options.directory && disk_->directories.contains(path)) {
    auto& content = disk_->directory_locks[path];
    if (!content) content = std::make_shared<internal::Content>();
    return internal::make_memory_file({.disk = disk_, .content = content, .path = path});
  }
  TOWPATH_TRY(disk_->failure(FileOp::open, path, "open"));
  auto failed = [&](int errno_value) {
    return os_error(errno_value, cat("cannot open ", quoted_path(path)));
  };
  if (disk_->directories.contains(path)) return failed(EISDIR);
  if (!disk_->directories.contains(parent_of(path))) return failed(ENOENT);
  auto found = disk_->names.find(path);
  if (found != disk_->names.end() && options.exclusive) return failed(EEXIST);
  if (found == disk_->names.end()) {
    if (!options.create) return failed(options.directory ? ENOTDIR : ENOENT);
    found = disk_->names.emplace(path, std::make_shared<internal::Content>()).first;
  }
  if (options.truncate) found->second->resize(0);
  return internal::make_memory_file(
      {.disk = disk_,
       .content = found->second,
       .path = path,
       .writable = options.writable,
       .direct_refusal = options.direct ? "files in memory have no page cache to bypass" : ""});
}

Result<std::unique_ptr<File>> MemoryFileSystem::open_temporary(const OpenTemporary& options) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(disk_->mutex);
    number = ++disk_->temporaries;
  }
  std::string letters = std::to_string(number);
  letters.insert(0, letters.size() < 6 ? 6 - letters.size() : 0, '0');
  const std::string path = cat(temporary_base(options.where), letters);
  auto file =
      open(path, {.writable = true, .create = true, .exclusive = true, .direct = options.direct});
  if (file.ok() && !options.named) TOWPATH_TRY(remove(path));
  return file;
}

Status MemoryFileSystem::remove(const std::string& path) {
  const std::lock_guard lock(disk_->mutex);
  TOWPATH_TRY(disk_->failure(FileOp::remove, path, "remove"));
  if (disk_->names.erase(path) == 0)
    return os_error(ENOENT, cat("cannot remove ", quoted_path(path)));
  return {};
}

Status MemoryFileSystem::rename(const Rename& names) {
  const std::lock_guard lock(disk_->mutex);
  TOWPATH_TRY(disk_->failure(FileOp::rename, names.source, "rename"));
  const auto found = disk_->names.find(names.source);
  if (found == disk_->names.end() || !disk_->directories.contains(parent_of(names.target)))
    return os_error(ENOENT, cat("cannot rename ", quoted_path(names.source), " to ",
                                quoted_path(names.target)));
  if (names.source == names.target) return {};
  disk_->names[names.target] = found->second;
  disk_->names.erase(found);
  return {};
}

Status MemoryFileSystem::make_directories(const std::string& path) {
  if (path.empty()) return error(Code::invalid_argument, "'' is not a path");
  const std::lock_guard lock(disk_->mutex);
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (disk_->names.contains(part))
      return error(Code::already_exists, cat(quoted_path(part), " is there, and no directory"));
    disk_->directories.insert(part);
    if (end == std::string::npos) return {};
  }
}

Result<std::vector<std::string>> MemoryFileSystem::list(const std::string& directory) {
  const std::lock_guard lock(disk_->mutex);
  if (!disk_->directories.contains(directory))
    return os_error(ENOENT, cat("cannot list ", quoted_path(directory)));
  std::set<std::string> names;
  auto add = [&](const std::string& path) {
    if (path != directory && parent_of(path) == directory)
      names.insert(path.substr(path.rfind('/') + 1));
  };
  for (const auto& [path, content] : disk_->names) add(path);
  for (const std::string& path : disk_->directories) add(path);
  return std::vector<std::string>(names.begin(), names.end());
}

Status MemoryFileSystem::sync_directory(const std::string& directory) {
  const std::lock_guard lock(disk_->mutex);
  const auto fault = disk_->strike(FileOp::sync_directory, directory);
  if (fault && fault->effect == FileEffect::fail)
    return os_error(fault->errno_value, cat("cannot sync ", quoted_path(directory)));
  if (!disk_->directories.contains(directory))
    return os_error(ENOENT, cat("cannot sync ", quoted_path(directory)));
  if (fault && fault->effect == FileEffect::forget) return {};
  std::erase_if(disk_->saved_names,
                [&](const auto& entry) { return parent_of(entry.first) == directory; });
  for (const auto& [path, content] : disk_->names)
    if (parent_of(path) == directory) disk_->saved_names[path] = content;
  return {};
}

Result<std::uint64_t> MemoryFileSystem::available_bytes(const std::string& path) {
  const std::lock_guard lock(disk_->mutex);
  if (!disk_->directories.contains(path) && !disk_->names.contains(path))
    return os_error(ENOENT, cat("cannot ask for the space under ", quoted_path(path)));
  const std::uint64_t taken = disk_->used();
  return disk_->capacity > taken ? disk_->capacity - taken : 0;
}

PathKind MemoryFileSystem::kind_of(const std::string& path) {
  const std::lock_guard lock(disk_->mutex);
  if (disk_->directories.contains(path)) return PathKind::directory;
  return disk_->names.contains(path) ? PathKind::file : PathKind::none;
}

}  // namespace towpath::sys
