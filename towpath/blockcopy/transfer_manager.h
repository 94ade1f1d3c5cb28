// TransferManager: copies of blocks between caches, whatever memory they lie in and in whatever
// order: this process's, its devices', its drives' and stores', and its peers'.
//
//   TOWPATH_TRY(auto manager, TransferManager::create({.agent = &agent, .clock = &clock}));
//   TOWPATH_TRY(auto gpu, manager->register_layout(cache_on_gpu, {.tier = "g1"}));
//   TOWPATH_TRY(auto disk, manager->register_layout(cache_on_disk, {.tier = "g3"}));
//   TOWPATH_TRY(auto job, manager->copy({.source = gpu, .target = disk,
//                                        .blocks = {{0, 100, 16}}}));
//   job.wait();
//
// Layouts go by handles. A peer's come by import_package(); they are RemoteLayouts, which have no
// bytes, so that no copy ever takes a peer's address for one of this process. The agents' names
// distinguish their memories: a package of an agent named like this one, or like a peer that is
// another life, is refused; refresh() is how a restarted peer's new life is taken.
//
// A copy is cut into chunks. Some are under way at once, up to a limit that all copies share;
// chunks that need a bounce buffer wait for a slot of the manager's pool. The manager has no
// thread: bytes move and deadlines hold while somebody calls progress() or waits for a job.
//
// Destroying the manager cancels what is under way and waits until it is quiesced.
// Thread: loop; with the jobs it made. The agent may be driven elsewhere besides.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/blockcopy/route.h>
#include <towpath/core/clock.h>
#include <towpath/core/transfer_state.h>
#include <towpath/layout/physical_layout.h>
#include <towpath/layout/selection.h>
#include <towpath/memory/device_region.h>
#include <towpath/memory/registrar.h>

namespace towpath::blockcopy {

/// An agent, and device memory besides that no backend of it takes.
///
/// A device's own streams move its memory to and from the host without any backend, so a cache on a
/// GPU is of use on a machine whose agent cannot reach GPUs. What a backend takes is registered
/// with the agent as ever; device memory that none takes is kept here, known to no backend. Thread:
/// any.
class DeviceRegistrar final : public memory::Registrar {
 public:
  /// `agent` must outlive it.
  explicit DeviceRegistrar(memory::Registrar& agent) : agent_(agent) {}

  const std::string& name() const override { return agent_.name(); }
  std::vector<std::string> backends() const override { return agent_.backends(); }
  /// Errors: the agent's, but for `unsupported` device memory where no backend was named.
  Result<memory::Registration> register_region(
      memory::SharedRegion region, const memory::RegisterOptions& options = {}) override;

 private:
  memory::Registrar& agent_;
};

class CopyJob;
class CopyRunner;
struct OpenPackage;
class TransferManager;

/// Names a layout; never used again for another. `owner` is the incarnation of its agent.
struct LayoutHandle {
  std::uint64_t owner = 0;
  std::uint64_t id = 0;

  friend auto operator<=>(const LayoutHandle&, const LayoutHandle&) = default;
};
std::string to_string(const LayoutHandle& handle);

struct LayoutOptions {
  std::string tier;  ///< what the user calls it; peers are notified
  /// Which of the model's layers and heads this cache begins with: pipeline stages and
  /// tensor-parallel ranks. At most UINT32_MAX.
  std::uint64_t first_layer = 0;
  std::uint64_t first_head = 0;
};

struct LayoutInfo {
  LayoutHandle handle;
  LayoutOptions options;
  AgentIdentity agent;
  bool is_remote = false;
  layout::Location location;
};

struct CopyRequest {
  LayoutHandle source;
  LayoutHandle target;
  std::vector<layout::BlockRange> blocks;
  /// Of the model; as LayoutOptions::first_layer counts.
  layout::LayerRange layers = layout::LayerRange::all();
  /// Copies what two shards have in common of layers and heads; all else must be the same. Without
  /// it, layers and heads too.
  bool between_shards = false;
  /// The order in which the blocks lie, whatever their layout says; nothing: the layout's own. For
  /// an engine that writes some blocks in another order than its cache was built with.
  std::optional<layout::BlockFormat> source_format = std::nullopt;
  std::optional<layout::BlockFormat> target_format = std::nullopt;
  /// Layers end one by one, in order where nothing fails; else as it costs least.
  bool layer_by_layer = false;
  std::optional<Duration> timeout;           ///< nothing: the manager's
  std::optional<std::uint64_t> chunk_bytes;  ///< nothing: the manager's
  std::size_t most_chunks = SIZE_MAX;        ///< of this copy, under way at once; 1 or more
  /// Called within progress() when all of a layer is in place. Must not call the manager; may
  /// cancel the job.
  std::function<void(std::uint64_t layer)> on_layer;
  /// The same when blocks are in place, all layers of them. Not with layer_by_layer; where it goes
  /// by a bounce buffer, a block fits a slot.
  std::function<void(const layout::BlockRange& blocks)> on_blocks;
};

/// A copy under way. Dropping it cancels; what is under way drains within the manager. Without a
/// copy (made by default, or moved from) it has failed with not_ready.
class TransferJob {
 public:
  TransferJob() = default;
  TransferJob(TransferManager& manager, std::shared_ptr<CopyJob> job)
      : manager_(&manager), job_(std::move(job)) {}
  TransferJob(TransferJob&&) noexcept = default;
  TransferJob& operator=(TransferJob&& other) noexcept;
  ~TransferJob() { cancel(); }

  TransferState state() const;
  bool ended() const;
  Outcome outcome() const;
  /// Why it did not end as done.
  Status status() const;
  bool is_layer_done(std::uint64_t layer) const;
  /// After it ended: target blocks whose bytes are not all in place. All others are.
  std::vector<layout::BlockRange> not_in_place() const;
  Route route() const;
  std::uint64_t bytes_in_place() const;
  std::uint64_t chunks() const;

  /// Makes progress until it has ended or `timeout` has passed; the outcome, or none.
  Outcome wait(Duration timeout = Duration::max());
  /// The same until a layer is in place, or the job ended. Whether it is in place.
  bool wait_for_layer(std::uint64_t layer, Duration timeout = Duration::max());
  void cancel();

 private:
  TransferManager* manager_ = nullptr;  // lives while a job has not ended
  std::shared_ptr<CopyJob> job_;
};

struct BounceOptions {
  std::uint64_t slot_bytes = 4 * kMiB;  ///< rounded up to pages
  std::uint64_t slots = 8;              ///< at least 2, so that both hops may be under way
};

struct TransferManagerOptions {
  agent::Agent* agent = nullptr;                ///< must outlive the manager
  const Clock* clock = nullptr;                 ///< the agent's
  std::vector<memory::SharedDevice> devices{};  ///< for layouts in device memory
  BounceOptions bounce{};
  std::uint64_t chunk_bytes = 32 * kMiB;
  std::size_t credits = 8;  ///< chunks under way at once, of all copies
  /// Shorter pieces go by a kernel of the device where it reaches both ends; else those that change
  /// order by way of host memory.
  std::uint64_t short_piece_bytes = 4096;
  /// Of pieces about that long so many copies are made by either, to see which is faster here, and
  /// then the faster; 0: the bound decides.
  unsigned path_trials = 3;
  Duration default_timeout = std::chrono::seconds(30);
};

struct TransferFigures {
  std::uint64_t jobs = 0;
  std::uint64_t chunks_under_way = 0;
  std::uint64_t most_chunks_under_way = 0;
  std::uint64_t bounce_slots_in_use = 0;
  std::uint64_t most_bounce_slots_in_use = 0;
};

class TransferManager {
 public:
  /// Errors: invalid_argument (no agent or clock, a null device, no credits, slots), exhausted, or
  /// Registrar::register_region's.
  static Result<std::unique_ptr<TransferManager>> create(TransferManagerOptions options);
  ~TransferManager();
  TransferManager(const TransferManager&) = delete;
  TransferManager& operator=(const TransferManager&) = delete;

  // ---- layouts ----
  /// What to build layouts with: the agent, and device memory that no backend of it takes.
  memory::Registrar& registrar() { return registrar_; }
  /// Errors: invalid_argument (registered with another agent; a name too long).
  Result<LayoutHandle> register_layout(layout::PhysicalLayout layout, LayoutOptions options = {});
  /// Copies under way keep the memory until they are quiesced. Errors: not_found; invalid_argument
  /// (a peer's: unload()).
  Status unregister_layout(LayoutHandle handle);
  /// Errors: not_found.
  Result<LayoutInfo> info(LayoutHandle handle) const;
  /// The cache itself. Errors: not_found; denied (a peer's: its addresses are not of this process).
  Result<layout::PhysicalLayout> local_layout(LayoutHandle handle) const;

  // ---- peers ----
  /// All layouts of this agent, with its metadata.
  Result<Bytes> export_package() const;
  /// Makes a peer's layouts known, all or none. Errors: as open_package() and
  /// Agent::load_metadata(); already_exists (the name is this agent's own, or of a peer that is
  /// loaded).
  Result<std::vector<LayoutHandle>> import_package(ConstByteSpan package);
  /// The same for a peer that is loaded: a restarted one, or one whose layouts changed. What it had
  /// before is gone, but for those that are the same. Errors: as above; not_found.
  Result<std::vector<LayoutHandle>> refresh(ConstByteSpan package);
  /// Forgets a peer. Copies with it end as the agent ends its transfers. Errors: not_found.
  Status unload(const std::string& agent_name);

  // ---- copies ----
  /// Errors: not_found (a handle), invalid_argument (shapes that differ, blocks twice, no chunks,
  /// ...: as layout::plan(); a format that the layout cannot have), out_of_range (blocks,
  /// layers), exhausted (one layer of one block, or a block that becomes an object, does not fit a
  /// bounce slot), unsupported (a part of a block, or layer by layer, to objects: a store takes
  /// them whole).
  Result<TransferJob> copy(CopyRequest request);

  // ---- progress ----
  /// Does a bounded amount of work. True: there is more to do at once.
  bool progress();
  /// Sleeps until there may be something to do, or `timeout` has passed.
  void wait_for_work(Duration timeout);
  TransferFigures figures() const;
  const Clock& clock() const;

 private:
  struct Entry;  // layout_entry.h

  explicit TransferManager(std::unique_ptr<CopyRunner> copies);

  Result<const Entry*> find(LayoutHandle handle) const;
  Status check_new(const OpenPackage& package) const;
  Status check_incarnation(const AgentIdentity& agent) const;
  Result<std::vector<LayoutHandle>> take(OpenPackage package);

  agent::Agent& agent_;
  DeviceRegistrar registrar_;
  std::uint64_t next_id_ = 1;
  std::map<LayoutHandle, std::unique_ptr<const Entry>> layouts_;
  std::map<std::string, std::uint64_t> peers_;  // name, incarnation
  const std::unique_ptr<CopyRunner> copies_;    // the last: what is under way ends before the rest
};

/// Many copies of one manager, waited for as one: the ranks of a request, the groups of a hybrid
/// model's layers, a prompt's blocks from several tiers.
///
/// They have ended when each of them has, so that no byte of any of them moves any more; not when
/// the first has failed. A caller that wants no more of the others then cancels them. Dropping it
/// cancels, as dropping a TransferJob does. Thread: loop.
class TransferJobs {
 public:
  /// `manager`, which outlives all that has not ended, made the jobs.
  explicit TransferJobs(TransferManager& manager) : manager_(&manager) {}

  void add(TransferJob job) { jobs_.push_back(std::move(job)); }
  /// In the order in which they were added.
  std::span<const TransferJob> jobs() const noexcept { return jobs_; }

  std::size_t under_way() const;
  bool ended() const { return under_way() == 0; }
  /// None while something is under way; done where all are, also of none; else that of the first
  /// which ended otherwise.
  Outcome outcome() const;
  /// Whether one is known not to end as done, before the others have ended.
  bool is_lost() const { return first_lost() != jobs_.size(); }
  /// Of the first that did not end as done: which it is, and why.
  Status status() const;
  std::uint64_t bytes_in_place() const;

  /// Makes progress until all have ended, or `timeout` has passed; the outcome, or none.
  Outcome wait(Duration timeout = Duration::max());
  void cancel();

 private:
  /// jobs_.size(): there is none.
  std::size_t first_lost() const;

  TransferManager* manager_;
  std::vector<TransferJob> jobs_;
};

}  // namespace towpath::blockcopy
