#include <algorithm>
#include <charconv>

#include <towpath/core/checked.h>
#include <towpath/core/text.h>
#include <towpath/kv/disk/segment.h>

namespace towpath::kv {
namespace {

constexpr std::string_view kSegmentPrefix = "segment-";
constexpr std::size_t kDigits = 20;  // of the largest number, so that names sort as numbers do
/// The disk writes so much while what comes next is copied: fewer bytes are not worth the asking.
constexpr std::uint64_t kStride = std::uint64_t{4} << 20U;

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
                                const SegmentName& name) {
  TOWPATH_TRY(auto file, files.open(cat(directory, "/", file_name(name.number)),
                                    {.writable = true, .create = true, .exclusive = true}));
  TOWPATH_TRY(sys::write_exactly(*file, seal_segment_header(name), 0));
  TOWPATH_TRY(file->sync());
  TOWPATH_TRY(files.sync_directory(directory));
  Segment made(std::move(file), name, kSegmentPage);
  made.is_written_ = true;
  return made;
}

Result<Segment> Segment::open(sys::FileSystem& files, const std::string& path) {
  TOWPATH_TRY(auto file, files.open(path, {.plain = true}));
  Bytes page(kSegmentPage);
  TOWPATH_TRY(sys::read_exactly(*file, page, 0));
  TOWPATH_TRY(const SegmentName name, open_segment_header(page));
  TOWPATH_TRY(const std::uint64_t size, file->size());
  // The last block's page is not filled up.
  return Segment(std::move(file), name, (size + kSegmentPage - 1) / kSegmentPage * kSegmentPage);
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

Status Segment::scan(std::uint64_t from, const Found& found) {
  TOWPATH_TRY(const std::uint64_t size, file_->size());
  Bytes page(kSegmentPage);
  std::uint64_t offset = from < kSegmentPage ? kSegmentPage : from / kSegmentPage * kSegmentPage;
  while (range_fits(offset, kSegmentPage, size)) {
    TOWPATH_TRY(sys::read_exactly(*file_, page, offset));
    const Result<Record> record = open_record(page, {name_, offset});
    const bool whole = record.ok() && range_fits(offset + kSegmentPage, record->length, size);
    if (whole) TOWPATH_TRY(found(*record, offset));
    offset += whole ? room_of(*record) : kSegmentPage;
  }
  end_ = offset;
  return {};
}

}  // namespace towpath::kv
