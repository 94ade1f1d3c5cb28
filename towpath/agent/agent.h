// Agent: one end of transfers. It knows its own registered memory, its peers and their memory, and
// moves bytes between them over backends; it carries notifications.
//
//   TOWPATH_TRY(auto agent, Agent::create({.name = "decode-0", .registry = &registry,
//                                          .clock = &clock}));
//   TOWPATH_TRY(agent->add_backend("shm"));
//   TOWPATH_TRY(auto pool, agent->register_region(region));
//   TOWPATH_TRY(agent->load_metadata(metadata_of_prefill));
//   TOWPATH_TRY(auto mine, agent->prepare(my_blocks));
//   TOWPATH_TRY(auto theirs, agent->prepare_remote("prefill-0", their_blocks));
//   TOWPATH_TRY(auto pull, agent->make_transfer(TransferOp::read, mine, theirs,
//                                               {.notification = to_bytes("got them")}));
//   TOWPATH_TRY(pull.post());
//   if (pull.wait() != Outcome::done) return pull.status();
//
// The agent has no thread of its own. Bytes move, deadlines are kept and notifications travel while
// somebody calls progress() or waits; wait_fd() is readable when there is something to do.
// `standard/` offers a thread that does so.
//
// Its backends are fixed in creation order; registrations cover the backends that exist at that
// time, so create backends first.
//
// Destroying the agent ends all transfers (cancelled), waits until they are quiesced as far as
// their backends can say, and releases all registrations; handles that outlive it answer not_ready.
// Threads that wait for one of its transfers come back first. What does not get quiesced stays
// alive, with its backend, until the process ends. Notifications that were accepted leave before,
// while their peers take some in each second, for up to AgentOptions::quiesce_timeout; a backend
// may wait on until what it was given has arrived.
//
// Without memory a call ends as operator new does (std::bad_alloc), which the C interfaces report
// as exhausted; a transfer under way ends as failed, and nothing that was made is lost to its end.
// A peer for whose message there was no memory in progress() is lost (peer_lost), as over a broken
// connection: load its metadata again.
//
// In a forked child the agent, its transfers and registrations are the parent's: calls answer
// not_ready (or nothing), and letting go of them changes nothing.
//
// Thread: any, for all of it. Calls on one Transfer's post() must not race each other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/agent/options.h>
#include <towpath/agent/transfer.h>
#include <towpath/core/clock.h>
#include <towpath/core/descriptor.h>
#include <towpath/memory/registrar.h>

namespace towpath::agent {

/// A backend that was considered for a transfer.
struct Candidate {
  std::string backend;
  bool possible = false;
  bool chosen = false;
  std::string reason;    ///< why chosen, why only possible, or why refused
  std::string path;      ///< the way that bytes would take, where it is known
  Duration estimate{0};  ///< what it should cost; 0: unknown
  /// How much longer than the estimate the slowest trial of such transfers took; 0: nobody knows,
  /// since fewer than two were timed: what a backend declares, or measured itself, has no spread.
  Duration margin{0};
  bool measured = false;  ///< the estimate rests on measurement, else on what the backend declares
};

/// Which backend moves the bytes, which were refused, and why. A value that prints itself.
struct Explanation {
  std::string what;  ///< "read 4 MiB in 64 segments, system <- system of prefill-0"
  std::vector<Candidate> candidates;  ///< in the order in which they were considered

  /// The chosen one, or null.
  const Candidate* chosen() const;
  /// A line per candidate.
  std::string to_string() const;
};

class AgentCore;
class EventSource;

class Agent final : public memory::Registrar {
 public:
  /// Errors: invalid_argument (no or too long a name, no registry or clock), exhausted
  /// (descriptors).
  static Result<std::unique_ptr<Agent>> create(const AgentOptions& options);
  ~Agent() override;

  const std::string& name() const override;
  const AgentIdentity& identity() const;
  /// Whether this process is a forked child of the one that made the agent.
  bool is_inherited() const noexcept;

  // ---- backends ----
  /// Errors: not_found, already_exists (one of a type), exhausted (kMaxInstances), or the
  /// backend's.
  Status add_backend(std::string_view type, const backend::Params& params = {});
  std::vector<std::string> backends() const override;
  bool has_backend(std::string_view type) const;
  /// Errors: not_found.
  Result<backend::Capabilities> capabilities(std::string_view type) const;

  // ---- memory ----
  Result<memory::Registration> register_region(
      memory::SharedRegion region, const memory::RegisterOptions& options = {}) override;
  /// The same for a list, such as the blocks of a pool: all of them, in their order, or none. Costs
  /// less than one by one. Errors: the first.
  Result<std::vector<memory::Registration>> register_regions(
      std::vector<memory::SharedRegion> regions, const memory::RegisterOptions& options = {});
  /// Registration::release() of each, at less than it costs one by one. Errors: one of theirs; what
  /// failed still stands for its registration.
  Status release(std::span<memory::Registration> registrations);
  /// What a backend knows of each descriptor (files: size, mode, mtime), nothing if it is not
  /// there. It may wait for a store, up to a minute; transfers go on meanwhile.
  Result<std::vector<std::optional<backend::Params>>> query(
      std::string_view backend, std::span<const RegionDescriptor> descriptors);

  // ---- metadata and peers ----
  /// What a peer must load to reach this agent's memory.
  /// Errors: not_found (a descriptor of `only` is not registered).
  Result<Bytes> metadata(const MetadataOptions& options = {}) const;
  /// Makes a peer known, or updates it: a full metadata replaces what was known, a partial one adds
  /// to it, and backends that either side has made since they met are connected. Metadata of
  /// another incarnation ends the old one's transfers as peer_lost. Of the same incarnation these
  /// change nothing else: a full one that was loaded already or is older than one that was, and a
  /// partial one that is older than a full one that was. Errors: corrupt or unsupported (not
  /// metadata of this format), invalid_argument (one's own), not_found (a partial metadata without
  /// connection info of an unknown peer), unavailable (no backend in common; the message says why
  /// each was refused).
  Result<AgentIdentity> load_metadata(ConstByteSpan metadata);
  /// All that was wanted of a peer is done: where nothing moves any more its loss is no news. It is
  /// reported as information, not as a warning, and not counted. Until metadata of another
  /// incarnation comes. Errors: not_found.
  Status expect_departure(std::string_view name);
  /// Forgets a peer; its transfers end as cancelled. Errors: not_found.
  Status forget_peer(std::string_view name);
  Result<PeerInfo> peer(std::string_view name) const;
  std::vector<PeerInfo> peers() const;
  /// Whether the peer is known, and there, and all of `list` lies in its regions. Errors:
  /// not_found, peer_lost.
  Status check_peer(std::string_view name, const DescriptorList* list = nullptr) const;

  // ---- transfers ----
  /// Errors: not_found (a descriptor lies in no registered region; its index and values are named).
  /// Errors also: out_of_range (an extent that goes past the end of 64-bit space).
  Result<PreparedList> prepare(const DescriptorView& local);
  /// `peer` may be the agent's own name: then the remote side is its own memory (files, mostly).
  /// Errors: as above, and not_found (peer), peer_lost.
  Result<PreparedList> prepare_remote(std::string_view peer, const DescriptorView& remote);
  /// Errors: those of the selections (segment_list.h), invalid_argument (sides swapped or
  /// unprepared), unsupported (no backend can; the message lists each with its reason), not_found
  /// (a backend that was asked for, or a region that went away since the lists were prepared).
  Result<Transfer> make_transfer(TransferOp op, const PreparedList& local,
                                 const PreparedList& remote, const TransferOptions& options = {});
  /// Prepares both sides for one transfer.
  Result<Transfer> create_transfer(TransferOp op, const DescriptorView& local,
                                   std::string_view peer, const DescriptorView& remote,
                                   const TransferOptions& options = {});
  /// Which backend would move this, and why, without making the transfer.
  Result<Explanation> explain(TransferOp op, const PreparedList& local, const PreparedList& remote,
                              const TransferOptions& options = {});

  // ---- notifications ----
  /// Errors: not_found, peer_lost, unsupported (no common backend carries them), exhausted (queue
  /// full), invalid_argument (too long).
  Status notify(std::string_view peer, ConstByteSpan message);
  /// Those that have arrived, oldest first; each is reported once.
  std::vector<Notification> take_notifications();
  /// As above; makes progress and sleeps until there is one or `timeout` has passed.
  std::vector<Notification> wait_notifications(Duration timeout);

  // ---- progress ----
  /// Does a bounded amount of work. True: there is more to do at once.
  bool progress();
  /// Readable when progress() has something to do, by whichever thread: an event loop that waits
  /// for transfers or messages watches an EventSource. Belongs to the agent.
  int wait_fd() const;
  /// Sleeps until there may be something to do, or `timeout` has passed, or wake().
  void wait_for_work(Duration timeout);
  /// One turn of a thread that keeps things moving in the background: progress() when nobody else
  /// makes any, else a nap; sleeps as wait_for_work() does when there is nothing to do. What others
  /// leave undone it takes up within about a quarter of a millisecond.
  void serve(Duration timeout);
  /// Makes a wait_for_work() or serve() in another thread return.
  void wake();

 private:
  friend class EventSource;
  explicit Agent(std::shared_ptr<AgentCore> core);
  std::shared_ptr<AgentCore> core_;
};

}  // namespace towpath::agent
