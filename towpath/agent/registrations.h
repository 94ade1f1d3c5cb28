// Registrations: the agent's own memory, what its backends made of it, and what its peers are given
// of that.
//
// Regions are registered and released some at a time under one lock, so that a thread that needs it
// waits no longer. While bytes of a region that is released still move, the lock is free.
//
// Locks: a backend's mutex is taken under this one's; never the peer book's.
// Thread: any.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <towpath/agent/metadata_encoder.h>
#include <towpath/agent/progress_engine.h>
#include <towpath/agent/read_only_memory.h>
#include <towpath/agent/region_index.h>
#include <towpath/memory/registrar.h>
#include <towpath/run/mutex.h>

namespace towpath::agent {

struct AgentMetadata;
class RegistrationCore;

class Registrations {
 public:
  /// All of them outlive it.
  Registrations(const AgentContext& context, const BackendSet& backends, ProgressEngine& engine)
      : context_(context), backends_(backends), engine_(engine) {}

  /// Peers are given keys of this backend from now on, if it has connection info. Before it is
  /// published, so that no region is registered with it unseen.
  void advertise(const BackendInstance& instance);
  /// And then: metadata names it from now on, and is newer than what was asked for in between.
  void note_published();

  /// The regions are moved from. All of them, or none. Errors: Agent::register_regions().
  Result<std::vector<memory::Registration>> add(std::span<memory::SharedRegion> regions,
                                                const memory::RegisterOptions& options);
  Status release(std::span<memory::Registration> registrations);
  Status release(std::span<RegistrationCore* const> registrations);

  /// What a peer must load to reach this memory. Errors: not_found (Agent::metadata()).
  Result<Bytes> metadata(const MetadataOptions& options);

  /// Finds the regions of `list`, into `side`. Errors: not_found, with the descriptor's index.
  Status resolve(const DescriptorView& list, ResolvedList& side);
  /// Errors: not_found (one that lies in no region, with its index).
  Status check_covers(const DescriptorList& list);

  /// The end of the agent: peers begin nothing on its memory any more. False: one of them stands
  /// still in the middle of something.
  bool revoke_all(BackendInstance& instance);
  /// And after it: what these backends, on which nothing moves, made of regions goes.
  void drop_memory(InstanceMask idle);

 private:
  static constexpr std::size_t kTogether = 32;  ///< regions under one lock
  /// What the registrations that the same backends took have in common.
  struct Shared;
  friend class RegistrationCore;
  /// A region that is about to be registered.
  struct Joining {
    RecordPtr record;
    InstanceMask offered_before = 0;
    InstanceMask taken = 0;  ///< backends that have it for this registration
    Status refusal;          ///< of the backend that was asked last
    Status failure;          ///< why a backend before did not take it
  };
  /// By which backends, and whether all of them must take them.
  struct Takers {
    InstanceMask named = 0;  ///< 0: any that takes the kind
    bool must = false;
  };
  /// A registration that is about to go.
  struct Leaving {
    RegistrationCore* registration = nullptr;
    InstanceMask last = 0;   ///< backends in which it is the last of its record
    InstanceMask moves = 0;  ///< of those, where somebody may still move its bytes
    Status status;
  };

  /// Puts what was made into `made`, on failure too: then it has to go when the lock is free again.
  Status add_some(std::span<memory::SharedRegion> regions, const memory::RegisterOptions& options,
                  ReadOnlyMemory& read_only, std::vector<memory::Registration>& made);
  Result<Takers> takers(const memory::RegisterOptions& options) const;
  Status find_records(std::span<const memory::SharedRegion> regions, ReadOnlyMemory& read_only,
                      std::span<Joining> all) TOWPATH_REQUIRES(mutex_);
  Status join(std::span<Joining> all, const Takers& by) TOWPATH_REQUIRES(mutex_);
  Status join(std::span<Joining> all, BackendInstance& instance, bool must)
      TOWPATH_REQUIRES(mutex_);
  /// `advertised`: peers are given keys of this backend.
  Status attach(MemoryRecord& record, BackendInstance& instance, bool advertised)
      TOWPATH_REQUIRES(mutex_, instance.mutex);
  void finish_joining(Joining& one, RegistrationCore& core, memory::SharedRegion& region)
      TOWPATH_REQUIRES(mutex_);
  Status no_taker(MemoryKind kind) const;
  void log_refusal(const BackendInstance& instance, MemoryKind kind, const Status& why)
      TOWPATH_REQUIRES(mutex_);
  std::shared_ptr<const Shared> shared_by(InstanceMask taken) TOWPATH_REQUIRES(mutex_);

  // One after the other; only the second waits, and without the lock.
  /// Nothing begins on the memory any more. What nobody moves goes at once. `pieces`: what peers
  /// are in the middle of.
  void revoke(std::span<Leaving> all, BackendInstance& instance,
              std::unique_ptr<backend::PeerPieces>& pieces) TOWPATH_REQUIRES(mutex_);
  void quiesce(std::span<Leaving> all, BackendInstance& instance, backend::PeerPieces* pieces);
  void drop_quiesced(std::span<Leaving> all, BackendInstance& instance) TOWPATH_REQUIRES(mutex_);
  Status finish_release(Leaving& one) TOWPATH_REQUIRES(mutex_);
  /// Whether it is the last of its record in the backend.
  bool leave(Leaving& one, const BackendInstance& instance) TOWPATH_REQUIRES(mutex_);
  /// Out of the backend; the others that have the record keep it.
  void take_out(MemoryRecord& record, const BackendInstance& instance) TOWPATH_REQUIRES(mutex_);
  /// Peers are given the keys of those that still have it.
  void advertise_rest(std::span<const Leaving> all) TOWPATH_REQUIRES(mutex_);
  void note_dropped(const Leaving& one, const BackendInstance& instance) TOWPATH_REQUIRES(mutex_);
  /// ok, or the peer that was in the middle of something for too long.
  Status wait_for(backend::PeerPieces* pieces) const;

  /// Calls `visit(MemoryRecord&)` for all whose memory may stand; for some twice.
  template <typename Visit>
  void each_record(Visit&& visit) TOWPATH_REQUIRES(mutex_) {
    for (const RegionEntry& own : regions_.entries()) visit(*own.record);
    for (const RecordPtr& record : leaving_) visit(*record);
  }

  Result<Bytes> make_metadata(const MetadataOptions& options) TOWPATH_REQUIRES(mutex_);
  AgentMetadata metadata_head(const MetadataOptions& options) const TOWPATH_REQUIRES(mutex_);
  Result<std::vector<const MemoryRecord*>> advertised_of(const DescriptorList& only)
      TOWPATH_REQUIRES(mutex_);

  const AgentContext& context_;
  const BackendSet& backends_;
  ProgressEngine& engine_;
  OwnMappings mappings_;

  mutable run::Mutex mutex_;
  RegionIndex regions_ TOWPATH_GUARDED_BY(mutex_);
  MetadataEncoder rows_ TOWPATH_GUARDED_BY(mutex_);
  std::shared_ptr<const Shared> last_shared_ TOWPATH_GUARDED_BY(mutex_);
  /// Kept alive, and known when their agent ends: memory of theirs has yet to be dropped.
  std::vector<RecordPtr> leaving_ TOWPATH_GUARDED_BY(mutex_);
  /// Of which the log knows that a backend refused regions: a bit for each kind.
  std::array<std::uint32_t, kMaxInstances> kinds_refused_ TOWPATH_GUARDED_BY(mutex_){};
  std::uint64_t generation_ TOWPATH_GUARDED_BY(mutex_) = 1;
  Bytes full_ TOWPATH_GUARDED_BY(mutex_);  // the full metadata of full_generation_
  std::uint64_t full_generation_ TOWPATH_GUARDED_BY(mutex_) = 0;
};

}  // namespace towpath::agent
