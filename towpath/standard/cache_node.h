// CacheNode: an agent, a transfer manager, and a keeper of blocks in host memory, with files and
// objects below it: what the node of an engine's connector and a served cache have in common.
//
// Files of unlike caches lie in folders of their own below `directory`, objects of theirs below
// prefixes: whatever is reported here of the model, its share and its shape is part of that name.
// Thread: one at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/kv/connector/tiered_keeper.h>
#include <towpath/kv/peers/known_peers.h>
#include <towpath/run/worker.h>
#include <towpath/standard/connector_options.h>
#include <towpath/standard/standard.h>
#include <towpath/standard/stderr_sink.h>
#include <towpath/sys/file.h>

namespace towpath::standard {

/// The same for equal blocks of equal shares, and for no others: those of one cache meet under it.
std::string cache_name(kv::CacheShare share);

/// The agent of a server that keeps the cache of this name.
std::string server_name(const std::string& cache);

class CacheNode {
 public:
  enum class Role : std::uint8_t {
    engine,
    server,  ///< at `options.server`: what engines keep is taken from them
  };
  /// Errors: invalid_argument (no memory; peers and a server), exhausted, those of the backends, of
  /// configure(), and of opening the devices that the engine's caches lie on.
  /// `metrics`: where telemetry is on, its figures go there, with the agent as label, and the
  /// caller serves them; null: to an endpoint of its own, where one is asked for. They outlive it.
  static Result<std::unique_ptr<CacheNode>> open(const ConnectorNodeOptions& options,
                                                 Role role = Role::engine,
                                                 telemetry::Metrics* metrics = nullptr);

  Node& node() noexcept { return *node_; }
  const Clock& clock() const noexcept { return node_->clock(); }
  blockcopy::TransferManager& manager() noexcept { return *manager_; }
  /// Where its files lie; empty: it has none.
  const std::string& folder() const noexcept { return folder_; }

  /// Once; the node outlives it. Errors: those of opening the folder and the objects, and of
  /// registering memory.
  Result<std::unique_ptr<kv::TieredKeeper>> make_keeper();
  bool has_peers() const noexcept { return !meeting_.rendezvous.empty(); }
  /// They are met from now on, as the keeper makes progress. Errors: those of the rendezvous.
  Status meet_peers(kv::TieredKeeper& keeper) const;
  /// A thread that calls `serve`, which is true while there is more to do at once, and otherwise
  /// sleeps until a peer asks; for what comes by the rendezvous it looks now and then. It ends
  /// before the node. Errors: exhausted.
  Result<run::Worker> start_serving(const std::string& name, std::function<bool()> serve);

 private:
  /// How those of one cache find each other.
  struct Meeting {
    std::string rendezvous;  // empty: there are no others
    std::string name;        // of this one there
    std::vector<std::string> others{};
    std::vector<std::string> backends{};
    std::string group{};  // with a server; else empty
  };
  using Tiers = std::vector<std::unique_ptr<kv::BlockTier>>;

  CacheNode(const ConnectorNodeOptions& options, Role role, Meeting meeting,
            const Settings& settings)
      : options_(options), role_(role), meeting_(std::move(meeting)), sink_(settings) {}
  telemetry::Log log() { return {sink_, clock(), "connector"}; }
  static Result<Meeting> meeting_of(const ConnectorNodeOptions& options, Role role);
  Result<layout::PhysicalLayout> kept_memory();
  Result<Tiers> tiers_below(kv::BlockDirectory& block_directory);
  Result<std::unique_ptr<kv::BlockTier>> open_files(kv::BlockDirectory& block_directory);
  kv::KeeperPeers keeper_peers();

  const ConnectorNodeOptions options_;
  const Role role_;
  const Meeting meeting_;
  StderrSink sink_;
  std::shared_ptr<sys::FileSystem> files_;  // with `options_.directory`: null until it is opened
  std::string folder_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<blockcopy::TransferManager> manager_;
};

}  // namespace towpath::standard
