// How a BlockStore finds again what is there, and what it leaves for its next opening.
#include <algorithm>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/kv/disk/store_parts.h>
#include <towpath/wire/envelope.h>

namespace towpath::kv {
namespace {

constexpr const char* kIndexName = "index";
constexpr const char* kNewIndexName = "index.new";

/// What the index of a store can be at most, whose segments come to so many bytes: 40 of a block,
/// which has a page before it.
std::uint64_t longest_index(std::uint64_t segments, std::uint64_t bytes) {
  constexpr std::uint64_t kAround = 4096;
  return kAround + segments * kSegmentPage + bytes / 64;
}

/// Of the envelope that a file begins with, where files are all of one length.
Result<std::uint64_t> length_in(sys::File& file, std::uint64_t size) {
  Bytes begin(std::min<std::uint64_t>(size, wire::kHeaderBytes));
  TOWPATH_TRY(sys::read_exactly(file, begin, 0));
  TOWPATH_TRY(const wire::Header header,
              wire::read_header(begin, {wire::MessageType::block_index, 1, size}));
  return header.total_bytes();
}

Result<Bytes> read_index(sys::FileSystem& files, const std::string& directory,
                         std::uint64_t most_bytes) {
  TOWPATH_TRY(const auto file, files.open(cat(directory, "/", kIndexName), {.plain = true}));
  const bool is_slot = files.file_slots(directory).count > 0;
  TOWPATH_TRY(std::uint64_t size, file->size());
  if (is_slot) {
    TOWPATH_TRY(size, length_in(*file, size));
  }
  if (size > most_bytes)
    return error(Code::corrupt,
                 cat(size, " bytes, for segments that need no more than ", most_bytes));
  Bytes bytes(size);
  TOWPATH_TRY(sys::read_exactly(*file, bytes, 0));
  return bytes;
}

/// A segment that goes is a small part of the store, and one that is begun costs little beside it.
/// Where files are all of one length, so are segments; two of them are for the index.
BlockStoreOptions fitting(BlockStoreOptions options, const sys::FileSlots& slots) {
  if (slots.count > 2) {
    options.segment_bytes = slots.size_bytes;
    options.capacity_bytes = std::min(options.capacity_bytes, (slots.count - 2) * slots.size_bytes);
    return options;
  }
  constexpr std::uint64_t kSmall = std::uint64_t{16} << 20U;
  constexpr std::uint64_t kUsual = std::uint64_t{256} << 20U;
  constexpr std::uint64_t kMostDescriptors = 512;  // of 1,024, which many processes may have
  const std::uint64_t capacity = options.capacity_bytes;
  if (options.segment_bytes == 0)
    options.segment_bytes =
        std::max(kUsual, capacity / (options.direct ? kMostDescriptors / 2 : kMostDescriptors));
  options.segment_bytes =
      std::min(options.segment_bytes, std::max(capacity / 16, std::min(kSmall, capacity / 4)));
  return options;
}

}  // namespace

BlockStore::BlockStore(sys::FileSystem& files, BlockStoreOptions options,
                       std::unique_ptr<sys::FileDevice> device)
    : files_(files),
      options_(std::move(options)),
      device_(std::move(device)),
      parts_(std::make_unique<Parts>()) {}

BlockStore::~BlockStore() = default;

Result<std::unique_ptr<BlockStore>> BlockStore::open(sys::FileSystem& files,
                                                     const BlockStoreOptions& options,
                                                     std::unique_ptr<sys::FileDevice> device) {
  BlockStoreOptions fits = fitting(options, files.file_slots(options.directory));
  const std::uint64_t segment_bytes = fits.segment_bytes;
  if (options.directory.empty() || segment_bytes < 2 * kSegmentPage ||
      fits.capacity_bytes / 4 < segment_bytes)
    return error(Code::invalid_argument,
                 cat("a store in '", options.directory, "' with segments of ", segment_bytes,
                     " bytes, in ", options.capacity_bytes),
                 "name a directory, and give segments, four or more, room for some blocks");
  if (options.tier >= kMaxTiers)
    return error(Code::invalid_argument, cat("a store of blocks as tier ", options.tier),
                 cat("number tiers below ", kMaxTiers));
  const Status made = files.make_directories(options.directory);
  if (!made.ok() && made.code() != Code::denied) return made;
  if (!device) device = std::make_unique<sys::DirectFileDevice>();
  std::unique_ptr<BlockStore> store(new BlockStore(files, std::move(fits), std::move(device)));
  if (Status recovered = store->recover(); !recovered.ok()) {
    // There is no directory, since none could be made.
    return recovered.code() == Code::not_found && !made.ok() ? made : recovered;
  }
  return store;
}

Status BlockStore::recover() {
  TOWPATH_TRY(parts_->lock, lock_store(files_, {options_.directory, options_.incarnation}));
  // What a life that was killed did to names may be in memory alone: it gave the index, which knows
  // a block no more, its name, or took that of a segment which has the block.
  const Status settled = files_.sync_directory(options_.directory);
  TOWPATH_TRY(const std::vector<std::string> names, files_.list(options_.directory));
  std::vector<IndexedSegment> known = read_checkpoint(names);
  std::size_t blocks = 0;
  for (const IndexedSegment& segment : known) blocks += segment.blocks.size();
  parts_->index.make_room(blocks);
  for (const std::string& name : names) {
    const auto number = Segment::number_of(name);
    if (!number) continue;
    next_number_ = std::max(next_number_, *number + 1);
    const Status found = recover_segment(name, known);
    if (!found.ok()) figures_.reported.push_back(cat(name, ": ", found.message()));
    if (found.ok()) continue;
    const bool is_open = parts_->segments.contains(*number);
    if (!is_open && found.code() == Code::corrupt &&
        files_.remove(cat(options_.directory, "/", name)).ok())
      continue;
    last_unread_ = std::max(last_unread_, *number);
    if (!is_open) parts_->unopened.insert(*number);
  }
  if (unread_index_bytes_ > 0) last_unread_ = next_number_ - 1;
  drop_empty_segments();
  parts_->index.for_each([&](const BlockIndex::Place& place) { report_there(place.record.hash); });
  note_leaving();
  read_only_ = ask_to_write();
  // Room can be made, and memory comes back.
  if (read_only_.code() == Code::exhausted || read_only_.code() == Code::unavailable)
    read_only_ = {};
  has_lost_removals_ = read_only_.ok() && !settled.ok();
  return {};
}

// By writing. But a segment is begun when there is a record for it: the oldest may have to go. The
// same file says whether the page cache can be passed by: `lock` must not be opened again, since
// closing any opening of it gives up what this process holds by F_SETLK.
Status BlockStore::ask_to_write() {
  const SegmentName name{next_number_, options_.incarnation};
  const std::string path = cat(options_.directory, "/", Segment::file_name(name.number));
  TOWPATH_TRY(const auto file,
              files_.open(path, {.writable = true, .create = true, .exclusive = true}));
  if (options_.direct) {
    const auto probe = files_.open(path, {.direct = true, .plain = true});
    figures_.direct_refusal = probe.ok() ? (*probe)->direct_refusal() : probe.status().to_string();
  }
  const Status written = sys::write_exactly(
      *file, seal_segment_header({name, files_.file_slots(options_.directory).directory}), 0);
  TOWPATH_TRY(files_.remove(path));
  return written;
}

// Some lives end between a segment's begin and its first record.
void BlockStore::drop_empty_segments() {
  std::erase_if(parts_->segments, [&](const auto& entry) {
    const Segment& segment = entry.second;
    return segment.end() <= kSegmentPage && files_.remove(segment.path()).ok();
  });
}

std::vector<IndexedSegment> BlockStore::read_checkpoint(const std::vector<std::string>& names) {
  std::uint64_t segments = 0;
  std::uint64_t in_segments = 0;
  for (const std::string& name : names) {
    if (!Segment::number_of(name)) continue;
    const auto file = files_.open(cat(options_.directory, "/", name), {.plain = true});
    const auto size = file.ok() ? (*file)->size() : Result<std::uint64_t>(file.status());
    ++segments;
    if (size.ok()) in_segments = std::min(in_segments + *size, UINT64_MAX / 4);
  }
  const std::uint64_t most_bytes = longest_index(segments, in_segments);
  const Result<Bytes> bytes = read_index(files_, options_.directory, most_bytes);
  if (bytes.code() == Code::not_found) return {};
  const bool is_unread = bytes.code() == Code::io_error || bytes.code() == Code::exhausted ||
                         bytes.code() == Code::unavailable;
  if (is_unread) unread_index_bytes_ = most_bytes;
  Result<std::vector<IndexedSegment>> known =
      bytes.ok() ? open_index(*bytes) : Result<std::vector<IndexedSegment>>(bytes.status());
  if (known.ok()) return *std::move(known);
  figures_.reported.push_back(
      cat("the index is of no use, all segments are looked through: ", known.status().message()));
  return {};
}

// What the checkpoint knew of the segment, and then the records behind that. Its file may end
// before what the checkpoint says: what failed to be written at the end, or to be synced, is not
// there.
Status BlockStore::recover_segment(const std::string& file_name,
                                   std::vector<IndexedSegment>& known) {
  TOWPATH_TRY(Segment segment, Segment::open(files_, options_.directory, file_name));
  const auto indexed = std::ranges::find(known, segment.name(), &IndexedSegment::name);
  const bool is_indexed = indexed != known.end();
  const std::uint64_t number = segment.name().number;
  // Of those in the index all but the newest had ended, and there is nothing behind their ends.
  const bool had_ended = is_indexed && std::ranges::any_of(known, [&](const IndexedSegment& other) {
                           return other.name.number > number;
                         });
  const Status settled = had_ended ? Status() : segment.settle();
  if (!had_ended && settled.ok()) {
    TOWPATH_TRY(segment, Segment::open(files_, options_.directory, file_name));
  }
  if (is_indexed) {
    for (const IndexedBlock& block : indexed->blocks) {
      if (block.offset % kSegmentPage != 0 ||
          !range_fits(block.offset, room_of(block.record), segment.end()))
        continue;
      note(block.record, segment.name(), block.offset);
      ++figures_.from_index;
    }
  }
  if (options_.direct) figures_.direct_refusal = segment.go_direct(files_);
  Status scanned;
  if (had_ended)
    segment.note_end(indexed->end);
  else
    scanned = scan(segment, is_indexed ? indexed->end : 0, settled);
  if (scanned.ok()) segment.give_back_space(files_);
  parts_->segments.emplace(number, std::move(segment));
  return scanned;
}

// Proves the bytes too: after a loss of power a header may be there without them. Those that cannot
// be read now are held against the digest when somebody wants them, as those that the index knows.
Status BlockStore::scan(Segment& segment, std::uint64_t from, const Status& settled) {
  Bytes bytes;
  return segment.scan(from, settled, [&](const Record& record, std::uint64_t offset) {
    if (record.kind == RecordKind::block) {
      bytes.resize(record.length);
      if (segment.read(offset, bytes).ok() && !check_bytes(record.digest, bytes).ok()) {
        ++figures_.quarantined["torn"];
        // Whatever was there before under its hash is not what was put last, unless it is the same.
        const auto before = parts_->index.find(record.hash);
        if (before && before->record.digest != record.digest)
          (void)parts_->index.erase(record.hash);
        return;
      }
    }
    note(record, segment.name(), offset);
    ++figures_.from_scan;
  });
}

void BlockStore::note(const Record& record, const SegmentName& segment, std::uint64_t offset) {
  if (record.kind == RecordKind::removal)
    (void)parts_->index.erase(record.hash);
  else if (BlockIndex::can_name(offset))
    parts_->index.put({{record, segment.number, offset}, true});
}

// What it alone knows to be removed is there for the next opening, if it can be read by now. One
// that still cannot is as good as lost.
Status BlockStore::check_unread_index() {
  if (unread_index_bytes_ == 0) return {};
  const Result<Bytes> bytes = read_index(files_, options_.directory, unread_index_bytes_);
  if (bytes.ok() && open_index(*bytes).ok())
    return error(
        Code::io_error,
        "the index could not be read when the store was opened, and can be now: another in "
        "its place would not know what it knows to be removed",
        "open the store again");
  unread_index_bytes_ = 0;
  return {};
}

// Written beside the old one, and put in its place in one step.
Status BlockStore::checkpoint() {
  if (writing_ > 0) return error(Code::not_ready, cat(writing_, " records are being written"));
  TOWPATH_TRY(sync_records());
  if (!read_only_.ok()) return read_only_;
  TOWPATH_TRY(check_unread_index());
  std::vector<IndexedSegment> all;
  std::unordered_map<std::uint64_t, std::size_t> at;
  for (const auto& [number, segment] : parts_->segments) {
    // The next opening looks for more in it, and behind it for removals of what it finds.
    const bool is_behind_unopened = !parts_->unopened.empty() && number > *parts_->unopened.begin();
    if (segment.has_unread_pages() || is_behind_unopened) break;
    at[number] = all.size();
    all.push_back({segment.name(), segment.end(), {}});
  }
  parts_->index.for_each([&](const BlockIndex::Place& place) {
    if (const auto known = at.find(place.segment); known != at.end())
      all[known->second].blocks.push_back({place.record, place.offset});
  });
  const std::string fresh = cat(options_.directory, "/", kNewIndexName);
  (void)files_.remove(fresh);  // of a life that ended; whatever it is, nothing is written to it
  TOWPATH_TRY(const auto file,
              files_.open(fresh, {.writable = true, .create = true, .exclusive = true}));
  TOWPATH_TRY(sys::write_exactly(*file, seal_index(all), 0));
  TOWPATH_TRY(file->sync());
  TOWPATH_TRY(files_.rename({fresh, cat(options_.directory, "/", kIndexName)}));
  unsaved_bytes_ = 0;
  TOWPATH_TRY(files_.sync_directory(options_.directory));
  if (all.size() == parts_->segments.size()) has_lost_removals_ = false;
  return {};
}

}  // namespace towpath::kv
