// PeerBook: the other agents that this one knows, by name: the paths to them, and their regions.
//
// A peer's regions are imported by backends when somebody asks for them. A peer that is replaced or
// forgotten leaves the book at once; the engine keeps it until nothing moves to or from it.
//
// Locks: a backend's mutex is taken under this one's; never that of the registrations.
// Thread: any.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/agent/progress_engine.h>
#include <towpath/run/mutex.h>

namespace towpath::agent {

struct AgentMetadata;

class PeerBook {
 public:
  /// All of them outlive it.
  PeerBook(const AgentContext& context, const BackendSet& backends, ProgressEngine& engine);

  /// The agent itself, as a peer of its own: reached over backends that reach back.
  const PeerPtr& self() const noexcept { return self_; }
  /// Opens the path to oneself over a backend that is about to be published, if it has one. Errors:
  /// the backend's.
  Status open_own(BackendInstance& instance);
  /// And closes it: the backend is not published after all.
  void close_own(BackendInstance& instance) noexcept;
  /// Or, once it is: transfers and notifications to oneself may go over it.
  void use_own(BackendInstance& instance);

  /// As Agent documents them.
  Result<AgentIdentity> load(ConstByteSpan bytes);
  Status expect_departure(std::string_view name);
  Status forget(std::string_view name);
  Result<PeerInfo> info(std::string_view name) const;
  std::vector<PeerInfo> all() const;

  /// By its name, which may be the agent's own. Errors: not_found.
  Result<PeerPtr> find(std::string_view name) const;
  /// Whether all of `list` lies in the regions of a peer that is not the agent itself.
  /// Errors: not_found, with the index.
  Status check_covers(const PeerPtr& peer, const DescriptorList& list) const;

  /// Finds the regions of `list`, into `side`: of a peer that is not the agent itself. All are
  /// imported at once, by the backend that would be taken if nothing speaks against it; others
  /// import them when they are chosen. Errors: not_ready (the agent was shut down), peer_lost,
  /// not_found, unavailable (no backend reaches one); with the descriptor's index.
  Status resolve(std::string_view name, const DescriptorView& list, PreparedSide& side);
  /// What one of the list's open_instances() has not imported yet. False: part of the list does not
  /// stand any more, or the agent, and nothing was done.
  bool import_rest(const PreparedSide& side, BackendInstance& instance);
  /// Why the backend has not imported all of the list; ok: it did, or was not asked.
  Status import_refusal(const ResolvedList& list, const BackendInstance& instance) const;

  /// The end of the agent: paths and what was imported over these backends, on which nothing moves.
  void close(InstanceMask idle);

 private:
  class Resolver;
  /// What import() works on, used again for each part of a list.
  struct ImportBuffers {
    std::vector<backend::Import> list;
    std::vector<MemoryRecord*> records;
  };

  Status check_identity(const AgentIdentity& identity) const;
  /// Errors: corrupt (it names a backend twice).
  Status check_backends(const AgentMetadata& metadata) const;
  Result<PeerPtr> find_locked(std::string_view name) const TOWPATH_REQUIRES(mutex_);
  Result<PeerPtr> meet(const AgentMetadata& metadata);
  void open_new_paths(const PeerPtr& peer, const AgentMetadata& metadata) TOWPATH_REQUIRES(mutex_);
  /// Why there is no path over the backend; ok: there is one.
  Status open_path(const PeerPtr& peer, BackendInstance& instance, ConstByteSpan connection_info);
  void use_path(Peer& peer, const BackendInstance& instance);
  void retire(const PeerPtr& peer, Outcome outcome, const Status& why) TOWPATH_REQUIRES(mutex_);
  PeerInfo info_of(const Peer& peer) const TOWPATH_REQUIRES(mutex_);

  std::vector<std::size_t> instances_of(const AgentMetadata& metadata) const;
  /// Returns the records that do not stand any more.
  std::vector<RecordPtr> update_regions(Peer& peer, const AgentMetadata& metadata,
                                        RemoteRegions newer) TOWPATH_REQUIRES(mutex_);
  void drop_import(const RecordPtr& record);
  /// By the first backend that does. Returns one that none could import; null: all were.
  const MemoryRecord* import_by_some(Peer& peer, std::span<const RegionEntry* const> entries)
      TOWPATH_REQUIRES(mutex_);
  void import(Peer& peer, BackendInstance& instance, std::span<const RegionEntry* const> entries,
              ImportBuffers& buffers) TOWPATH_REQUIRES(mutex_);
  void log_refusal(Peer& peer, const BackendInstance& instance, const MemoryRecord& record)
      TOWPATH_REQUIRES(mutex_);

  const AgentContext& context_;
  const BackendSet& backends_;
  ProgressEngine& engine_;
  const PeerPtr self_;

  mutable run::Mutex mutex_;
  std::map<std::string, PeerPtr, std::less<>> peers_ TOWPATH_GUARDED_BY(mutex_);
  std::vector<RecordPtr> stuck_ TOWPATH_GUARDED_BY(mutex_);  // kept alive: they never came to rest
};

}  // namespace towpath::agent
