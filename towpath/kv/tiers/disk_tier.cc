#include <towpath/core/text.h>
#include <towpath/kv/tiers/disk_tier.h>

namespace towpath::kv {

Result<std::unique_ptr<DiskTier>> DiskTier::open(sys::FileSystem& files,
                                                 const BlockStoreOptions& options) {
  if (options.presence == nullptr || options.tier == 0)
    return error(Code::invalid_argument,
                 cat("a disk tier as tier ", options.tier,
                     options.presence == nullptr ? " that tells nobody what it has" : ""),
                 "name a Presence, and a tier of 1 or more: 0 is the host's");
  TOWPATH_TRY(auto store, BlockStore::open(files, options));
  return std::unique_ptr<DiskTier>(new DiskTier(std::move(store), options.tier));
}

Result<Digest> DiskTier::get(BlockHash hash, ByteSpan into) {
  const auto found = store_->find(hash);
  TOWPATH_TRY(store_->get(hash, into));
  return found->digest;
}

}  // namespace towpath::kv
