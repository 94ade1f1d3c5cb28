#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/connector/host_file_keeper.h>

namespace towpath::kv {
namespace {

constexpr TierIndex kMemory = 0, kFiles = 1;

}  // namespace

Result<std::unique_ptr<HostFileKeeper>> HostFileKeeper::make(HostFileKeeperParts parts) {
  const layout::PhysicalLayout& memory = parts.memory;
  TOWPATH_TRY(const std::uint64_t block_bytes, memory.config().block_bytes());
  if (!memory.is_fully_contiguous() || memory.config().format != layout::BlockFormat::nhd ||
      memory.config().alignment > 1 || memory.regions().front()->bytes().empty())
    return error(Code::invalid_argument, cat("blocks are kept in ", to_string(memory.layout())),
                 "use host memory, fully contiguous, nhd, of alignment 1");
  auto keeper = std::unique_ptr<HostFileKeeper>(new HostFileKeeper(std::move(parts)));
  keeper->block_bytes_ = block_bytes;
  const std::uint64_t slots = keeper->parts_.memory.config().num_blocks;
  TOWPATH_TRY(keeper->pool_, BlockPool::make({.slots = static_cast<SlotId>(slots),
                                              .presence = &keeper->presence_,
                                              .tier = kMemory}));
  if (keeper->parts_.store)
    for (const BlockHash hash : keeper->parts_.store->hashes()) keeper->presence_.add(hash, kFiles);
  return keeper;
}

HostFileKeeper::~HostFileKeeper() {
  if (const Status synced = sync(); synced.ok() && parts_.store) (void)parts_.store->checkpoint();
}

ByteSpan HostFileKeeper::bytes_of(SlotId slot) const {
  return parts_.memory.regions().front()->bytes().subspan(slot * block_bytes_, block_bytes_);
}

// Blocks that wait to be written hold their slots: those are written when room is short.
Result<std::vector<PartialBlock>> HostFileKeeper::room(SlotId count) {
  for (;;) {
    Result<std::vector<PartialBlock>> slots = pool_->allocate(count);
    if (slots.code() != Code::exhausted || to_write_.empty()) return slots;
    write_one();
  }
}

Status HostFileKeeper::keep(PartialBlock&& block, BlockHash hash) {
  const Digest digest = digest_of(bytes_of(block.slot()), hash, parts_.algorithm);
  TOWPATH_TRY(BlockRef kept, pool_->register_block(CompleteBlock(
                                 std::move(block), {.block = {.hash = hash}, .digest = digest})));
  if (parts_.store) to_write_.push_back(std::move(kept));
  return {};
}

Result<BlockRef> HostFileKeeper::hold(BlockHash hash) {
  std::vector<BlockRef> here = pool_->match({&hash, 1});
  if (here.empty()) return fetch(hash);
  const Digest& digest = here.front().identity().digest;
  if (digest_of(bytes_of(here.front().slot()), digest.salt, digest.algorithm) == digest) {
    ++figures_.from_memory;
    return std::move(here.front());
  }
  pool_->drop(hash);
  ++figures_.quarantined["digest mismatch in memory"];
  if (parts_.store && parts_.store->find(hash)) return fetch(hash);
  return error(Code::corrupt, cat("block ", hex(hash), " is not what was kept in memory"),
               "make the block anew; test the memory if this comes again");
}

/// From the store, which proves the bytes.
Result<BlockRef> HostFileKeeper::fetch(BlockHash hash) {
  const auto found = parts_.store ? parts_.store->find(hash) : std::nullopt;
  if (!found || found->digest.salt != hash) {
    presence_.remove(hash, kFiles);
    return error(Code::not_found, cat("no block ", hex(hash)), "make the block anew");
  }
  TOWPATH_TRY(std::vector<PartialBlock> slot, room(1));
  if (const Status got = parts_.store->get(hash, bytes_of(slot.front().slot())); !got.ok()) {
    presence_.remove(hash, kFiles);
    return got;
  }
  ++figures_.from_store;
  return pool_->register_block(
      CompleteBlock(std::move(slot.front()), {.block = {.hash = hash}, .digest = found->digest}));
}

void HostFileKeeper::write_one() {
  const BlockRef block = std::move(to_write_.front());
  to_write_.pop_front();
  const BlockIdentity& identity = block.identity();
  const Status put =
      parts_.store->put(identity.block.hash, identity.digest, bytes_of(block.slot()));
  if (put.ok()) {
    ++figures_.written;
    presence_.add(identity.block.hash, kFiles);
  } else {
    ++figures_.not_written;
    figures_.last_failure = put;
    if (put.code() == Code::corrupt) pool_->drop(identity.block.hash);
  }
  is_synced_ = false;
  look_after_store();
}

void HostFileKeeper::look_after_store() {
  const std::uint64_t reclaimed = parts_.store->figures().reclaimed_segments;
  if (reclaimed == reclaimed_) return;
  reclaimed_ = reclaimed;
  for (const BlockEvent& known : presence_.snapshot())
    if (known.tier == kFiles && !parts_.store->find(known.hash))
      presence_.remove(known.hash, kFiles);
}

bool HostFileKeeper::progress() {
  if (!to_write_.empty()) {
    write_one();
    return true;
  }
  if (!is_synced_) (void)sync();
  return false;
}

Status HostFileKeeper::sync() {
  while (!to_write_.empty()) write_one();
  if (is_synced_ || !parts_.store) return {};
  is_synced_ = true;
  const Status synced = parts_.store->sync();
  if (synced.ok()) return {};
  figures_.last_failure = synced;
  for (const BlockEvent& known : presence_.snapshot())
    if (known.tier == kFiles && !parts_.store->find(known.hash))
      presence_.remove(known.hash, kFiles);
  return synced;
}

BlockKeeper::News HostFileKeeper::take_news() {
  const Presence::Events events = presence_.take_events();
  News news{
      .is_anew = !std::exchange(is_told_, true) || events.some_were_lost, .stored = {}, .lost = {}};
  // Told is what is so now, whatever happened on the way.
  for (const BlockEvent& event : news.is_anew ? presence_.snapshot() : events.events)
    (has(event.hash) ? news.stored : news.lost).push_back(event.hash);
  return news;
}

HostFileKeeper::Figures HostFileKeeper::figures() const {
  Figures all = figures_;
  if (!parts_.store) return all;
  for (const auto& [reason, count] : parts_.store->figures().quarantined)
    all.quarantined[reason] += count;
  return all;
}

}  // namespace towpath::kv
