// A DiskTier with many writes under way is killed for real: ten times in each way, and again with
// --gtest_repeat, as `./dev soak` has it.
#include <csignal>
#include <deque>
#include <random>
#include <set>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/kv/disk/block_store.h>
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
  auto files = store_files(options.directory);
  auto device = run::open_file_device(kind);
  if (!files.ok() || !device.ok()) ::_exit(1);
  auto tier = DiskTier::open(**files, options, *std::move(device));
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

/// A directory, or a file of a fixed size, which is a drive.
enum class Place : std::uint8_t { directory, drive };

constexpr std::uint64_t kLives = 5;  // of a store
constexpr std::uint64_t kLargeDrive = std::uint64_t{64} << 20U;

void make_drive(const std::string& path) {
  sys::SystemFileSystem files;
  auto file = files.open(path, {.writable = true, .create = true}).value();
  ASSERT_TRUE(file->resize(kLargeDrive).ok());
}

/// One life: `there` has what was put for good in this and the earlier ones.
void live_and_die(const BlockStoreOptions& options, run::FileEngineKind kind,
                  std::uint64_t puts_seen, std::set<BlockHash>& there) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) put_until_killed(options, kind, ends[1], 10'000 * options.incarnation);
  ::close(ends[1]);
  BlockHash hash = 0;
  for (std::uint64_t left = puts_seen; left > 0; --left) {
    ASSERT_EQ(::read(ends[0], &hash, sizeof hash), ssize_t{sizeof hash});
    there.insert(hash);
  }
  ::kill(child, SIGKILL);
  // What it still said before it died is there, too.
  while (::read(ends[0], &hash, sizeof hash) == ssize_t{sizeof hash}) there.insert(hash);
  ::close(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  const auto files = store_files(options.directory);
  ASSERT_TRUE(files.ok()) << files.status().to_string();
  const auto store = BlockStore::open(**files, options);
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  for (const BlockHash one : there) ASSERT_TRUE(testing::get_block(**store, one).ok()) << one;
}

void kill_again_and_again(run::FileEngineKind kind, Place place) {
  static std::random_device seed;
  std::mt19937_64 random(seed());
  for (int stores = 0; stores < 2; ++stores) {
    const auto directory = sys::TemporaryDirectory::create().value();
    BlockStoreOptions options{.directory = directory.path(), .segment_bytes = 300'000};
    if (place == Place::drive) make_drive(options.directory += "/drive");
    std::set<BlockHash> there;
    while (options.incarnation < kLives) {
      ++options.incarnation;
      live_and_die(options, kind, random() % 100, there);
      if (::testing::Test::HasFatalFailure()) FAIL() << "life " << options.incarnation;
    }
  }
}

TEST(DiskTierCrashTest, killed_with_many_writes_under_way_it_keeps_what_was_there_for_good) {
  kill_again_and_again(run::FileEngineKind::automatic, Place::directory);
  kill_again_and_again(run::FileEngineKind::threads, Place::directory);
}

TEST(DiskTierCrashTest, so_it_does_on_a_drive) {
  kill_again_and_again(run::FileEngineKind::automatic, Place::drive);
}

}  // namespace
}  // namespace towpath::kv
