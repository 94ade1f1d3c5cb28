#include <towpath/core/text.h>
#include <towpath/kv/tiers/disk_tier.h>

namespace towpath::kv {

Result<std::unique_ptr<DiskTier>> DiskTier::open(sys::FileSystem& files,
                                                 const BlockStoreOptions& options) {
  if (options.block_directory == nullptr || options.tier == 0)
    return error(Code::invalid_argument,
                 cat("a disk tier as tier ", options.tier,
                     options.block_directory == nullptr ? " that tells nobody what it has" : ""),
                 "name a BlockDirectory, and a tier of 1 or more: 0 is the pool's");
  TOWPATH_TRY(auto store, BlockStore::open(files, options));
  return std::unique_ptr<DiskTier>(new DiskTier(std::move(store), options.tier));
}

void DiskTier::begin(TierTask& task) {
  const auto found = store_->find(task.hash);
  if (task.kind == TierTask::Kind::put)
    return task.end(store_->put(task.hash, task.digest, task.bytes));
  if (found) task.digest = found->digest;
  if (task.kind == TierTask::Kind::get) return task.end(store_->get(task.hash, task.bytes));
  task.end(found ? Status() : error(Code::not_found, cat("no block ", hex(task.hash))));
}

}  // namespace towpath::kv
