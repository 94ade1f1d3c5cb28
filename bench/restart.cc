// What it takes to open a store again: by how many blocks it has, beside reading and proving the
// file of its index, which is the least that opening can do. And what the memory of a process grows
// by, for each block.
#include <malloc.h>

#include <towpath/core/format.h>
#include <towpath/kv/blocks/block_directory.h>
#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/disk/index_format.h>
#include <towpath/kv/disk/segment.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/temporary_directory.h>

#include "bench/harness.h"

namespace towpath::bench {
namespace {

constexpr std::uint64_t kBlockBytes = 64 * kKiB;
constexpr std::uint64_t kSegmentBytes = 256 * kMiB;
constexpr double kOpenAimNs = 1e9;      // of a million blocks
constexpr double kMemoryAimBytes = 64;  // of a block

/// A store of so many blocks, of which only what opening reads is there: the segments' headers, and
/// the index. The blocks are holes in the files.
class Left {
 public:
  explicit Left(std::uint64_t blocks)
      : folder_(must(sys::TemporaryDirectory::create())), blocks_(blocks) {
    std::vector<kv::IndexedSegment> all;
    std::uint64_t state = 1;
    for (std::uint64_t made = 0; made < blocks;) {
      kv::IndexedSegment segment{{all.size() + 1, 7}, kv::kSegmentPage, {}};
      for (; made < blocks && segment.end < kSegmentBytes; ++made) {
        const kv::Record record{
            kv::RecordKind::block, mix(state), {.value = mix(state)}, kBlockBytes};
        segment.blocks.push_back({record, segment.end});
        segment.end += room_of(record);
      }
      write(kv::Segment::file_name(segment.name.number),
            kv::seal_segment_header({.name = segment.name}), segment.end);
      all.push_back(std::move(segment));
    }
    const Bytes index = seal_index(all);
    write("index", index, index.size());
  }

  std::unique_ptr<kv::BlockStore> open(kv::BlockDirectory& directory) {
    auto store = must(kv::BlockStore::open(files_, options(directory)));
    if (store->figures().from_index != blocks_) must(error(Code::internal, "blocks are missing"));
    return store;
  }
  Bytes index() {
    const auto file = must(files_.open(cat(folder_.path(), "/index"), {.plain = true}));
    Bytes bytes(must(file->size()));
    must(sys::read_exactly(*file, bytes, 0));
    return bytes;
  }

 private:
  kv::BlockStoreOptions options(kv::BlockDirectory& directory) const {
    return {.directory = folder_.path(),
            .segment_bytes = kSegmentBytes,
            .capacity_bytes = UINT64_MAX / 4,
            .incarnation = 8,
            .block_directory = &directory,
            .tier = 1};
  }
  static std::uint64_t mix(std::uint64_t& state) {
    return (state += 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
  }
  void write(const std::string& name, ConstByteSpan bytes, std::uint64_t size) {
    const auto file =
        must(files_.open(cat(folder_.path(), "/", name), {.writable = true, .create = true}));
    must(sys::write_exactly(*file, bytes, 0));
    must(file->resize(size));
  }

  sys::SystemFileSystem files_;
  const sys::TemporaryDirectory folder_;
  const std::uint64_t blocks_;
};

double time_of(const Clock& clock, const std::function<void()>& work) {
  const Instant begin = clock.now();
  work();
  return static_cast<double>((clock.now() - begin).count());
}

/// Both: the store's own, and what a lookup by hash needs.
double bytes_per_block(Left& left, std::uint64_t blocks) {
  const std::uint64_t before = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  kv::BlockDirectory directory;
  const auto store = left.open(directory);
  (void)directory.take_events();
  const std::uint64_t after = ::mallinfo2().uordblks + ::mallinfo2().hblkhd;
  return static_cast<double>(after - before) / static_cast<double>(blocks);
}

int run(Options options) {
  const sys::SystemClock clock;
  Bench bench(std::move(options));
  std::vector<Case> times, sizes;
  const std::uint64_t most = bench.options().effort == Effort::full ? 10'000'000 : 1'000'000;
  for (std::uint64_t blocks = 10'000; blocks <= most; blocks *= 10) {
    const auto left = std::make_shared<Left>(blocks);
    const auto million = static_cast<double>(blocks) / 1e6;
    times.push_back({.name = cat(blocks, " blocks"),
                     .ours =
                         [&clock, left] {
                           kv::BlockDirectory directory;
                           std::unique_ptr<kv::BlockStore> store;
                           return time_of(clock, [&] { store = left->open(directory); });
                         },
                     .reference =
                         [&clock, left] {
                           return time_of(clock, [&] { (void)kv::digest_of(left->index(), 0); });
                         },
                     .aim = {.value_at_most = kOpenAimNs * million}});
    sizes.push_back({.name = cat(blocks, " blocks"),
                     .shown = Shown::count,
                     .ours = [left, blocks] { return bytes_per_block(*left, blocks); },
                     .aim = {.value_at_most = kMemoryAimBytes}});
  }
  bench.measure({.title = "a store opens again",
                 .ours = "BlockStore::open(), until each block is in the directory of blocks",
                 .reference = "reading the file of its index, and digesting it"},
                std::move(times));
  bench.measure({.title = "memory of a block at rest",
                 .ours = "bytes for each: the store's index, and the directory of blocks",
                 .reference = ""},
                std::move(sizes));
  return bench.finish();
}

}  // namespace
}  // namespace towpath::bench

int main(int argc, char** argv) {
  int status = 0;
  auto options =
      towpath::bench::parse("What a store costs that opens again.", {argc, argv}, status);
  return options ? towpath::bench::run(*std::move(options)) : status;
}
