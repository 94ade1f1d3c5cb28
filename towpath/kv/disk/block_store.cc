#include <algorithm>

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
  const auto known = index_.find(hash);
  if (known == index_.end()) return error(Code::not_found, cat("no block ", hex(hash)));
  Place& place = known->second;
  if (into.size() != place.record.length)
    return error(Code::invalid_argument, cat("block ", hex(hash), " has ", place.record.length,
                                             " bytes; room was given for ", into.size()));
  Status read = segments_.at(place.segment).read(place.offset, into);
  if (read.code() == Code::corrupt) return quarantine(hash, "short read", std::move(read));
  if (!read.ok()) return quarantine(hash, "unreadable", std::move(read));
  Status proven = check_bytes(place.record.digest, into);
  if (!proven.ok()) return quarantine(hash, "digest mismatch", std::move(proven));
  place.wanted = true;
  return {};
}

Status BlockStore::check_bytes(const Digest& digest, ConstByteSpan bytes) const {
  const Digest found = digest_of(bytes, digest.salt, digest.algorithm);
  if (found == digest) return {};
  return error(Code::corrupt, cat("the bytes are ", to_string(found), ", not ", to_string(digest)));
}

Status BlockStore::quarantine(BlockHash hash, const std::string& reason, Status cause) {
  ++figures_.quarantined[reason];
  const Code code = cause.code();
  const std::string path = segments_.at(index_.at(hash).segment).path();
  index_.erase(hash);
  report_gone(hash);
  return error(code, cat("block ", hex(hash), " in ", path, ": ", reason),
               "make the block anew; look at the drive if this comes again")
      .because(std::move(cause));
}

// Writing ----------------------------------------------------------------------------------------

Status BlockStore::put(BlockHash hash, const Digest& digest, ConstByteSpan bytes) {
  const std::uint64_t most = std::min(kMaxBlockBytes, options_.segment_bytes - 2 * kSegmentPage);
  if (bytes.empty() || bytes.size() > most)
    return error(Code::out_of_range, cat("a block of ", bytes.size(), " bytes"),
                 cat("use 1 to ", most, ", or larger segments"));
  if (const Status proven = check_bytes(digest, bytes); !proven.ok()) {
    ++figures_.quarantined["wrong before it was written"];
    return proven;
  }
  if (index_.contains(hash)) return {};
  return write({RecordKind::block, hash, digest, bytes.size()}, bytes);
}

Status BlockStore::remove(BlockHash hash) {
  const auto known = index_.find(hash);
  if (known == index_.end()) return error(Code::not_found, cat("no block ", hex(hash)));
  TOWPATH_TRY(write({.kind = RecordKind::removal, .hash = hash}, {}));
  index_.erase(hash);
  report_gone(hash);
  return {};
}

// A disk that is full has room again when the oldest segments have gone; but not all of them go for
// a disk that others have filled.
Status BlockStore::write(const Record& record, ConstByteSpan bytes) {
  const std::uint64_t room = room_of(record);
  TOWPATH_TRY(make_room(room));
  Result<std::uint64_t> offset = append(record, bytes);
  for (std::uint64_t freed = 0; offset.code() == Code::exhausted && !making_room_ &&
                                !segments_.empty() && freed < 2 * room;) {
    freed += segments_.begin()->second.end();
    TOWPATH_TRY(reclaim_oldest());
    offset = append(record, bytes);
  }
  if (!offset.ok()) return offset.status();
  if (record.kind == RecordKind::removal) return {};
  index_[record.hash] = {*current_, *offset, record, false, false};
  unacknowledged_.push_back(record.hash);
  return {};
}

Result<std::uint64_t> BlockStore::append(const Record& record, ConstByteSpan bytes) {
  if (!read_only_.ok())
    return error(Code::denied, cat(options_.directory, " can only be read")).because(read_only_);
  if (!current_) TOWPATH_TRY(begin_segment());
  Result<std::uint64_t> offset = segments_.at(*current_).append(record, bytes);
  if (!offset.ok()) {
    // What lies behind the last record is anyone's guess now: nothing is written there again.
    (void)sync();
    current_.reset();
  }
  return offset;
}

Status BlockStore::make_room(std::uint64_t bytes) {
  if (current_ && segments_.at(*current_).end() + bytes > options_.segment_bytes)
    TOWPATH_TRY(seal_segment());
  while (!making_room_ && segments_.size() > 1 && bytes_on_disk() + bytes > options_.capacity_bytes)
    TOWPATH_TRY(reclaim_oldest());
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
  segments_.emplace(name.number, *std::move(made));
  current_ = name.number;
  return {};
}

// With a checkpoint, so that never more than a segment is to be looked through. One that fails
// costs only time.
Status BlockStore::seal_segment() {
  TOWPATH_TRY(sync());
  current_.reset();
  if (const Status saved = checkpoint(); !saved.ok())
    figures_.reported.emplace_back(saved.message());
  return {};
}

// All blocks that are not acknowledged lie in the current segment: no other is begun before a sync.
Status BlockStore::sync() {
  Status synced = current_ ? segments_.at(*current_).sync() : Status();
  for (const BlockHash hash : unacknowledged_) {
    const auto known = index_.find(hash);
    if (known == index_.end() || known->second.acknowledged) continue;
    if (synced.ok() && known->second.segment == current_) {
      known->second.acknowledged = true;
      report_there(hash);
    } else {
      index_.erase(known);
      report_gone(hash);  // one that is carried over was there before
    }
  }
  unacknowledged_.clear();
  if (!synced.ok()) current_.reset();  // what the kernel has dropped, it will not write
  return synced;
}

// Room -------------------------------------------------------------------------------------------

std::uint64_t BlockStore::bytes_on_disk() const {
  std::uint64_t sum = 0;
  for (const auto& [number, segment] : segments_) sum += segment.end();
  return sum;
}

Status BlockStore::reclaim_oldest() {
  making_room_ = true;
  const std::uint64_t oldest = segments_.begin()->first;
  if (current_ == oldest) current_.reset();
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
