// Segment: a file of blocks, written from its begin to its end by one life of a store. What a
// record's header says is true until the whole segment is given up; then its file may become a
// later segment's, since writing to space that a file has is several times as fast as making it
// longer.
//
// A record has its place before it is written, and several are written at once. One that does not
// arrive leaves a hole, which a scan passes over. Whether a header's bytes arrived, the digest
// says. Thread: none of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <towpath/kv/disk/segment_format.h>
#include <towpath/sys/file.h>
#include <towpath/sys/io_part.h>

namespace towpath::kv {

class Segment {
 public:
  /// A new one, whose name is on the disk when this returns, and whose header is with the first
  /// sync of its file. `old_path`: the file of one that is given up, and
  /// that nobody reads from, which becomes this one's; after a crash it holds the old segment, the
  /// new one, or none. Errors: those of the file system.
  static Result<Segment> create(sys::FileSystem& files, const std::string& directory,
                                const SegmentName& name, const std::string& old_path = {});
  /// One that is there, for reading. Errors: corrupt (its header, or that is another segment's),
  /// those of the file system.
  static Result<Segment> open(sys::FileSystem& files, const std::string& directory,
                              const std::string& name);
  /// From now on what is aligned goes past the page cache, if the file system can; or why not.
  std::string go_direct(sys::FileSystem& files);

  /// "segment-0000000000000007", and back; nothing for other files.
  static std::string file_name(std::uint64_t number);
  static std::optional<std::uint64_t> number_of(const std::string& file_name);

  const SegmentName& name() const noexcept { return name_; }
  const std::string& path() const noexcept { return file_->path(); }
  std::uint64_t end() const noexcept { return end_; }  ///< where the next record goes
  /// What it takes on the disk.
  std::uint64_t size() const noexcept { return size_ > end_ ? size_ : end_; }
  /// No request that was made for it has its file.
  bool is_unread() const noexcept;
  const std::shared_ptr<sys::File>& file() const noexcept { return file_; }
  /// For bytes that lie in these parts: file(), or the same past the page cache.
  const std::shared_ptr<sys::File>& file_for(std::span<const sys::IoPart> parts) const noexcept;

  /// Takes so much space, if it can: records are written faster where the file is long enough.
  /// Before the first of them: what fails may cut the file to what it was.
  void take_space(sys::FileSystem& files, std::uint64_t bytes);
  /// Gives back what lies behind the last record, if it can.
  void give_back_space(sys::FileSystem& files);
  /// The record's offset: from now on its place is taken.
  std::uint64_t reserve(const Record& record);
  /// So much was written: when it is much, the disk begins with it.
  void note_written(std::uint64_t bytes);
  /// A sync begins, or ends: there is nothing to begin with.
  void note_sync() { unbegun_ = 0; }
  /// The block's bytes, not yet proven. Errors: corrupt (the file ends first), io_error.
  Status read(std::uint64_t offset, ByteSpan into) {
    return sys::read_exactly(*file_, into, offset + kSegmentPage);
  }

  /// One that is there has no records from `offset` on.
  void note_end(std::uint64_t offset) { end_ = offset; }
  /// A life that was killed may have left all of it in the page cache alone, and what its sync
  /// failed for is there as if it had been written. When this succeeds what is read is on the disk:
  /// open it once more, since its header may not be. Errors: those of syncing.
  Status settle();
  /// Calls `found` for each whole record from `from` on, in order; what is no record, as in space
  /// that was taken and not filled, is passed over page by page, and so is what cannot be read, up
  /// to a bound. `settled`: what settle() said. Errors: that, when removals alone were found, and
  /// those of reading, when what could be read was; then there may be more records, and end() is
  /// still that of the file.
  using Found = std::function<void(const Record&, std::uint64_t offset)>;
  Status scan(std::uint64_t from, const Status& settled, const Found& found);
  bool has_unread_pages() const noexcept { return has_unread_pages_; }  ///< scan() failed

 private:
  Segment(std::shared_ptr<sys::File> file, const SegmentName& name, std::uint64_t end)
      : file_(std::move(file)), name_(name), end_(end), size_(end) {}

  std::shared_ptr<sys::File> file_;    // and of what is under way
  std::shared_ptr<sys::File> direct_;  // the same; null: none
  bool is_written_ = false;            // by this life of the store
  bool has_unread_pages_ = false;
  SegmentName name_;
  std::uint64_t end_;
  std::uint64_t size_;         // of the file, or less
  std::uint64_t unbegun_ = 0;  // bytes written since the disk began last
};

}  // namespace towpath::kv
