#include <algorithm>
#include <charconv>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/kv/disk/segment.h>

namespace towpath::kv {
namespace {

constexpr std::string_view kSegmentPrefix = "segment-";
constexpr std::size_t kDigits = 20;  // of the largest number, so that names sort as numbers do
/// The disk writes so much while what comes next is copied: fewer bytes are not worth the asking.
constexpr std::uint64_t kStride = std::uint64_t{4} << 20U;

/// So many pages that cannot be read say that it is not a few of them: the disk is gone.
constexpr int kMostUnread = 16;

/// The pages of a file, read some at a time, and where that fails, each alone.
class Window {
 public:
  Window(sys::File& file, std::uint64_t size) : file_(file), size_(size) {}

  /// All of it lies in the file; good until the next call.
  Result<ConstByteSpan> page_at(std::uint64_t offset) {
    constexpr std::uint64_t kBytes = std::uint64_t{256} << 10U;
    if (offset >= begin_ && offset + kSegmentPage <= begin_ + bytes_.size())
      return ConstByteSpan(bytes_).subspan(offset - begin_, kSegmentPage);
    if (offset >= alone_until_) {
      if (read(offset, kBytes).ok()) return page_at(offset);
      alone_until_ = offset + kBytes;
    }
    TOWPATH_TRY(read(offset, kSegmentPage));
    return ConstByteSpan(bytes_);
  }

 private:
  Status read(std::uint64_t offset, std::uint64_t most_bytes) {
    bytes_.resize(std::min(most_bytes, size_ - offset));
    begin_ = offset;
    Status came = sys::read_exactly(file_, bytes_, offset);
    if (!came.ok()) bytes_.clear();
    return came;
  }

  sys::File& file_;
  const std::uint64_t size_;
  std::uint64_t begin_ = 0;
  std::uint64_t alone_until_ = 0;
  Bytes bytes_;
};

/// Errors: corrupt (it is another's, which has the file by now).
Status check_place(const SegmentHeader& header, const std::string& name,
                   const std::string& directory) {
  if (!header.directory.empty() && header.directory != directory)
    return error(Code::corrupt, cat("it holds a segment of '", printable(header.directory),
                                    "', not of '", directory, "'"));
  if (Segment::file_name(header.name.number) == name) return {};
  return error(Code::corrupt, cat("it holds segment ", header.name.number,
                                  ", which was given up for this one before that was begun"));
}

}  // namespace

std::string Segment::file_name(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  return cat(kSegmentPrefix, std::string(kDigits - digits.size(), '0'), digits);
}

std::optional<std::uint64_t> Segment::number_of(const std::string& file_name) {
  if (!file_name.starts_with(kSegmentPrefix)) return std::nullopt;
  std::uint64_t number = 0;
  const char* const end = file_name.data() + file_name.size();
  const auto parsed = std::from_chars(file_name.data() + kSegmentPrefix.size(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || Segment::file_name(number) != file_name)
    return std::nullopt;
  return number;
}

Result<Segment> Segment::create(sys::FileSystem& files, const std::string& directory,
                                const SegmentName& name, const std::string& old_path) {
  const std::string path = cat(directory, "/", file_name(name.number));
  // A file whose header is of another segment than its name holds none (open()).
  const Status renamed =
      old_path.empty() ? Status() : files.rename({.source = old_path, .target = path});
  const bool is_new = old_path.empty() || renamed.code() == Code::not_found;
  if (!is_new) TOWPATH_TRY(renamed);
  TOWPATH_TRY(
      auto file,
      files.open(path,
                 {.writable = true, .create = is_new, .exclusive = is_new, .plain = !is_new}));
  // First, or a loss of power could bring back the segments that went before this file's, and not
  // this one, which says what was removed from them.
  TOWPATH_TRY(files.sync_directory(directory));
  const SegmentHeader header{name, files.file_slots(directory).directory};
  TOWPATH_TRY(sys::write_exactly(*file, seal_segment_header(header), 0));
  TOWPATH_TRY(const std::uint64_t size, file->size());
  Segment made(std::move(file), name, kSegmentPage);
  made.size_ = size;
  made.is_written_ = true;
  return made;
}

Result<Segment> Segment::open(sys::FileSystem& files, const std::string& directory,
                              const std::string& name) {
  TOWPATH_TRY(auto file, files.open(cat(directory, "/", name), {.plain = true}));
  Bytes page(kSegmentPage);
  TOWPATH_TRY(sys::read_exactly(*file, page, 0));
  const Result<SegmentHeader> opened = open_segment_header(page);
  if (opened.code() == Code::invalid_argument)  // on a drive an index, which has the slot by now
    return error(Code::corrupt, "it holds no segment").because(opened.status());
  TOWPATH_TRY(const SegmentHeader header, opened);
  TOWPATH_TRY(check_place(header, name, files.file_slots(directory).directory));
  TOWPATH_TRY(const std::uint64_t size, file->size());
  // The last block's page is not filled up.
  return Segment(std::move(file), header.name,
                 (size + kSegmentPage - 1) / kSegmentPage * kSegmentPage);
}

std::string Segment::go_direct(sys::FileSystem& files) {
  Result<std::unique_ptr<sys::File>> direct =
      files.open(path(), {.writable = is_written_, .direct = true});
  if (!direct.ok()) return direct.status().to_string();
  if (!(*direct)->direct()) return (*direct)->direct_refusal();
  direct_ = *std::move(direct);
  return {};
}

const std::shared_ptr<sys::File>& Segment::file_for(
    std::span<const sys::IoPart> parts) const noexcept {
  if (direct_ == nullptr) return file_;
  const std::uint64_t unit = direct_->alignment();
  const bool fits = kSegmentPage % unit == 0 && std::ranges::all_of(parts, [&](const auto& part) {
                      return address_of(part.data) % unit == 0 && part.size_bytes % unit == 0;
                    });
  return fits ? direct_ : file_;
}

bool Segment::is_unread() const noexcept {
  return file_.use_count() == 1 && (direct_ == nullptr || direct_.use_count() == 1);
}

void Segment::take_space(sys::FileSystem& files, std::uint64_t bytes) {
  if (size_ >= bytes) return;
  // A kernel that is asked for more than there is fills the disk, for everybody, before it says so.
  // 0 is also what file systems say that do not know.
  const Result<std::uint64_t> available = files.available_bytes(path());
  if (available.ok() && *available != 0 && *available < bytes - size_) return;
  if (file_->preallocate(bytes).ok()) size_ = bytes;
}

void Segment::give_back_space(sys::FileSystem& files) {
  if (size_ <= end_) return;
  const auto file = files.open(path(), {.writable = true, .plain = true});
  if (file.ok() && (*file)->resize(end_).ok()) size_ = end_;
}

std::uint64_t Segment::reserve(const Record& record) {
  const std::uint64_t offset = end_;
  end_ += room_of(record);
  return offset;
}

void Segment::note_written(std::uint64_t bytes) {
  unbegun_ += bytes;
  if (unbegun_ < kStride) return;
  file_->start_sync();
  unbegun_ = 0;
}

// Where nothing is ever written there is no syncing (squashfs and its kin: EINVAL).
Status Segment::settle() {
  Status synced = sys::sync_and_drop_cache(*file_);
  return synced.code() == Code::invalid_argument ? Status() : synced;
}

// What was not synced is no block yet, but a block before it that it removes is not what was put
// last.
Status Segment::scan(std::uint64_t from, const Status& settled, const Found& found) {
  has_unread_pages_ = true;
  const bool is_synced = settled.ok();
  Status failed = settled;
  TOWPATH_TRY(const std::uint64_t size, file_->size());
  Window window(*file_, size);
  std::uint64_t offset = std::max(from / kSegmentPage, std::uint64_t{1}) * kSegmentPage;
  std::uint64_t end = offset;
  for (int count = 0; count < kMostUnread && range_fits(offset, kSegmentPage, size);) {
    const Result<ConstByteSpan> page = window.page_at(offset);
    if (!page.ok() && count++ == 0 && is_synced) failed = page.status();
    const Result<Record> record =
        page.ok() ? open_record(*page, {name_, offset}) : Result<Record>(page.status());
    const bool whole = record.ok() && range_fits(offset + kSegmentPage, record->length, size);
    if (whole && (is_synced || record->kind == RecordKind::removal)) found(*record, offset);
    offset += whole ? room_of(*record) : kSegmentPage;
    if (whole) end = offset;
  }
  has_unread_pages_ = !failed.ok();
  if (failed.ok()) end_ = end;
  return failed;
}

}  // namespace towpath::kv
