#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <towpath/core/checked.h>
#include <towpath/sys/memory_disk.h>
#include <towpath/sys/open_rules.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys::internal {
namespace {

constexpr std::uint64_t kLargestFile = 1ull << 40;  // a slip in a test, not a file

/// Bits are numbered from the lowest of the first byte on, and wrap around.
void flip_bit(ByteSpan bytes, std::uint64_t bit) {
  if (bytes.empty()) return;
  bytes[bit / 8 % bytes.size()] ^= static_cast<std::byte>(1u << bit % 8);
}

/// `into` stays as long as it is; what `from` lacks is zeros.
void copy_page(const Bytes& from, Bytes& into, std::size_t page) {
  const std::size_t begin = page * Content::kPage;
  const std::size_t end = std::min(begin + Content::kPage, into.size());
  if (begin >= end) return;
  const std::size_t known = std::clamp(from.size(), begin, end) - begin;
  const ByteSpan target = ByteSpan(into).subspan(begin, end - begin);
  if (known > 0) std::memcpy(target.data(), from.data() + begin, known);
  std::ranges::fill(target.subspan(known), std::byte{});
}

class MemoryFile final : public File {
 public:
  explicit MemoryFile(MemoryFileParts parts)
      : parts_(std::move(parts)),
        crashes_(parts_.disk->crashes),
        reported_(parts_.content->failed_write_backs) {}

  Result<std::size_t> read_at(ByteSpan into, std::uint64_t offset) override {
    const std::lock_guard lock(parts_.disk->mutex);
    TOWPATH_TRY(check_alive());
    const auto fault = parts_.disk->strike(FileOp::read, path());
    if (fault && fault->effect == FileEffect::fail) return failed("read", fault->errno_value);
    const Bytes& live = parts_.content->live;
    if (offset >= live.size()) return std::size_t{0};
    std::uint64_t length = std::min<std::uint64_t>(into.size(), live.size() - offset);
    if (fault && fault->effect == FileEffect::stop) length = std::min(length, fault->bytes);
    if (length > 0) std::memcpy(into.data(), live.data() + offset, length);
    if (fault && fault->effect == FileEffect::flip_bit) flip_bit(into.first(length), fault->bit);
    return static_cast<std::size_t>(length);
  }

  Result<std::size_t> write_at(ConstByteSpan from, std::uint64_t offset) override {
    const std::lock_guard lock(parts_.disk->mutex);
    TOWPATH_TRY(check_writable());
    const auto fault = parts_.disk->strike(FileOp::write, path());
    if (fault && fault->effect == FileEffect::fail)
      return write_error(fault->errno_value, cat("cannot write ", quoted_path(path())));
    if (!range_fits(offset, from.size(), kLargestFile)) return failed("write", EFBIG);
    if (from.empty()) return std::size_t{0};
    const std::uint64_t room = parts_.disk->room_for(*parts_.content);
    if (offset >= room) return failed("write", ENOSPC);
    std::uint64_t length = std::min<std::uint64_t>(from.size(), room - offset);
    if (fault && fault->effect == FileEffect::stop) length = std::min(length, fault->bytes);
    const bool torn = fault && fault->effect == FileEffect::torn;
    const ByteSpan landed =
        land(from.first(torn ? std::min(length, fault->bytes) : length), offset);
    if (fault && fault->effect == FileEffect::flip_bit) flip_bit(landed, fault->bit);
    return static_cast<std::size_t>(length);
  }

  Status sync() override {
    const std::lock_guard lock(parts_.disk->mutex);
    TOWPATH_TRY(check_alive());
    const auto fault = parts_.disk->strike(FileOp::sync, path());
    if (fault && fault->effect == FileEffect::fail) return failed("sync", fault->errno_value);
    Content& content = *parts_.content;
    if (fault && fault->effect == FileEffect::lose) {
      content.lose(fault->bytes == 0 ? UINT64_MAX : fault->bytes);
      ++content.failed_write_backs;
    }
    const std::uint64_t failures = content.failed_write_backs;
    if (std::exchange(reported_, failures) != failures) return failed("sync", EIO);
    if (!fault || fault->effect != FileEffect::forget) content.save();
    return {};
  }

  void drop_cache(const FdRange& range) override {
    const std::lock_guard lock(parts_.disk->mutex);
    if (check_alive().ok()) parts_.content->drop_lost(range);
  }

  void start_sync() override {
    const std::lock_guard lock(parts_.disk->mutex);
    (void)parts_.disk->strike(FileOp::start_sync, path());
  }

  Status lock() override {
    const std::lock_guard lock(parts_.disk->mutex);
    TOWPATH_TRY(check_alive());
    const std::shared_ptr<void> holder = parts_.content->lock.lock();
    if (holder && holder != lock_) return failed("lock", EWOULDBLOCK);
    if (!lock_) lock_ = std::make_shared<char>();
    parts_.content->lock = lock_;
    return {};
  }

  Result<std::uint64_t> size() override {
    const std::lock_guard lock(parts_.disk->mutex);
    TOWPATH_TRY(check_alive());
    return parts_.content->live.size();
  }

  Status resize(std::uint64_t size_bytes) override {
    return change_size(FileOp::resize, "resize", size_bytes);
  }

  Status preallocate(std::uint64_t size_bytes) override {
    return change_size(FileOp::preallocate, "reserve space for", size_bytes);
  }

  int fd() const noexcept override { return -1; }
  const std::string& path() const noexcept override { return parts_.path; }
  bool direct() const noexcept override { return false; }
  const std::string& direct_refusal() const noexcept override { return parts_.direct_refusal; }
  std::uint64_t alignment() const noexcept override { return 1; }

 private:
  Status failed(const char* verb, int errno_value) const {
    return os_error(errno_value, cat("cannot ", verb, " ", quoted_path(path())));
  }

  Status check_alive() const {
    if (crashes_ == parts_.disk->crashes) return {};
    return error(Code::not_ready, cat(quoted_path(path()), " was open when the machine crashed"),
                 "open it again");
  }

  Status check_writable() const {
    TOWPATH_TRY(check_alive());
    return parts_.writable ? Status() : failed("write", EBADF);
  }

  ByteSpan land(ConstByteSpan from, std::uint64_t offset) {
    Bytes& live = parts_.content->live;
    if (from.empty()) return {};
    if (offset + from.size() > live.size()) parts_.content->resize(offset + from.size());
    std::memcpy(live.data() + offset, from.data(), from.size());
    parts_.content->note_change(offset, offset + from.size());
    std::set<std::size_t>& lost = parts_.content->lost;
    lost.erase(lost.lower_bound(offset / Content::kPage),
               lost.upper_bound((offset + from.size() - 1) / Content::kPage));
    return ByteSpan(live).subspan(offset, from.size());
  }

  Status change_size(FileOp op, const char* verb, std::uint64_t size_bytes) {
    const std::lock_guard lock(parts_.disk->mutex);
    TOWPATH_TRY(check_writable());
    TOWPATH_TRY(parts_.disk->failure(op, path(), verb));
    Bytes& live = parts_.content->live;
    if (op == FileOp::preallocate && size_bytes <= live.size()) return {};
    if (size_bytes > kLargestFile) return failed(verb, EFBIG);
    if (size_bytes > parts_.disk->room_for(*parts_.content)) return failed(verb, ENOSPC);
    parts_.content->resize(size_bytes);
    return {};
  }

  MemoryFileParts parts_;
  std::uint64_t crashes_;   // of the disk when this was opened
  std::uint64_t reported_;  // failed write-backs, to this opening
  std::shared_ptr<void> lock_;
};

}  // namespace

bool Content::is_saved(std::size_t page) const {
  const std::size_t begin = page * kPage;
  const std::size_t end = std::min(begin + kPage, live.size());
  return end <= saved.size() &&
         std::memcmp(live.data() + begin, saved.data() + begin, end - begin) == 0;
}

void Content::note_change(std::uint64_t begin, std::uint64_t end) {
  for (std::size_t page = begin / kPage; page * kPage < end; ++page) changed.insert(page);
}

void Content::save() {
  saved.resize(live.size());
  for (const std::size_t page : changed)
    if (!lost.contains(page)) copy_page(live, saved, page);
  changed = lost;
}

void Content::lose(std::uint64_t end) {
  const std::uint64_t most = std::min<std::uint64_t>(end, live.size());
  for (const std::size_t page : changed)
    if (page * kPage < most && !is_saved(page)) lost.insert(page);
  save();
}

void Content::drop_lost(const FdRange& range) {
  for (auto page = lost.begin(); page != lost.end();) {
    const std::uint64_t begin = *page * kPage;
    if (begin < range.begin || begin - range.begin >= range.size_bytes) {
      ++page;
      continue;
    }
    copy_page(saved, live, *page);
    page = lost.erase(page);
  }
}

void Content::go_back() {
  live.resize(saved.size());
  for (const std::size_t page : changed) copy_page(saved, live, page);
  changed.clear();
  lost.clear();
}

void Content::resize(std::uint64_t size_bytes) {
  note_change(std::min<std::uint64_t>(live.size(), size_bytes),
              std::max<std::uint64_t>(live.size(), size_bytes));
  live.resize(size_bytes);
  lost.erase(lost.lower_bound((size_bytes + kPage - 1) / kPage), lost.end());
}

std::unique_ptr<File> make_memory_file(MemoryFileParts parts) {
  return std::make_unique<MemoryFile>(std::move(parts));
}

std::optional<FileFault> MemoryDisk::strike(FileOp op, const std::string& path) {
  ++calls[op];
  std::optional<FileFault> hit;
  for (auto& [fault, seen] : faults) {
    if (fault.on != op || path.find(fault.path_part) == std::string::npos) continue;
    ++seen;
    if (!hit && seen >= fault.nth && seen - fault.nth < fault.times) hit = fault;
  }
  return hit;
}

Status MemoryDisk::failure(FileOp op, const std::string& path, std::string_view verb) {
  const auto fault = strike(op, path);
  if (!fault || fault->effect != FileEffect::fail) return {};
  return os_error(fault->errno_value, cat("cannot ", verb, " ", quoted_path(path)));
}

std::uint64_t MemoryDisk::used() const {
  std::set<const Content*> counted;
  std::uint64_t total = 0;
  for (const auto& [name, content] : names)
    if (counted.insert(content.get()).second) total += content->live.size();
  return total;
}

std::uint64_t MemoryDisk::room_for(const Content& content) const {
  const std::uint64_t taken = used();
  const std::uint64_t free = capacity > taken ? capacity - taken : 0;
  return checked_add(content.live.size(), free).value_or(UINT64_MAX);
}

}  // namespace towpath::sys::internal
