// ConnectorNode: the worker's half of a KV connector with everything that it is given: an agent, a
// transfer manager, host memory, a store of files, and the engine's cache registered.
//
//   auto node = standard::ConnectorNode::open({.name_space = "llama-3-8b bf16",
//                                              .config = config, .kind = kind, .caches = regions,
//                                              .directory = "/nvme/kv"});
//   node->worker().start_step(orders);
//
// Files of unlike caches lie in folders of their own below `directory`: whatever is told here of
// the model, its share and its shape is part of the folder's name. Thread: loop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/kv/connector/host_file_keeper.h>
#include <towpath/kv/connector/worker.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/file.h>

namespace towpath::standard {

struct ConnectorNodeOptions {
  /// The model, its weights' version, the type of its elements: what makes bytes of one length
  /// another cache's.
  std::string name_space;
  layout::LayoutConfig config;  ///< of the engine's cache, of this rank
  layout::LayoutKind kind = layout::LayoutKind::layer_separate_block_second;
  /// The engine's memory, as many as the kind wants: one, or one per layer.
  std::vector<memory::SharedRegion> caches;
  std::uint32_t rank = 0;
  std::uint64_t first_layer = 0;  ///< of the model that this rank has
  std::uint64_t first_head = 0;
  std::uint64_t host_blocks = 1024;  ///< kept in memory
  std::string directory;             ///< empty: memory only
  std::uint64_t disk_bytes = 16 * kGiB;
};

class ConnectorNode {
 public:
  /// Errors: invalid_argument (shapes and regions that do not fit), exhausted, and those of opening
  /// the folder and registering memory.
  static Result<std::unique_ptr<ConnectorNode>> open(const ConnectorNodeOptions& options);

  kv::ConnectorWorker& worker() { return *worker_; }
  kv::HostFileKeeper::Figures kept() const { return keeper_->figures(); }
  /// Where this cache's files lie; empty: nowhere.
  const std::string& folder() const { return folder_; }

 private:
  ConnectorNode() = default;
  Result<kv::LayoutHandle> register_caches(const ConnectorNodeOptions& options);
  Result<std::unique_ptr<kv::HostFileKeeper>> make_keeper(const ConnectorNodeOptions& options);

  sys::SystemFileSystem files_;
  std::string folder_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<kv::TransferManager> manager_;
  kv::HostFileKeeper* keeper_ = nullptr;  // the worker's
  std::unique_ptr<kv::ConnectorWorker> worker_;
};

}  // namespace towpath::standard
