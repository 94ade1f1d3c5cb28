#include <cstring>
#include <utility>

#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/net/digest.h>
#include <towpath/run/file_engines.h>
#include <towpath/standard/keyed_files.h>
#include <towpath/sys/random.h>

namespace towpath::standard {

kv::BlockKey key_of(std::string_view name) {
  const net::Digest digest = net::sha256(as_bytes(name));
  kv::BlockKey key;
  std::memcpy(&key.hash, digest.data(), sizeof key.hash);
  std::memcpy(&key.rest, digest.data() + sizeof key.hash, sizeof key.rest);
  return key;
}

Result<std::unique_ptr<KeyedFiles>> KeyedFiles::open(const KeyedFilesOptions& options) {
  if (options.directory.empty())
    return error(Code::invalid_argument, "no directory to keep blocks in", "name one");
  auto kept = std::unique_ptr<KeyedFiles>(new KeyedFiles());
  TOWPATH_TRY(kept->files_, kv::store_files(options.directory));
  TOWPATH_TRY(auto device, run::open_file_device());
  TOWPATH_TRY(auto disk, kv::DiskTier::open(*kept->files_,
                                            {.directory = options.directory,
                                             .capacity_bytes = options.disk_bytes,
                                             .incarnation = sys::random_u64(),
                                             .direct = options.direct,
                                             .tier = 1},
                                            std::move(device)));
  // Who would only read is another one's, and would be surprised by the first put that is refused.
  TOWPATH_TRY(disk->store().read_only());
  const kv::BlockStore::Figures figures = disk->store().figures();
  kept->direct_refusal_ = options.direct ? figures.direct_refusal : "";
  kept->blocks_at_opening_ = figures.blocks;
  TOWPATH_TRY(kept->store_, kv::KeyedStore::open(std::move(disk)));
  return kept;
}

}  // namespace towpath::standard
