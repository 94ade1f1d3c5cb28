#include <algorithm>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/disk/block_store.h>

namespace towpath::kv {

// Reading ----------------------------------------------------------------------------------------

std::optional<BlockStore::Found> BlockStore::find(BlockHash hash) const {
  const auto known = index_.find(hash);
  if (known == index_.end()) return std::nullopt;
  return Found{known->second.record.digest, known->second.record.length};
}

std::vector<BlockHash> BlockStore::hashes() const {
  std::vector<BlockHash> all;
  all.reserve(index_.size());
  for (const auto& [hash, place] : index_) all.push_back(hash);
  return all;
}

Status BlockStore::get(BlockHash hash, ByteSpan into) {
  BlockRead read;
  TOWPATH_TRY(begin(read, hash, into));
  (void)device_->finish(read.request);
  return end(read);
}

Status BlockStore::begin(BlockRead& read, BlockHash hash, ByteSpan into) {
  const auto known = index_.find(hash);
  if (known == index_.end()) return error(Code::not_found, cat("no block ", hex(hash)));
  const Place& place = known->second;
  if (into.size() != place.record.length)
    return error(Code::invalid_argument, cat("block ", hex(hash), " has ", place.record.length,
                                             " bytes; room was given for ", into.size()));
  read.record = place.record;
  read.segment = place.segment;
  read.offset = place.offset;
  read.into = into;
  read.request = {.kind = sys::FileIo::Kind::read,
                  .offset = place.offset + kSegmentPage,
                  .parts = {sys::IoPart::of(into)}};
  read.request.file = segments_.at(place.segment).file_for(read.request.parts);
  return {};
}

Status BlockStore::end(BlockRead& read) {
  Status& came = read.request.status;
  if (came.code() == Code::cancelled) return std::move(came);
  if (!came.ok())
    return quarantine(read, came.code() == Code::corrupt ? "short read" : "unreadable",
                      std::move(came));
  Status proven = check_bytes(read.record.digest, read.into);
  if (!proven.ok()) return quarantine(read, "digest mismatch", std::move(proven));
  if (Place* const place = place_of(read)) place->wanted = true;
  return {};
}

/// Null: meanwhile the block has gone, or lies elsewhere.
BlockStore::Place* BlockStore::place_of(const BlockRead& read) {
  const auto known = index_.find(read.record.hash);
  const bool is_there = known != index_.end() && known->second.segment == read.segment &&
                        known->second.offset == read.offset;
  return is_there ? &known->second : nullptr;
}

Status BlockStore::check_bytes(const Digest& digest, ConstByteSpan bytes) const {
  const Digest found = digest_of(bytes, digest.salt, digest.algorithm);
  if (found == digest) return {};
  return error(Code::corrupt, cat("the bytes are ", to_string(found), ", not ", to_string(digest)));
}

Status BlockStore::quarantine(const BlockRead& read, const std::string& reason, Status cause) {
  ++figures_.quarantined[reason];
  const BlockHash hash = read.record.hash;
  if (place_of(read) != nullptr) {
    index_.erase(hash);
    report_gone(hash);
  }
  return error(cause.code(),
               cat("block ", hex(hash), " in ", read.request.file->path(), ": ", reason),
               "make the block anew; look at the drive if this comes again")
      .because(std::move(cause));
}

// Writing ----------------------------------------------------------------------------------------

Status BlockStore::put(BlockHash hash, const Digest& digest, ConstByteSpan bytes) {
  TOWPATH_TRY(const std::optional<Record> record, admit(hash, digest, bytes));
  return record ? write(*record, bytes) : Status();
}

Result<std::optional<Record>> BlockStore::admit(BlockHash hash, const Digest& digest,
                                                ConstByteSpan bytes) {
  const std::uint64_t most = std::min(kMaxBlockBytes, options_.segment_bytes - 2 * kSegmentPage);
  if (bytes.empty() || bytes.size() > most)
    return error(Code::out_of_range, cat("a block of ", bytes.size(), " bytes"),
                 cat("use 1 to ", most, ", or larger segments"));
  if (const Status proven = check_bytes(digest, bytes); !proven.ok()) {
    ++figures_.quarantined["wrong before it was written"];
    return proven;
  }
  if (index_.contains(hash)) return std::optional<Record>();
  return std::optional(Record{RecordKind::block, hash, digest, bytes.size()});
}

Status BlockStore::remove(BlockHash hash) {
  TOWPATH_TRY(const Record record, forget(hash));
  return write(record, {});
}

Result<Record> BlockStore::forget(BlockHash hash) {
  if (!index_.contains(hash)) return error(Code::not_found, cat("no block ", hex(hash)));
  if (!read_only_.ok())
    return error(Code::denied, cat(options_.directory, " can only be read")).because(read_only_);
  index_.erase(hash);
  report_gone(hash);
  return Record{.kind = RecordKind::removal, .hash = hash};
}

Status BlockStore::write(const Record& record, ConstByteSpan bytes) {
  Status written = write_once(record, bytes);
  for (std::uint64_t freed = 0; written.code() == Code::exhausted;) {
    TOWPATH_TRY(sync());
    TOWPATH_TRY(free_oldest(record, written, freed));
    written = write_once(record, bytes);
  }
  return written;
}

Status BlockStore::write_once(const Record& record, ConstByteSpan bytes) {
  RecordWrite write;
  Status begun = begin(write, record, bytes);
  if (begun.code() == Code::not_ready) {
    TOWPATH_TRY(sync());
    begun = begin(write, record, bytes);
  }
  TOWPATH_TRY(std::move(begun));
  (void)device_->finish(write.request);
  return end(write);
}

Status BlockStore::begin(RecordWrite& write, const Record& record, ConstByteSpan bytes) {
  if (!read_only_.ok())
    return error(Code::denied, cat(options_.directory, " can only be read")).because(read_only_);
  if (const std::uint64_t room = room_of(record); must_rearrange(room)) {
    if (is_busy()) return error(Code::not_ready, "records are not synced that must be, first");
    TOWPATH_TRY(rearrange(room));
  }
  if (!current_) TOWPATH_TRY(begin_segment());
  Segment& segment = segments_.at(*current_);
  write.record = record;
  write.segment = *current_;
  write.offset = segment.reserve(record);
  std::ranges::copy(seal_record(record, {segment.name(), write.offset}), write.header.begin());
  write.request = {.kind = sys::FileIo::Kind::write,
                   .offset = write.offset,
                   .parts = {sys::IoPart::of(write.header), sys::IoPart::to_read(bytes)}};
  write.request.file = segment.file_for(write.request.parts);
  ++writing_;
  return {};
}

Status BlockStore::end(RecordWrite& write) {
  --writing_;
  const bool is_current = current_ == write.segment;
  const Status& written = write.request.status;
  if (!written.ok()) {
    is_spoiled_ = is_spoiled_ || (is_current && written.code() != Code::cancelled);
    return written;
  }
  if (!is_current)
    return error(Code::io_error,
                 cat("segment ", write.segment, " was given up after a failed sync"));
  is_dirty_ = true;
  segments_.at(write.segment).note_written(room_of(write.record));
  if (write.record.kind == RecordKind::removal) return {};
  index_[write.record.hash] = {write.segment, write.offset, write.record, false, false};
  unacknowledged_.push_back(write.record.hash);
  return {};
}

bool BlockStore::is_over_capacity(std::uint64_t bytes) const {
  return !making_room_ && segments_.size() > 1 && bytes_on_disk() + bytes > options_.capacity_bytes;
}

bool BlockStore::must_rearrange(std::uint64_t bytes) const {
  const bool is_full = current_ && segments_.at(*current_).end() + bytes > options_.segment_bytes;
  return is_spoiled_ || is_full || is_over_capacity(bytes);
}

/// Nothing is under way, and all is synced.
Status BlockStore::rearrange(std::uint64_t bytes) {
  if (std::exchange(is_spoiled_, false)) current_.reset();
  if (current_ && segments_.at(*current_).end() + bytes > options_.segment_bytes)
    TOWPATH_TRY(seal_segment());
  while (is_over_capacity(bytes)) TOWPATH_TRY(reclaim_oldest());
  return {};
}

Status BlockStore::begin_segment() {
  const SegmentName name{next_number_++, options_.incarnation};
  Result<Segment> made = Segment::create(files_, options_.directory, name);
  if (!made.ok()) {
    // What there may be of it has no header, or one and no records.
    (void)files_.remove(cat(options_.directory, "/", Segment::file_name(name.number)));
    return made.status();
  }
  if (options_.direct) figures_.direct_refusal = made->go_direct(files_);
  segments_.emplace(name.number, *std::move(made));
  current_ = name.number;
  return {};
}

// With a checkpoint, so that never more than a segment is to be looked through. One that fails
// costs only time.
Status BlockStore::seal_segment() {
  current_.reset();
  if (const Status saved = checkpoint(); !saved.ok())
    figures_.reported.emplace_back(saved.message());
  return {};
}

// All blocks that are not acknowledged lie in the current segment: no other is begun before a sync.
Status BlockStore::sync() {
  SegmentSync all;
  if (!begin(all)) return {};
  (void)device_->finish(all.request);
  return end(all);
}

bool BlockStore::begin(SegmentSync& sync) {
  if (!current_ || !is_dirty_ || is_syncing_) return false;
  Segment& segment = segments_.at(*current_);
  segment.note_sync();
  sync.segment = *current_;
  sync.blocks = std::exchange(unacknowledged_, {});
  sync.request = {.kind = sys::FileIo::Kind::sync, .file = segment.file()};
  is_dirty_ = false;
  is_syncing_ = true;
  return true;
}

Status BlockStore::end(SegmentSync& sync) {
  is_syncing_ = false;
  const Status& synced = sync.request.status;
  for (const BlockHash hash : sync.blocks) {
    const auto known = index_.find(hash);
    if (known == index_.end() || known->second.acknowledged ||
        known->second.segment != sync.segment)
      continue;
    if (!synced.ok()) {
      forget_unacknowledged(hash);
      continue;
    }
    known->second.acknowledged = true;
    report_there(hash);
  }
  if (synced.ok()) return {};
  // What the kernel has dropped, it will not write.
  for (const BlockHash hash : std::exchange(unacknowledged_, {})) forget_unacknowledged(hash);
  is_dirty_ = is_spoiled_ = false;
  current_.reset();
  return synced;
}

/// One that is carried over was there before.
void BlockStore::forget_unacknowledged(BlockHash hash) {
  const auto known = index_.find(hash);
  if (known == index_.end() || known->second.acknowledged) return;
  index_.erase(known);
  report_gone(hash);
}

// Room -------------------------------------------------------------------------------------------

std::uint64_t BlockStore::bytes_on_disk() const {
  std::uint64_t sum = 0;
  for (const auto& [number, segment] : segments_) sum += segment.end();
  return sum;
}

// But not all of them, for a disk that others have filled.
Status BlockStore::free_oldest(const Record& record, const Status& why, std::uint64_t& freed) {
  if (is_busy()) return error(Code::not_ready, "records are not synced that must be, first");
  if (making_room_ || segments_.empty() || freed >= 2 * room_of(record))
    return error(Code::exhausted,
                 cat(options_.directory, ": no space, after ", freed,
                     " bytes were given up for a record of ", room_of(record)),
                 "free space on its file system, or give the store a directory on another one")
        .because(why);
  freed += segments_.begin()->second.end();
  return reclaim_oldest();
}

Status BlockStore::reclaim_oldest() {
  making_room_ = true;
  const std::uint64_t oldest = segments_.begin()->first;
  if (current_ == oldest) current_.reset(), is_spoiled_ = false;
  // What cannot be carried over is lost: room was asked for, and blocks can be made anew.
  (void)carry_over(oldest);
  making_room_ = false;
  const std::string path = segments_.at(oldest).path();
  forget_segment(oldest);
  TOWPATH_TRY(files_.remove(path));
  ++figures_.reclaimed_segments;
  return files_.sync_directory(options_.directory);
}

// Blocks that were got since they were written, up to half of what is freed: so room is made.
Status BlockStore::carry_over(std::uint64_t number) {
  std::vector<BlockHash> wanted;
  std::uint64_t left = segments_.at(number).end() / 2;
  for (const auto& [hash, place] : index_) {
    if (place.segment != number || !place.wanted || room_of(place.record) > left) continue;
    left -= room_of(place.record);
    wanted.push_back(hash);
  }
  Bytes bytes;
  for (const BlockHash hash : wanted) {
    const Record record = index_.at(hash).record;
    bytes.resize(record.length);
    if (!get(hash, bytes).ok()) continue;
    TOWPATH_TRY(write(record, bytes));
    ++figures_.carried;
  }
  return sync();
}

void BlockStore::forget_segment(std::uint64_t number) {
  std::erase_if(index_, [&](const auto& entry) {
    if (entry.second.segment != number) return false;
    report_gone(entry.first);
    return true;
  });
  segments_.erase(number);
}

void BlockStore::report_there(BlockHash hash) {
  if (options_.block_directory != nullptr) (void)options_.block_directory->add(hash, options_.tier);
}

void BlockStore::report_gone(BlockHash hash) {
  if (options_.block_directory != nullptr)
    (void)options_.block_directory->remove(hash, options_.tier);
}

BlockStore::Figures BlockStore::figures() const {
  Figures all = figures_;
  all.blocks = index_.size();
  all.segments = segments_.size();
  all.bytes = bytes_on_disk();
  return all;
}

}  // namespace towpath::kv
