// A DiskTier with many writes under way is killed for real, again and again.
#include <csignal>
#include <deque>
#include <random>
#include <set>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/kv/disk/store_fixture.h>
#include <towpath/kv/tiers/disk_tier.h>
#include <towpath/run/file_engines.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::kv {
namespace {

using testing::bytes_of_block;
using testing::digest_of_block;

struct Put {
  explicit Put(BlockHash hash) : bytes(bytes_of_block(hash)) {
    task = {
        .kind = TierTask::Kind::put, .hash = hash, .digest = digest_of_block(hash), .bytes = bytes};
  }
  Put(const Put&) = delete;
  Put& operator=(const Put&) = delete;

  Bytes bytes;
  TierTask task;
};

/// Puts blocks without end, some of them together, and writes to `pipe` which are there for good.
[[noreturn]] void put_until_killed(BlockStoreOptions options, run::FileEngineKind kind, int pipe,
                                   BlockHash first) {
  constexpr std::size_t kTogether = 24;
  BlockDirectory block_directory;
  options.block_directory = &block_directory;
  options.tier = 1;
  sys::SystemFileSystem files;
  auto device = run::open_file_device(kind);
  if (!device.ok()) ::_exit(1);
  auto tier = DiskTier::open(files, options, *std::move(device));
  if (!tier.ok()) ::_exit(2);
  std::deque<Put> under_way;
  for (BlockHash hash = first;;) {
    for (; under_way.size() < kTogether; ++hash) (*tier)->begin(under_way.emplace_back(hash).task);
    if (!(*tier)->progress()) (*tier)->wait_for_work(std::chrono::milliseconds(10));
    for (; !under_way.empty() && under_way.front().task.has_ended; under_way.pop_front()) {
      const TierTask& put = under_way.front().task;
      if (!put.status.ok()) ::_exit(3);
      if (::write(pipe, &put.hash, sizeof put.hash) != ssize_t{sizeof put.hash}) ::_exit(4);
    }
  }
}

void kill_again_and_again(run::FileEngineKind kind) {
  static std::random_device seed;
  std::mt19937_64 random(seed());
  const auto directory = sys::TemporaryDirectory::create().value();
  sys::SystemFileSystem files;
  std::set<BlockHash> there;
  for (std::uint64_t life = 1; life <= 5; ++life) {
    const BlockStoreOptions options{
        .directory = directory.path(), .segment_bytes = 300'000, .incarnation = life};
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) put_until_killed(options, kind, ends[1], 10'000 * life);
    ::close(ends[1]);
    BlockHash hash = 0;
    for (std::uint64_t left = random() % 100; left > 0; --left) {
      ASSERT_EQ(::read(ends[0], &hash, sizeof hash), ssize_t{sizeof hash}) << "life " << life;
      there.insert(hash);
    }
    ::kill(child, SIGKILL);
    while (::read(ends[0], &hash, sizeof hash) == ssize_t{sizeof hash}) there.insert(hash);
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    const auto store = testing::open_store(files, options);
    ASSERT_TRUE(store);
    for (const BlockHash one : there)
      ASSERT_TRUE(testing::get_block(*store, one).ok()) << "life " << life << ", block " << one;
  }
}

TEST(DiskTierCrashTest, killed_with_many_writes_under_way_it_keeps_what_was_there_for_good) {
  kill_again_and_again(run::FileEngineKind::automatic);
  kill_again_and_again(run::FileEngineKind::threads);
}

}  // namespace
}  // namespace towpath::kv
