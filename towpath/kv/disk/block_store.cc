#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/disk/store_parts.h>

namespace towpath::kv {
namespace {

/// So much the next opening may have to look through, in a fraction of a second; of a store with
/// many blocks more, so that the index is a small part of all that is written.
constexpr std::uint64_t kLookedThrough = std::uint64_t{256} << 20U;

}  // namespace

// Reading ----------------------------------------------------------------------------------------

std::optional<BlockStore::Found> BlockStore::find(BlockHash hash) const {
  const auto known = parts_->index.find(hash);
  if (!known) return std::nullopt;
  return Found{known->record.digest, known->record.length};
}

std::vector<BlockHash> BlockStore::hashes() const {
  std::vector<BlockHash> all;
  all.reserve(parts_->index.size());
  parts_->index.for_each([&](const BlockIndex::Place& place) { all.push_back(place.record.hash); });
  return all;
}

Status BlockStore::get(BlockHash hash, ByteSpan into) {
  BlockRead read;
  TOWPATH_TRY(begin(read, hash, into));
  (void)device_->finish(read.request);
  return end(read);
}

Status BlockStore::begin(BlockRead& read, BlockHash hash, ByteSpan into) {
  const auto known = parts_->index.find(hash);
  if (!known) return error(Code::not_found, cat("no block ", hex(hash)));
  const BlockIndex::Place& place = *known;
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
  read.request.file = parts_->segments.at(place.segment).file_for(read.request.parts);
  return {};
}

Status BlockStore::end(BlockRead& read) {
  Status& came = read.request.status;
  // Neither says anything about the block: nobody wants it any more, or there was no memory.
  if (came.code() == Code::cancelled || came.code() == Code::exhausted) return std::move(came);
  if (!came.ok())
    return quarantine(read, came.code() == Code::corrupt ? "short read" : "unreadable",
                      std::move(came));
  Status proven = check_bytes(read.record.digest, read.into);
  if (!proven.ok()) return quarantine(read, "digest mismatch", std::move(proven));
  return {};
}

/// False: meanwhile the block has gone, or lies elsewhere.
bool BlockStore::is_where_it_was(const BlockRead& read) const {
  const auto known = parts_->index.find(read.record.hash);
  return known && known->segment == read.segment && known->offset == read.offset;
}

/// What was written of a block that is_kept, and is not acknowledged.
const PlacedRecord* BlockStore::kept_copy(BlockHash hash) const {
  const auto find_in = [&](const std::vector<PlacedRecord>& blocks) {
    const auto found = std::ranges::find(
        blocks, hash, [](const PlacedRecord& block) { return block.record.hash; });
    return found == blocks.end() ? nullptr : &*found;
  };
  const PlacedRecord* const written = find_in(parts_->unacknowledged);
  return written == nullptr && syncing_ != nullptr ? find_in(syncing_->blocks) : written;
}

Status BlockStore::check_bytes(const Digest& digest, ConstByteSpan bytes) const {
  const Digest found = digest_of(bytes, digest.salt, digest.algorithm);
  if (found == digest) return {};
  return error(Code::corrupt, cat("the bytes are ", to_string(found), ", not ", to_string(digest)));
}

Status BlockStore::quarantine(const BlockRead& read, const std::string& reason, Status cause) {
  const BlockHash hash = read.record.hash;
  if (!is_where_it_was(read))
    return error(Code::not_found, cat("block ", hex(hash), " went while it was read"))
        .because(std::move(cause));
  ++figures_.quarantined[reason];
  // Of one that was leaving, and was put again, only the old copy is lost.
  const bool is_kept = parts_->index.find(hash)->is_kept;
  if (const PlacedRecord* const copy = is_kept ? kept_copy(hash) : nullptr; copy != nullptr)
    parts_->index.put({*copy, false});
  else
    parts_->index.erase(hash);
  report_gone(hash);
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
                                                ConstByteSpan bytes, bool is_proven) {
  const std::uint64_t most = std::min(kMaxBlockBytes, options_.segment_bytes - 2 * kSegmentPage);
  if (bytes.empty() || bytes.size() > most)
    return error(Code::out_of_range, cat("a block of ", bytes.size(), " bytes"),
                 cat("use 1 to ", most, ", or larger segments"));
  if (const Status proven = is_proven ? Status() : check_bytes(digest, bytes); !proven.ok()) {
    ++figures_.quarantined["wrong before it was written"];
    return proven;
  }
  if (parts_->index.contains(hash) && !is_leaving(hash)) return std::optional<Record>();
  return std::optional(Record{RecordKind::block, hash, digest, bytes.size()});
}

Status BlockStore::remove(BlockHash hash) {
  TOWPATH_TRY(const Record record, forget(hash));
  Status written = write(record, {});
  if (!written.ok()) has_lost_removals_ = true;  // it cannot be asked for again
  return written;
}

Result<Record> BlockStore::forget(BlockHash hash) {
  if (!parts_->index.contains(hash)) return error(Code::not_found, cat("no block ", hex(hash)));
  if (!read_only_.ok())
    return error(Code::denied, cat(options_.directory, " can only be read")).because(read_only_);
  parts_->index.erase(hash);
  report_gone(hash);
  return Record{.kind = RecordKind::removal, .hash = hash};
}

Status BlockStore::write(const Record& record, ConstByteSpan bytes) {
  Status written = write_once(record, bytes);
  while (written.code() == Code::exhausted) {
    TOWPATH_TRY(sync_records());
    TOWPATH_TRY(free_oldest(record, written));
    written = write_once(record, bytes);
  }
  return written;
}

Status BlockStore::write_once(const Record& record, ConstByteSpan bytes) {
  RecordWrite write;
  Status begun = begin(write, record, bytes);
  if (begun.code() == Code::not_ready) {
    TOWPATH_TRY(sync_records());
    begun = begin(write, record, bytes);
  }
  TOWPATH_TRY(std::move(begun));
  (void)device_->finish(write.request);
  return end(write);
}

Status BlockStore::begin(RecordWrite& write, const Record& record, ConstByteSpan bytes) {
  if (!read_only_.ok())
    return error(Code::denied, cat(options_.directory, " can only be read")).because(read_only_);
  if (is_spoiled_ || is_full_for(room_of(record))) {
    if (is_busy()) return error(Code::not_ready, "records are not synced that must be, first");
    end_segment();
  }
  if (!current_) TOWPATH_TRY(begin_segment());
  Segment& segment = parts_->segments.at(*current_);
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
    // These two say nothing about the disk: they leave a hole, and that is all.
    const bool is_hole = written.code() == Code::cancelled || written.code() == Code::unavailable;
    is_spoiled_ = is_spoiled_ || (is_current && !is_hole);
    return written;
  }
  if (!is_current)
    return error(Code::io_error,
                 cat("segment ", write.segment, " was given up after a failed sync"));
  is_dirty_ = true;
  freed_ = refused_ = 0;
  parts_->segments.at(write.segment).note_written(room_of(write.record));
  if (write.record.kind == RecordKind::removal) {
    has_removals_ = true;
    return {};
  }
  // One that is leaving is got from where it was until what was written now is there for good.
  parts_->unacknowledged.push_back(write);
  // Of two that were begun together the first to arrive stays.
  auto place = parts_->index.find(write.record.hash);
  if (is_leaving(write.record.hash)) place->is_kept = true, ++figures_.kept;
  parts_->index.put(place.value_or(BlockIndex::Place{write, false}));
  return {};
}

bool BlockStore::is_full_for(std::uint64_t bytes) const {
  return current_ && parts_->segments.at(*current_).end() + bytes > options_.segment_bytes;
}

/// The one that is written to. Nothing is under way, and all is synced.
void BlockStore::end_segment() {
  const std::uint64_t ended = *std::exchange(current_, std::nullopt);
  unsaved_bytes_ += parts_->segments.at(ended).end();
  const std::uint64_t most = std::max(kLookedThrough, 16 * kIndexedBytes * parts_->index.size());
  if (std::exchange(is_spoiled_, false) || unsaved_bytes_ + options_.segment_bytes <= most) return;
  // One that fails costs only time.
  if (const Status saved = checkpoint(); !saved.ok())
    figures_.reported.emplace_back(saved.message());
}

Status BlockStore::begin_segment() {
  const SegmentName name{next_number_++, options_.incarnation};
  std::optional<Segment> reused;
  TOWPATH_TRY(make_room_for_segment(reused));
  Result<Segment> made =
      Segment::create(files_, options_.directory, name, reused ? reused->path() : std::string());
  if (!made.ok()) {
    // What there may be of it has no header, or one and no records; or it is given up.
    (void)files_.remove(cat(options_.directory, "/", Segment::file_name(name.number)));
    if (reused) {
      const std::uint64_t number = reused->name().number;
      parts_->segments.emplace(number, *std::move(reused));
      --figures_.reclaimed_segments;
      (void)remove_oldest();
    }
    return made.status();
  }
  made->take_space(files_, options_.segment_bytes);
  if (options_.direct) figures_.direct_refusal = made->go_direct(files_);
  parts_->segments.emplace(name.number, *std::move(made));
  current_ = name.number;
  note_leaving();
  return {};
}

// The index is written without the blocks whose removals are lost, and what it knows of a segment
// is not looked for there.
Status BlockStore::sync() {
  TOWPATH_TRY(sync_records());
  if (has_lost_removals_) TOWPATH_TRY(checkpoint());
  if (!has_lost_removals_) return {};
  return error(Code::io_error,
               "what was removed before a failed sync comes back after a crash: the index that "
               "would say so ends at a segment that could not be read",
               "open the store again once the disk can be read");
}

// All blocks that are not acknowledged lie in the current segment: no other is begun before a sync.
Status BlockStore::sync_records() {
  if (syncing_ != nullptr) return error(Code::not_ready, "a sync is under way that began before");
  SegmentSync all;
  if (!begin(all)) return {};
  (void)device_->finish(all.request);
  return end(all);
}

bool BlockStore::begin(SegmentSync& sync) {
  if (!needs_sync()) return false;
  Segment& segment = parts_->segments.at(*current_);
  segment.note_sync();
  sync.segment = *current_;
  sync.blocks = std::exchange(parts_->unacknowledged, {});
  sync.has_removals = std::exchange(has_removals_, false);
  sync.request = {.kind = sys::FileIo::Kind::sync, .file = segment.file()};
  is_dirty_ = false;
  syncing_ = &sync;
  return true;
}

Status BlockStore::end(SegmentSync& sync) {
  syncing_ = nullptr;
  const Status& synced = sync.request.status;
  for (const PlacedRecord& block : sync.blocks) {
    if (synced.ok())
      acknowledge(block);
    else
      forget_unacknowledged(block.record.hash);
  }
  if (synced.ok()) return {};
  // What the kernel has dropped, it will not write.
  for (const PlacedRecord& block : std::exchange(parts_->unacknowledged, {}))
    forget_unacknowledged(block.record.hash);
  has_lost_removals_ = has_lost_removals_ || sync.has_removals || has_removals_;
  is_dirty_ = is_spoiled_ = has_removals_ = false;
  current_.reset();
  return synced;
}

bool BlockStore::is_acknowledged(BlockHash hash) const {
  const auto place = parts_->index.find(hash);
  return place && place->acknowledged;
}

bool BlockStore::may_be_replaced(BlockHash hash) const {
  const auto place = parts_->index.find(hash);
  return place && place->segment <= last_unread_;
}

bool BlockStore::is_being_synced(BlockHash hash) const {
  const auto place = parts_->index.find(hash);
  return place && syncing_ != nullptr &&
         std::ranges::any_of(syncing_->blocks, [&](const PlacedRecord& block) {
           return block.segment == place->segment && block.offset == place->offset;
         });
}

void BlockStore::acknowledge(const PlacedRecord& synced) {
  const auto place = parts_->index.find(synced.record.hash);
  if (!place) return;  // removed meanwhile
  const bool was_put_anew = place->segment >= synced.segment && place->offset != synced.offset;
  if (was_put_anew) return;
  parts_->index.put({synced, true});
  if (!place->acknowledged) report_there(synced.record.hash);
}

/// One that was leaving is still where it was.
void BlockStore::forget_unacknowledged(BlockHash hash) {
  auto place = parts_->index.find(hash);
  if (!place) return;
  if (place->acknowledged) {
    place->is_kept = false;
    return parts_->index.put(*place);
  }
  parts_->index.erase(hash);
  report_gone(hash);
}

// Room -------------------------------------------------------------------------------------------

std::uint64_t BlockStore::bytes_on_disk() const {
  std::uint64_t sum = 0;
  for (const auto& [number, segment] : parts_->segments) sum += segment.size();
  return sum;
}

// But not all of them, for a disk that others have filled: what a segment takes, and no more before
// a record was written; or one now and then, since those others may be stores that do the same.
Status BlockStore::free_oldest(const Record& record, const Status& why) {
  constexpr std::uint64_t kRefusals = 256;
  if (is_busy()) return error(Code::not_ready, "records are not synced that must be, first");
  const bool has_no_effect = freed_ >= std::max(2 * room_of(record), options_.segment_bytes);
  if (parts_->segments.empty() || (has_no_effect && ++refused_ % kRefusals != 0))
    return error(Code::exhausted,
                 cat(options_.directory, ": no space, after ", freed_,
                     " bytes were given up for a record of ", room_of(record)),
                 "free space on its file system, or give the store a directory on another one")
        .because(why);
  const std::uint64_t bytes = parts_->segments.begin()->second.size();
  TOWPATH_TRY(remove_oldest());
  freed_ += bytes;
  return files_.sync_directory(options_.directory);
}

/// The oldest go until the capacity has room for one more. `reused`: the last of them, which has
/// its file yet, unless somebody still reads from it.
Status BlockStore::make_room_for_segment(std::optional<Segment>& reused) {
  const auto lacks_room = [&](std::uint64_t freed) {
    return bytes_on_disk() - freed + options_.segment_bytes > options_.capacity_bytes;
  };
  while (!parts_->segments.empty() && lacks_room(0)) {
    const Segment& oldest = parts_->segments.begin()->second;
    const bool is_of_use = oldest.is_unread() && oldest.size() <= options_.segment_bytes;
    if (!is_of_use || lacks_room(oldest.size())) {
      TOWPATH_TRY(remove_oldest());
      continue;
    }
    TOWPATH_TRY(remove_unopened_before(oldest.name().number));
    reused = give_up_oldest();
  }
  return {};
}

// Its file first: as long as that is there, another life finds its blocks, also those that were
// removed or put anew since, if the segments that say so have gone before it.
Status BlockStore::remove_oldest() {
  const auto& [number, oldest] = *parts_->segments.begin();
  TOWPATH_TRY(remove_unopened_before(number));
  TOWPATH_TRY(remove_file(oldest.path()));
  (void)give_up_oldest();
  return {};
}

/// The segments before this one that could not be opened: a later life may read them, and what they
/// have may be removed by a record in this one.
Status BlockStore::remove_unopened_before(std::uint64_t number) {
  std::set<std::uint64_t>& unopened = parts_->unopened;
  while (!unopened.empty() && *unopened.begin() < number) {
    TOWPATH_TRY(remove_file(cat(options_.directory, "/", Segment::file_name(*unopened.begin()))));
    unopened.erase(unopened.begin());
  }
  return {};
}

/// Ok too where there is none.
Status BlockStore::remove_file(const std::string& path) {
  Status removed = files_.remove(path);
  return removed.code() == Code::not_found ? Status() : removed;
}

/// Its file is gone, or goes next.
Segment BlockStore::give_up_oldest() {
  const auto oldest = parts_->segments.begin();
  const std::uint64_t number = oldest->first;
  if (current_ == number) current_.reset(), is_spoiled_ = false;
  Segment gone = std::move(oldest->second);
  forget_segment(number);
  ++figures_.reclaimed_segments;
  return gone;
}

bool BlockStore::is_leaving(BlockHash hash) const {
  const auto known = parts_->index.find(hash);
  return known && known->segment < leaving_before_ && !known->is_kept;
}

void BlockStore::note_leaving() {
  leaving_before_ = 0;
  std::uint64_t newer = 0;
  for (auto segment = parts_->segments.rbegin(); segment != parts_->segments.rend(); ++segment) {
    if (newer >= options_.capacity_bytes / 2)
      leaving_before_ = std::max(leaving_before_, segment->first + 1);
    newer += segment->second.size();
  }
}

void BlockStore::forget_segment(std::uint64_t number) {
  for (const BlockHash gone : parts_->index.erase_segment(number)) report_gone(gone);
  parts_->segments.erase(number);
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
  all.blocks = parts_->index.size();
  all.segments = parts_->segments.size();
  all.bytes = bytes_on_disk();
  return all;
}

}  // namespace towpath::kv
