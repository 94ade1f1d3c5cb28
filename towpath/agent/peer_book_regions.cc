// PeerBook: the regions of peers, as their metadata advertises them and as backends reach them.
#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include <towpath/agent/metadata.h>
#include <towpath/agent/peer_book.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>

namespace towpath::agent {

/// Lives while its maker holds the book's mutex, which clang cannot follow through
/// ResolvedList::Resolver.
class PeerBook::Resolver final : public ResolvedList::Resolver {
 public:
  Resolver(PeerBook& book, Peer& peer) : book_(book), peer_(peer) {}

  Result<RecordPtr> resolve(MemoryKind kind, const Descriptor& what) override {
    const RegionEntry* const found = peer_.regions.find(kind, what);
    if (found == nullptr)
      return error(Code::not_found,
                   cat(to_string(kind, what), " lies in no registered region of ",
                       to_string(peer_.identity)),
                   "load a newer metadata of the peer");
    if (found->record->instances == 0) {
      if (found->record->unasked == 0) return out_of_reach(*found->record);
      wanted_.push_back(found);
    }
    return found->record;
  }

  std::optional<Useless> settle() override TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
    if (wanted_.empty()) return std::nullopt;
    const MemoryRecord* const useless = book_.import_by_some(peer_, wanted_);
    if (useless == nullptr) return std::nullopt;
    return Useless{useless, out_of_reach(*useless)};
  }

 private:
  Status out_of_reach(const MemoryRecord& record) const {
    const Status last = record.refusals.empty() ? Status() : record.refusals.back().second;
    return error(Code::unavailable, cat(to_string(record.region), " of ", to_string(peer_.identity),
                                        " can be reached by no backend"))
        .because(last);
  }

  PeerBook& book_;
  Peer& peer_;
  std::vector<const RegionEntry*> wanted_;  // stay where they are: nothing is loaded meanwhile
};

Status PeerBook::resolve(std::string_view name, const DescriptorView& list, PreparedSide& side) {
  run::MutexLock lock(mutex_);
  TOWPATH_TRY(context_.check_open());
  TOWPATH_TRY(side.peer, find_locked(name));
  TOWPATH_TRY(check_not_lost(*side.peer));
  Resolver resolver(*this, *side.peer);
  return side.list.assign(list, resolver);
}

Status PeerBook::check_covers(const PeerPtr& peer, const DescriptorList& list) const {
  run::MutexLock lock(mutex_);
  for (std::uint64_t i = 0; i < list.size(); ++i) {
    if (!peer->regions.covers(list.kind(), list.at(i)))
      return error(Code::not_found, cat("descriptor ", i, ": ", to_string(list.kind(), list.at(i)),
                                        " lies in no region of ", printable(peer->identity.name)));
  }
  return {};
}

/// Which instance each backend of the metadata is here; kMaxInstances: none.
std::vector<std::size_t> PeerBook::instances_of(const AgentMetadata& metadata) const {
  std::vector<std::size_t> instances;
  for (const AgentMetadata::Backend& there : metadata.backends) {
    const auto instance = backends_.find(there.name);
    instances.push_back(instance.ok() ? (*instance)->index : kMaxInstances);
  }
  return instances;
}

std::vector<RecordPtr> PeerBook::update_regions(Peer& peer, const AgentMetadata& metadata,
                                                RemoteRegions newer) {
  newer.finish(instances_of(metadata), peer.reachable.load());
  std::vector<RecordPtr> gone = peer.regions.update(std::move(newer), metadata.partial);
  peer.generation = std::max(peer.generation, metadata.generation);
  if (!metadata.partial) {
    peer.full_generation = metadata.generation;
    peer.full_reachable = peer.reachable.load();
  }
  context_.note_memory_gone();  // before any memory goes: a post from now on checks its records
  return gone;
}

// The peer took a region back: what still moves its bytes ends as failed. Its record is stale, so
// nobody imports it any more.
void PeerBook::drop_import(const RecordPtr& record) {
  const Status why = error(Code::not_found,
                           cat(to_string(record->region), " is no longer in the peer's metadata"));
  const auto touches = [&](const TransferCore& transfer) { return transfer.touches(record.get()); };
  for (const auto& instance : backends_.all()) {
    if ((record->instances & instance_bit(instance->index)) == 0) continue;
    if (engine_.quiesce(*instance, touches, Outcome::failed, why)) {
      engine_.with(*instance, [&]() TOWPATH_REQUIRES(instance->mutex) {
        record->memory.drop(instance->index);
      });
    } else {
      run::MutexLock lock(mutex_);
      stuck_.push_back(record);
    }
  }
}

namespace {

constexpr std::size_t kAtOnce = 8192;  // for so many others wait, who want the same backend

/// Calls `work(part)` for up to kAtOnce entries at once.
template <typename Work>
void in_parts(std::span<const RegionEntry* const> entries,
              Work&& work) TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
  while (!entries.empty()) {
    const std::size_t size = std::min(entries.size(), kAtOnce);
    work(entries.first(size));
    entries = entries.subspan(size);
  }
}

}  // namespace

// On first use: most regions of a peer are never asked for, and most of those by one backend only.
const MemoryRecord* PeerBook::import_by_some(Peer& peer,
                                             std::span<const RegionEntry* const> entries) {
  const MemoryRecord* useless = nullptr;
  const std::vector<BackendInstance*> soonest_first = backends_.soonest_first();
  ImportBuffers buffers;
  in_parts(entries, [&](std::span<const RegionEntry* const> part) TOWPATH_REQUIRES(mutex_) {
    std::vector<const RegionEntry*> left;
    for (BackendInstance* const instance : soonest_first) {
      import(peer, *instance, part, buffers);
      const auto is_left = [](const RegionEntry* entry) { return entry->record->instances == 0; };
      if (std::ranges::none_of(part, is_left)) return;
      std::vector<const RegionEntry*> refused;
      std::ranges::copy_if(part, std::back_inserter(refused), is_left);
      left = std::move(refused);
      part = left;
    }
    if (useless == nullptr) useless = part.front()->record.get();
  });
  return useless;
}

bool PeerBook::import_rest(const PreparedSide& side, BackendInstance& instance) {
  run::MutexLock lock(mutex_);
  if (context_.is_closed()) return false;
  std::vector<const RegionEntry*> entries;
  for (const RecordPtr& record : side.list.records()) {
    if (record->stale) return false;
    if ((record->unasked & instance_bit(instance.index)) == 0) continue;
    entries.push_back(side.peer->regions.entry_of(*record));
    TOWPATH_CHECK(entries.back() != nullptr, "a peer's record that stands, and not in its regions");
  }
  ImportBuffers buffers;
  in_parts(entries, [&](std::span<const RegionEntry* const> part)
                        TOWPATH_REQUIRES(mutex_) { import(*side.peer, instance, part, buffers); });
  side.list.look_again();
  return true;
}

void PeerBook::import(Peer& peer, BackendInstance& instance,
                      std::span<const RegionEntry* const> entries, ImportBuffers& buffers) {
  const InstanceMask bit = instance_bit(instance.index);
  auto& [list, records] = buffers;
  list.clear();
  records.clear();
  list.reserve(entries.size());
  records.reserve(entries.size());
  for (const RegionEntry* const entry : entries) {
    MemoryRecord& record = *entry->record;
    if ((record.unasked & bit) == 0) continue;
    record.unasked &= ~bit;
    list.push_back({.region = &record.region, .key = peer.regions.key_of(*entry, instance.index)});
    records.push_back(&record);
  }
  if (list.empty()) return;
  engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
    instance.backend->import_memories(*peer.paths[instance.index].connection, list);
  });
  for (std::size_t i = 0; i < list.size(); ++i) {
    MemoryRecord& record = *records[i];
    auto& made = list[i].memory;
    if (made.ok()) {
      if ((*made)->is_read_only) context_.has_read_only.store(true, std::memory_order_relaxed);
      record.memory[instance.index] = *std::move(made);
      record.instances |= bit;
    } else {
      record.refusals.emplace_back(static_cast<std::uint32_t>(instance.index), made.status());
      log_refusal(peer, instance, record);
    }
  }
}

Status PeerBook::import_refusal(const ResolvedList& list, const BackendInstance& instance) const {
  run::MutexLock lock(mutex_);
  for (const RecordPtr& record : list.records()) {
    if (const Status* const why = record->refusal_of(instance.index))
      return error(Code::unavailable, std::string(why->message())).because(*why);
  }
  return {};
}

// Once for a peer: its regions are many, and mostly alike. What is slow for a reason is logged.
void PeerBook::log_refusal(Peer& peer, const BackendInstance& instance,
                           const MemoryRecord& record) {
  if ((peer.refusal_advertised & instance_bit(instance.index)) != 0) return;
  peer.refusal_advertised |= instance_bit(instance.index);

  context_.log.warning("a backend cannot reach a peer's memory, others are tried",
                       {{"peer", to_string(peer.identity)},
                        {"backend", instance.name},
                        {"region", to_string(record.region)},
                        {"why", record.refusals.back().second.to_string()}});
}

}  // namespace towpath::agent
