// Blocks that go down to a disk tier and come back, beside fio and memcpy of as many bytes.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/layout/builder.h>
#include <towpath/run/file_engines.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/random.h>
#include <towpath/sys/temporary_directory.h>

#include "bench/fio.h"
#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr std::uint64_t kSalt = 1;
constexpr Duration kNap = std::chrono::milliseconds(10);

/// A cache of so many equal blocks, over a store of files that has room for some rounds of them.
class Tiers {
 public:
  Tiers(const std::string& directory, bool direct, std::uint64_t block_bytes, std::uint64_t blocks)
      : node_(must(standard::Node::open(
            {.name = "bench", .backends = {"loopback"}, .progress_thread = false}))),
        block_(block_bytes, std::byte{7}),
        digest_(kv::digest_of(block_, kSalt)),
        blocks_(blocks) {
    const layout::LayoutConfig config{.num_blocks = blocks,
                                      .num_layers = 1,
                                      .outer_dim = 2,
                                      .page_size = 16,
                                      .inner_dim = block_bytes / 64};
    auto disk = must(kv::DiskTier::open(files_,
                                        {.directory = directory,
                                         .capacity_bytes = 4 * blocks * block_bytes,
                                         .incarnation = sys::random_u64(),
                                         .direct = direct,
                                         .block_directory = &block_directory_,
                                         .tier = 1},
                                        must(run::open_file_device())));
    std::vector<std::unique_ptr<kv::BlockTier>> below;
    below.push_back(std::move(disk));
    cache_ = must(kv::TieredCache::make(
        {node_->clock(), block_directory_,
         must(layout::build_layout({.registrar = &node_->agent(),
                                    .config = config,
                                    .kind = layout::LayoutKind::fully_contiguous,
                                    .memory = memory::Allocation{.kind = MemoryKind::system}})),
         std::move(below)},
        {.batch_at_least = 1}));
  }

  /// Nanoseconds per byte until all blocks of a new generation are acknowledged. Making them is not
  /// timed.
  double offload() {
    names_.clear();
    for (std::uint64_t i = 0; i < blocks_; ++i) make(++last_);
    const Instant begin = node_->clock().now();
    must(cache_->flush());
    return per_byte(begin);
  }
  /// The same until all of the last generation are back, proven.
  double onboard() {
    if (names_.empty()) (void)offload();
    for (const kv::CachedBlock& block : names_) (void)cache_->pool().drop(block.hash);
    const Instant begin = node_->clock().now();
    kv::Promotion promotion = must(cache_->promote(names_));
    while (!promotion.ended())
      if (!cache_->progress()) cache_->wait_for_work(kNap);
    for (const kv::Promoted& one : promotion.take()) must(one.status);
    return per_byte(begin);
  }

 private:
  void make(kv::BlockHash hash) {
    auto slots = must(cache_->allocate(1));
    std::memcpy(must(cache_->layout().bytes({slots.front().slot(), 0, 0})).data(), block_.data(),
                block_.size());
    (void)must(
        cache_->register_block(kv::CompleteBlock(std::move(slots.front()), {{hash, {}}, digest_})));
    names_.push_back({hash, {}});
  }
  double per_byte(Instant since) const {
    return static_cast<double>((node_->clock().now() - since).count()) /
           static_cast<double>(blocks_ * block_.size());
  }

  sys::SystemFileSystem files_;
  std::unique_ptr<standard::Node> node_;
  kv::BlockDirectory block_directory_;
  std::unique_ptr<kv::TieredCache> cache_;
  const Bytes block_;  // K and V are neighbours: the slot is one piece
  const kv::Digest digest_;
  const std::uint64_t blocks_;
  kv::BlockHash last_ = 0;
  std::vector<kv::CachedBlock> names_;
};

/// Nanoseconds per byte, of memory that no cache holds.
Sample plain_copy(const Clock& clock, std::uint64_t bytes) {
  const auto from = std::make_shared<Bytes>(bytes, std::byte{1});
  const auto to = std::make_shared<Bytes>(bytes, std::byte{2});
  return timed(clock, {[from, to](std::uint64_t times) {
                         while (times-- > 0) std::memcpy(to->data(), from->data(), from->size());
                       },
                       static_cast<double>(bytes)});
}

struct Way {
  const char* name;
  TransferOp op;
  double (Tiers::*go)();
};
constexpr Way kWays[] = {{"offload", TransferOp::write, &Tiers::offload},
                         {"onboard", TransferOp::read, &Tiers::onboard}};

struct Road {
  const char* name;
  bool direct;
};
constexpr Road kRoads[] = {{"page cache", false}, {"O_DIRECT", true}};

struct Files {
  std::string directory;
  std::uint64_t bytes;  ///< of all blocks
  Status fio;           ///< whether it is there
};

/// It syncs as often as the tier, has as many blocks under way past the page cache, and like its
/// device registers nothing with the ring.
std::string fio_of(const Way& way, const Road& road, const Files& files,
                   std::uint64_t block_bytes) {
  const bool writes = way.op == TransferOp::write;
  const std::uint64_t most = writes ? kv::DiskTier::kMostWrites : run::kFileDeviceDepth;
  return fio_command({files.directory + "/fio", files.bytes},
                     {.op = way.op,
                      .block_bytes = block_bytes,
                      .depth = road.direct ? most : 1,
                      .direct = road.direct,
                      .registered = false,
                      .sync_bytes = writes ? kv::DiskTier::kSyncBytes : 0});
}

void measure(Bench& bench, const Way& way, const Road& road, const Files& files) {
  const sys::SystemClock clock;
  std::vector<Case> beside_fio, beside_memcpy;
  for (const std::uint64_t block_bytes : {64 * kKiB, kMiB}) {
    const auto tiers =
        std::make_shared<Tiers>(cat(files.directory, "/", way.name, road.direct, block_bytes),
                                road.direct, block_bytes, files.bytes / block_bytes);
    Case one{.name = cat("blocks of ", format_bytes(block_bytes)),
             .shown = Shown::gigabytes_per_second,
             .ours = [tiers, &way] { return ((*tiers).*way.go)(); }};
    one.reference = plain_copy(clock, files.bytes);
    beside_memcpy.push_back(one);
    one.command = fio_of(way, road, files, block_bytes);
    one.reference = {};
    if (files.fio.ok())
      one.reference = [command = one.command, &way] {
        return must(run_fio(command, way.op)).nanoseconds_per_byte;
      };
    beside_fio.push_back(std::move(one));
  }
  const std::string ours =
      cat(way.name, " of ", format_bytes(files.bytes), ", proven by XXH3-64, ", road.name);
  bench.measure({.title = cat(way.name, ", ", road.name, ", fio"),
                 .ours = ours,
                 .reference = files.fio.ok() ? "fio at random blocks of a file of that size, below"
                                             : cat("skipped: ", files.fio.to_string())},
                std::move(beside_fio));
  bench.measure(
      {.title = cat(way.name, ", ", road.name, ", memcpy"), .ours = ours, .reference = "memcpy"},
      std::move(beside_memcpy));
}

int run(Options options, const std::string& where) {
  if (options.rounds == 0) options.rounds = options.rounds_or(3, 7, 21);
  const auto here = must(sys::TemporaryDirectory::create(where));
  const Files files{.directory = here.path(),
                    .bytes = (options.effort == Effort::quick ? 64 : 256) * kMiB,
                    .fio = find_fio()};
  Bench bench(std::move(options));
  for (const Road& road : kRoads)
    for (const Way& way : kWays) measure(bench, way, road, files);
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  std::string where = "/var/tmp";
  auto options =
      towpath::bench::parse("Blocks that go down to a disk tier and come back.", {argc, argv},
                            status, {{"--dir", "where files are made (some 2 GiB)", &where}});
  return options ? towpath::bench::run(*std::move(options), where) : status;
}
