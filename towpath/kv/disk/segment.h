// Segment: one append-only file of blocks, written by one life of a store and never changed after.
//
// A block's bytes go before its header: a header that is there says that the bytes were written.
// (That they arrived, after a loss of power, the digest says.)
// Thread: none of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <towpath/kv/disk/segment_format.h>
#include <towpath/sys/file.h>

namespace towpath::kv {

class Segment {
 public:
  /// A new one, on the disk when this returns. Errors: those of the file system.
  static Result<Segment> create(sys::FileSystem& files, const std::string& directory,
                                const SegmentName& name);
  /// One that is there, for reading. Errors: corrupt (its header), those of the file system.
  static Result<Segment> open(sys::FileSystem& files, const std::string& path);

  /// "segment-0000000000000007", and back; nothing for other files.
  static std::string file_name(std::uint64_t number);
  static std::optional<std::uint64_t> number_of(const std::string& file_name);

  const SegmentName& name() const noexcept { return name_; }
  const std::string& path() const noexcept { return file_->path(); }
  std::uint64_t end() const noexcept { return end_; }  ///< where the next record goes

  /// The record's offset. After a failure the segment is not to be written to any more.
  Result<std::uint64_t> append(const Record& record, ConstByteSpan bytes);
  Status sync();
  /// The block's bytes, not yet proven. Errors: corrupt (the file ends first), io_error.
  Status read(std::uint64_t offset, ByteSpan into) {
    return sys::read_exactly(*file_, into, offset + kSegmentPage);
  }

  /// Calls `found` for each whole record from `from` on, in order; what is no record is passed over
  /// page by page. Errors: those of reading.
  using Found = std::function<Status(const Record&, std::uint64_t offset)>;
  Status scan(std::uint64_t from, const Found& found);

 private:
  Segment(std::unique_ptr<sys::File> file, const SegmentName& name, std::uint64_t end)
      : file_(std::move(file)), name_(name), end_(end) {}

  std::unique_ptr<sys::File> file_;
  SegmentName name_;
  std::uint64_t end_;
  std::uint64_t begun_ = 0;  // up to here the disk was asked to begin, or has ended
};

}  // namespace towpath::kv
