#include <algorithm>
#include <charconv>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/disk/segment_format.h>
#include <towpath/kv/tiers/object_index.h>

namespace towpath::kv {
namespace {

constexpr std::size_t kDigits = 2 * sizeof(BlockHash);
constexpr std::size_t kMostListed = std::size_t{1} << 24U;
constexpr std::size_t kMostPages = std::size_t{1} << 16U;  // also of pages without a block

}  // namespace

std::string object_digits(BlockHash hash) {
  std::string digits = hex(hash).substr(2);
  digits.insert(0, kDigits - std::min(digits.size(), kDigits), '0');
  return digits;
}

Result<std::unique_ptr<ObjectIndex>> ObjectIndex::make(std::unique_ptr<ObjectBucket> bucket,
                                                       const ObjectIndexOptions& options) {
  const std::uint64_t most =
      std::min<std::uint64_t>(options.bound_bytes / options.object_bytes, kNoSlot - 1);
  if (most == 0)
    return error(Code::invalid_argument,
                 cat("a bound of ", options.bound_bytes, " bytes for objects of ",
                     options.object_bytes, " each"),
                 "let it have room for one block at least");
  std::unique_ptr<ObjectIndex> made(new ObjectIndex(std::move(bucket), options));
  TOWPATH_TRY(made->objects_, BlockPool::make({.slots = static_cast<SlotId>(most),
                                               .policy = options.policy,
                                               .exact_order = true}));
  return made;
}

// Putting ----------------------------------------------------------------------------------------

Result<bool> ObjectIndex::admit(BlockHash hash, Place& place) {
  if (!failure_.ok()) return failure_;
  if (listing_ != Listing::done) return false;
  if (!place.room && !place.held) place.held = objects_->find(hash);
  if (!place.room && !place.held) place.room = make_room();
  return (place.room || place.held) && owed_.empty();
}

/// Nothing while all are held.
std::optional<PartialBlock> ObjectIndex::make_room() {
  std::vector<Evicted> evicted;
  auto rooms = objects_->allocate(1, &evicted);
  for (const Evicted& one : evicted) {
    ++evicted_;
    discard(one.identity.block.hash);
  }
  if (!rooms.ok()) return std::nullopt;
  return std::move(rooms->front());
}

void ObjectIndex::enter(BlockHash hash, PartialBlock&& room) {
  (void)objects_->register_block(CompleteBlock(std::move(room), {.block = {hash, {}}}));
  (void)options_.block_directory->add(hash, options_.tier);
}

void ObjectIndex::keep(BlockHash hash, Place& place) {
  if (place.room) enter(hash, std::move(*place.room));
  (void)options_.block_directory->add(hash, options_.tier);
  place = {};
}

void ObjectIndex::give_up(BlockHash hash, Place& place) {
  const bool is_new = place.room.has_value();
  place = {};
  if (is_new) discard(hash);
}

void ObjectIndex::meet(BlockHash hash) {
  if (listing_ != Listing::done || is_going(hash) || objects_->find(hash)) return;
  if (auto room = make_room()) enter(hash, std::move(*room));
}

// Removing ---------------------------------------------------------------------------------------

void ObjectIndex::forget(BlockHash hash) {
  (void)objects_->drop(hash);
  (void)options_.block_directory->remove(hash, options_.tier);
}

void ObjectIndex::discard(BlockHash hash) {
  forget(hash);
  if (owed_.insert(hash).second) to_ask_.push_back(hash);
}

void ObjectIndex::remove_some() {
  for (; !to_ask_.empty() && under_way_ < options_.depth; ++under_way_) {
    const BlockHash hash = to_ask_.back();
    to_ask_.pop_back();
    bucket_->remove(key_of(hash), [this, hash](const Status& removed) {
      --under_way_;
      if (removed.ok()) {
        owed_.erase(hash);
        return;
      }
      to_ask_.push_back(hash);
      failure_ = removed;
    });
  }
}

// Listing ----------------------------------------------------------------------------------------

std::string ObjectIndex::key_of(BlockHash hash) const {
  return cat(options_.prefix, object_digits(hash));
}

std::optional<BlockHash> ObjectIndex::hash_of(const std::string& key) const {
  if (key.size() != options_.prefix.size() + kDigits || !key.starts_with(options_.prefix))
    return std::nullopt;
  BlockHash hash = 0;
  const char* const end = key.data() + key.size();
  const auto read = std::from_chars(end - kDigits, end, hash, 16);
  if (read.ec != std::errc() || key_of(hash) != key) return std::nullopt;
  return hash;
}

void ObjectIndex::ask_for_page(const std::string& next) {
  if (next.empty()) pages_ = 0;
  listing_ = Listing::under_way;
  bucket_->list(options_.prefix, next, [this, next](Result<BucketPage> page) {
    Status taken = page.ok() ? take_page(*page, next) : page.status();
    if (taken.ok()) return;
    listing_ = Listing::wanted;
    listed_ = {};
    failure_ = std::move(taken);
  });
}

Status ObjectIndex::take_page(BucketPage& page, const std::string& asked) {
  for (BucketObject& object : page.objects) {
    const bool may_be_ours = object.bytes == options_.object_bytes || object.bytes == kSegmentPage;
    const auto hash = may_be_ours ? hash_of(object.key) : std::nullopt;
    if (hash) listed_.push_back({*hash, object.bytes, std::move(object.modified)});
  }
  if (listed_.size() > kMostListed || ++pages_ > kMostPages)
    return error(Code::exhausted,
                 cat("more than ", kMostListed, " objects or ", kMostPages,
                     " pages are listed under the prefix '", printable(options_.prefix), "'"),
                 "give the tier a prefix of its own");
  if (page.next.empty()) {
    end_listing();
    return {};
  }
  if (page.next == asked)
    return error(Code::corrupt,
                 cat("the list of '", printable(options_.prefix), "' goes on at '",
                     printable(page.next, 100), "', where it was asked to go on"),
                 "the store does not heed continuation-token: use another");
  ask_for_page(page.next);
  return {};
}

/// Youngest last: of more than there is room for, the oldest go.
void ObjectIndex::end_listing() {
  listing_ = Listing::done;
  std::ranges::stable_sort(listed_, {}, &ListedBlock::modified);
  for (const ListedBlock& block : listed_) {
    if (block.bytes == options_.object_bytes)
      meet(block.hash);
    else
      discard(block.hash);  // a record of a removal: no object says the same
  }
  listed_ = {};
}

bool ObjectIndex::progress() {
  const bool moved = bucket_->progress();
  if (!failure_.ok()) return moved;
  if (listing_ == Listing::wanted)
    ask_for_page({});
  else
    remove_some();
  return moved;
}

TierCapacity ObjectIndex::room() const {
  return {.blocks = objects_->registered(),
          .most_blocks = options_.bound_bytes / options_.object_bytes,
          .evicted = evicted_};
}

}  // namespace towpath::kv
