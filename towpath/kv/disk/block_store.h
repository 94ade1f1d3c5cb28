// BlockStore: KV blocks on disk that survive whatever happens to the process: crash-only.
//
// Append-only segment files hold the truth (segment_format.h). The index in memory is found again
// from a checkpoint and from what was written after it; without a checkpoint, from the segments.
// There is no shutdown: dying and ending are the same.
//
//   put() ---> may be got; dies with the process or the machine
//   sync() --> is acknowledged: it comes back after a crash
//   get() ---> the bytes, and they match the digest; or a reason why not, and the block is gone
//
// The store decides what goes where, what is synced when, and what makes room; a sys::FileDevice
// moves the bytes. put(), sync(), get() wait for it. A caller that would rather do other things
// meanwhile takes them apart:
//
//   begin(write) --> device().begin(write.request) ... it has ended --> end(write)
//
// and so with a read and a sync. A sync covers the writes that ended before it began. When a
// segment is full, begin() says not_ready until nothing is under way and all is synced; then it
// begins another itself, and waits for that.
//
// Promises, whatever the disk does (full, read-only, torn, out of order, bits flipped): a block
// that get() gives is the one that was put. What was acknowledged is lost only with the segment's
// bytes, or when room is made: then the oldest segment goes, and its file becomes the newest's. A
// block that is_leaving() soon so stays when it is put again. A directory is one store's at a time:
// a lock sees to it, which dies with the process. Thread: none of its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/digest.h>
#include <towpath/sys/file.h>
#include <towpath/sys/file_device.h>

namespace towpath::kv {

// Its parts, for those that take it apart: record_io.h has what they move.
struct BlockRead;
struct IndexedSegment;
struct PlacedRecord;
struct Record;
struct RecordWrite;
class Segment;
struct SegmentName;
struct SegmentSync;

struct BlockStoreOptions {
  std::string directory;  ///< made when it is not there
  /// Of each, about; a block is never split. At most a 16th of the capacity, or of a small one a
  /// quarter. 0: 256 MiB, or more of a large capacity, since a segment keeps a descriptor open, and
  /// two where `direct`: not many more than 512 in all.
  std::uint64_t segment_bytes = 0;
  std::uint64_t capacity_bytes = std::uint64_t{16} << 30U;  ///< of all segments
  std::uint64_t incarnation = 0;                            ///< random, another for each opening
  /// Past the page cache (O_DIRECT), where the directory can, and where a block's bytes begin and
  /// end at multiples of its File::alignment(); others go through it.
  bool direct = false;
  /// Learns what is acknowledged, as tier `tier`, and what is no more, for whatever reason;
  /// outlives the store. None: nobody is notified.
  BlockDirectory* block_directory = nullptr;
  TierIndex tier = 0;
};

/// The file system that a store in `directory` is in: that of a drive where its path begins with
/// one's, or with a file's, which is opened (drive_files.h); else the kernel's. Errors:
/// DriveFiles::open's.
Result<std::shared_ptr<sys::FileSystem>> store_files(const std::string& directory);

class BlockStore {
 public:
  /// Finds what is there. A directory that cannot be written to makes a store that can be read:
  /// read_only() says why. A segment whose header is damaged is removed, one of a later version
  /// left alone until segments after it make room, and both are reported. Errors: invalid_argument
  /// (options), unavailable (another has it open, and is named), those of making and listing the
  /// directory. `device` moves blocks; null: the files' own calls do.
  static Result<std::unique_ptr<BlockStore>> open(sys::FileSystem& files,
                                                  const BlockStoreOptions& options,
                                                  std::unique_ptr<sys::FileDevice> device = {});
  ~BlockStore();

  /// Bytes in canonical order (digest.h), proven before they are written. A block that is there
  /// is not written again, unless it is_leaving(). Errors: corrupt (the bytes do not match:
  /// counted, nothing written), denied (read-only), exhausted (no space even after the oldest
  /// segment went), unavailable (no memory to write it with), io_error, out_of_range.
  Status put(BlockHash hash, const Digest& digest, ConstByteSpan bytes);
  /// What was put and removed before is acknowledged when this succeeds. After a failure the
  /// blocks that were not are forgotten; but not_ready (one that was begun is under way) does
  /// nothing. What was removed before a failure is acknowledged by a checkpoint(), which the next
  /// one makes: the record of it is lost, so the block would be there again after a crash. Where
  /// the opening could not read a segment, no checkpoint knows those behind it: io_error then.
  Status sync();

  struct Found {
    Digest digest;
    std::uint64_t length = 0;
  };
  std::optional<Found> find(BlockHash hash) const;
  /// It has the block, but half of the capacity was filled since it was written: it is among the
  /// next to go, and was not put again.
  bool is_leaving(BlockHash hash) const;
  /// It has the block, but the opening could not read all of the segment that it lies in, or of a
  /// later one, or not the index: another put of this hash may lie there, or its removal.
  bool may_be_replaced(BlockHash hash) const;
  /// Whether it comes back after a crash.
  bool is_acknowledged(BlockHash hash) const;
  /// Whether it is acknowledged when the sync that is under way has ended well.
  bool is_being_synced(BlockHash hash) const;
  /// Whether the record of a removal was lost by a sync that failed, and no checkpoint() was made
  /// since that knows better.
  bool has_lost_removals() const noexcept { return has_lost_removals_; }
  /// Of all blocks that may be got, in no order.
  std::vector<BlockHash> hashes() const;
  /// Fills `into`, which is as long as the block. Errors: not_found; corrupt (quarantined: the
  /// block is gone, counted by reason), so with io_error and its kind; invalid_argument (length);
  /// exhausted (no memory to read it with: it stays).
  Status get(BlockHash hash, ByteSpan into);
  /// Errors: not_found, and those of writing: after these it is not found either, and the next
  /// sync() that succeeds acknowledges that.
  Status remove(BlockHash hash);

  /// Syncs, and makes the next opening quick. Errors: not_ready (records are being written);
  /// io_error also when this opening could not read the index, which can be read by now: it stays
  /// for the next one.
  Status checkpoint();

  // ---- The same, taken apart ----

  sys::FileDevice& device() noexcept { return *device_; }
  /// Whether the block may be written; nothing: it is there. `is_proven`: the caller has taken the
  /// digest of these bytes, where they lie. Errors: those of put() that are known before anything
  /// is written.
  Result<std::optional<Record>> admit(BlockHash hash, const Digest& digest, ConstByteSpan bytes,
                                      bool is_proven = false);
  /// The block is found no more. Gives the record of that, to be written. Errors: not_found,
  /// denied.
  Result<Record> forget(BlockHash hash);

  /// Errors: not_ready (end, and sync, what is under way first); exhausted (no space: see
  /// free_oldest()); denied; those of making a segment and making room.
  Status begin(RecordWrite& write, const Record& record, ConstByteSpan bytes);
  /// What the write ended with. Errors: exhausted (no space); unavailable (no memory: nothing is to
  /// be freed for it); io_error also when its segment was given up.
  Status end(RecordWrite& write);
  /// Gives up the oldest segments, some more with each call, for a record that found no space, as
  /// `why` says. Errors: exhausted (more would not help), not_ready.
  Status free_oldest(const Record& record, const Status& why);

  /// Whether there is something that a sync could begin with now.
  bool needs_sync() const noexcept { return current_ && is_dirty_ && syncing_ == nullptr; }
  /// False: not needs_sync(). One at a time.
  bool begin(SegmentSync& sync);
  /// `sync` is the one that began, where it was. After a failure all blocks that were not
  /// acknowledged are forgotten, also those written since.
  Status end(SegmentSync& sync);

  /// Errors: not_found, invalid_argument.
  Status begin(BlockRead& read, BlockHash hash, ByteSpan into);
  /// As get().
  Status end(BlockRead& read);

  struct Figures {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;  ///< of all segments
    std::uint64_t segments = 0;
    std::uint64_t from_index = 0;  ///< blocks that the checkpoint knew at opening
    std::uint64_t from_scan = 0;   ///< and those found behind it
    std::uint64_t kept = 0;        ///< written again, since they were leaving
    std::uint64_t reclaimed_segments = 0;
    std::map<std::string, std::uint64_t> quarantined;  ///< by reason
    std::vector<std::string> reported;                 ///< what was wrong at opening, in words
    std::string
        direct_refusal;  ///< why all goes through the page cache although that was not wanted
  };
  Figures figures() const;
  /// Why nothing can be written; ok otherwise.
  const Status& read_only() const noexcept { return read_only_; }

 private:
  struct Parts;  // store_parts.h

  BlockStore(sys::FileSystem& files, BlockStoreOptions options,
             std::unique_ptr<sys::FileDevice> device);

  Status recover();
  void drop_empty_segments();
  Status ask_to_write();
  std::vector<IndexedSegment> read_checkpoint(const std::vector<std::string>& names);
  Status check_unread_index();
  Status recover_segment(const std::string& file_name, std::vector<IndexedSegment>& known);
  Status scan(Segment& segment, std::uint64_t from, const Status& settled);
  void note(const Record& record, const SegmentName& segment, std::uint64_t offset);
  void forget_segment(std::uint64_t number);
  void report_there(BlockHash hash);
  void report_gone(BlockHash hash);

  Status sync_records();
  Status write(const Record& record, ConstByteSpan bytes);
  Status write_once(const Record& record, ConstByteSpan bytes);
  bool is_full_for(std::uint64_t bytes) const;
  bool is_busy() const { return writing_ > 0 || syncing_ != nullptr || is_dirty_; }
  void end_segment();
  Status begin_segment();
  Status make_room_for_segment(std::optional<Segment>& reused);
  Status remove_oldest();
  Status remove_unopened_before(std::uint64_t number);
  Status remove_file(const std::string& path);
  Segment give_up_oldest();
  void note_leaving();
  Status check_bytes(const Digest& digest, ConstByteSpan bytes) const;
  Status quarantine(const BlockRead& read, const std::string& reason, Status cause);
  bool is_where_it_was(const BlockRead& read) const;
  const PlacedRecord* kept_copy(BlockHash hash) const;
  void forget_unacknowledged(BlockHash hash);
  void acknowledge(const PlacedRecord& synced);
  std::uint64_t bytes_on_disk() const;

  sys::FileSystem& files_;
  const BlockStoreOptions options_;
  const std::unique_ptr<sys::FileDevice> device_;
  const std::unique_ptr<Parts> parts_;
  Status read_only_;
  std::uint64_t next_number_ = 1;
  std::optional<std::uint64_t> current_;  // that is written to
  bool is_spoiled_ = false;               // a write to it failed: it takes no more
  std::uint64_t last_unread_ = 0;         // of the segments that could not be read, or only in part
  std::uint64_t unread_index_bytes_ = 0;  // at most, of the index that could not be read; 0: none
  std::uint64_t unsaved_bytes_ = 0;       // of segments that ended since the last checkpoint
  std::size_t writing_ = 0;               // records
  bool is_dirty_ = false;                 // records were written that no sync has covered
  const SegmentSync* syncing_ = nullptr;  // that is under way
  bool has_removals_ = false;             // were written, that no sync has covered
  bool has_lost_removals_ = false;        // since the last checkpoint, by a sync that failed
  std::uint64_t freed_ = 0;               // bytes, since the last record was written
  std::uint64_t refused_ = 0;             // records since then, for which nothing was freed
  std::uint64_t leaving_before_ = 0;      // blocks in segments of lower numbers are leaving
  Figures figures_;
};

}  // namespace towpath::kv
