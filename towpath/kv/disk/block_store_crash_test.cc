// A store dies at every write that it makes, in every way that disks have; and by SIGKILL, for
// real.
#include <csignal>
#include <random>
#include <set>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/kv/disk/store_fixture.h>
#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::kv {
namespace {

using sys::FileEffect;
using sys::FileOp;
using testing::get_block;
using testing::open_store;
using testing::put_block;

constexpr BlockHash kBlocks = 24;
constexpr std::uint64_t kForever = UINT64_MAX / 2;

/// How a write ends that the process does not survive.
struct Death {
  const char* name;
  FileEffect effect;
  std::uint64_t bytes;    ///< of the write that land
  std::uint64_t goes_on;  ///< writes after it that still land whole: the disk reorders
  bool honest;            ///< the disk claims no more than it did
};

constexpr Death kDeaths[] = {
    {"cut", FileEffect::fail, 0, 0, true},
    {"short", FileEffect::stop, 1000, 0, true},
    {"torn", FileEffect::torn, 1000, 0, false},
    {"torn header", FileEffect::torn, 50, 0, false},
    {"reordered", FileEffect::torn, 0, 1, false},
    {"bit flipped", FileEffect::flip_bit, 0, 3, false},
};

void arrange(sys::MemoryFileSystem& files, const Death& death, std::uint64_t write) {
  files.inject({.on = FileOp::write,
                .nth = write,
                .effect = death.effect,
                .bytes = death.bytes,
                .bit = 777});
  files.inject({.on = FileOp::write, .nth = write + 1 + death.goes_on, .times = kForever});
}

/// Puts, removes, syncs and checkpoints until the first failure: then the process is dead.
/// `acknowledged`: the blocks that must come back.
void live(sys::MemoryFileSystem& files, const BlockStoreOptions& options,
          std::set<BlockHash>& acknowledged) {
  auto store = BlockStore::open(files, options);
  if (!store.ok() || !(*store)->read_only().ok()) return;
  std::set<BlockHash> put;
  for (BlockHash hash = 1; hash <= kBlocks; ++hash) {
    if (!put_block(**store, hash).ok()) return;
    put.insert(hash);
    if (hash % 7 == 0) {
      acknowledged.erase(hash - 3);  // from now on either is right
      put.erase(hash - 3);
      if (!(*store)->remove(hash - 3).ok()) return;
    }
    if (hash % 5 == 0) {
      if (!(*store)->sync().ok()) return;
      acknowledged.insert(put.begin(), put.end());
    }
    if (hash % 16 == 0 && !(*store)->checkpoint().ok()) return;
  }
}

void expect_sane(sys::MemoryFileSystem& files, const BlockStoreOptions& options,
                 const std::set<BlockHash>& must_be_there, const std::string& how) {
  auto store = open_store(files, options);
  ASSERT_TRUE(store);
  for (BlockHash hash = 1; hash <= kBlocks; ++hash) {
    const Status got = get_block(*store, hash);  // fails the test when bytes are wrong
    ASSERT_TRUE(got.ok() || !must_be_there.contains(hash))
        << how << ", block " << hash << ": " << got.to_string();
  }
  ASSERT_TRUE(put_block(*store, 1000).ok()) << how;
  ASSERT_TRUE(store->sync().ok()) << how;
  ASSERT_TRUE(get_block(*store, 1000).ok()) << how;
}

void die_at_every_write(const BlockStoreOptions& options, bool keeps_all) {
  for (const Death& death : kDeaths) {
    for (const bool power_lost : {false, true}) {
      for (std::uint64_t write = 1;; ++write) {
        sys::MemoryFileSystem files;
        std::set<BlockHash> acknowledged;
        arrange(files, death, write);
        live(files, options, acknowledged);
        const bool survived = files.calls(FileOp::write) < write;
        files.heal();
        if (power_lost) files.crash();
        if (!death.honest || !keeps_all) acknowledged.clear();  // bytes were lost behind our back
        expect_sane(
            files, options, acknowledged,
            cat(death.name, power_lost ? ", power lost" : ", killed", ", at write ", write));
        if (::testing::Test::HasFatalFailure() || survived) break;
        ASSERT_LT(write, 2000U) << "it never comes to an end";
      }
    }
  }
}

TEST(BlockStoreCrashTest, dying_at_any_write_loses_nothing_acknowledged_and_serves_nothing_wrong) {
  die_at_every_write({.directory = testing::kDirectory, .segment_bytes = 60'000, .incarnation = 99},
                     true);
}

TEST(BlockStoreCrashTest, dying_while_room_is_made_serves_nothing_wrong) {
  die_at_every_write({.directory = testing::kDirectory,
                      .segment_bytes = 40'000,
                      .capacity_bytes = 80'000,
                      .incarnation = 99},
                     false);
}

std::set<BlockHash> acknowledged_by(const BlockStore& store) {
  std::set<BlockHash> acknowledged;
  for (const BlockHash hash : store.hashes())
    if (store.is_acknowledged(hash)) acknowledged.insert(hash);
  return acknowledged;
}

TEST(BlockStoreCrashTest, lives_end_in_any_way_one_after_the_other_and_keep_what_is_acknowledged) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    sys::MemoryFileSystem files;
    auto store = open_store(files, {.segment_bytes = 60'000});
    for (int step = 0; step < 400; ++step) {
      const BlockHash hash = 1 + random() % 40;
      const std::uint64_t what = random() % 60;
      if (what < 30) (void)put_block(*store, hash);
      if (what >= 30 && what < 35) (void)store->remove(hash);
      if (what >= 35 && what < 45) (void)store->sync();
      if (what == 45) (void)store->checkpoint();
      const FileEffect how = random() % 2 == 0 ? FileEffect::fail : FileEffect::lose;
      if (what == 46) files.inject({.on = FileOp::sync, .effect = how});
      if (what < 47 || what > 49) continue;
      const std::set<BlockHash> acknowledged = acknowledged_by(*store);
      files.heal();
      if (random() % 2 == 0) files.crash([&] { return random() % 2 == 0; });
      store.reset();
      store = open_store(files, {.segment_bytes = 60'000});
      for (const BlockHash one : acknowledged)
        ASSERT_TRUE(get_block(*store, one).ok()) << one << ", seed " << seed << ", step " << step;
    }
  }
}

/// Writes blocks for ever, and says on `pipe` up to which they are acknowledged.
[[noreturn]] void write_until_killed(const BlockStoreOptions& options, int pipe, BlockHash first) {
  sys::SystemFileSystem files;
  auto store = BlockStore::open(files, options);
  if (!store.ok()) ::_exit(1);
  for (BlockHash hash = first;; ++hash) {
    if (!put_block(**store, hash).ok()) ::_exit(2);
    if (hash % 3 != 0) continue;
    if (!(*store)->sync().ok() || ::write(pipe, &hash, sizeof hash) != sizeof hash) ::_exit(3);
  }
}

TEST(BlockStoreCrashTest, killed_for_real_again_and_again_it_keeps_what_it_acknowledged) {
  auto directory = sys::TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  sys::SystemFileSystem files;
  BlockHash acknowledged = 0;
  for (std::uint64_t life = 1; life <= 6; ++life) {
    const BlockStoreOptions options{
        .directory = directory->path(), .segment_bytes = 300'000, .incarnation = life};
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_until_killed(options, ends[1], acknowledged + 1);
    ::close(ends[1]);
    for (std::uint64_t news = 0; news < 5 * life; ++news)
      ASSERT_EQ(::read(ends[0], &acknowledged, sizeof acknowledged), ssize_t{sizeof acknowledged});
    const Status refused = BlockStore::open(files, options).status();
    ASSERT_EQ(refused.code(), Code::unavailable) << "it is another living process's";
    ASSERT_NE(refused.to_string().find(cat("process ", child)), std::string::npos);
    ::kill(child, SIGKILL);
    // What it still said before it died is acknowledged too.
    while (::read(ends[0], &acknowledged, sizeof acknowledged) == ssize_t{sizeof acknowledged}) {
    }
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    auto store = open_store(files, options);
    for (BlockHash hash = 1; hash <= acknowledged; ++hash)
      ASSERT_TRUE(get_block(*store, hash).ok()) << "life " << life << ", block " << hash;
  }
}

// What a removal could not write is in the index alone. An opening that cannot read that one finds
// the block, and must not make it stay.
TEST(UnreadIndexTest, what_it_alone_knows_to_be_removed_is_gone_when_it_is_read_again) {
  for (const bool can_be_read_later : {true, false}) {
    sys::MemoryFileSystem files;
    auto store = testing::open_store(files);
    for (BlockHash hash = 1; hash <= 3; ++hash) ASSERT_TRUE(testing::put_block(*store, hash).ok());
    ASSERT_TRUE(store->sync().ok());
    files.inject({.on = sys::FileOp::write});
    ASSERT_FALSE(store->remove(2).ok());
    ASSERT_TRUE(store->sync().ok()) << "by an index";
    store.reset();
    const std::uint64_t times = can_be_read_later ? 1 : UINT64_MAX / 2;
    files.inject({.on = sys::FileOp::read, .times = times, .path_part = "/index"});
    store = testing::open_store(files);
    EXPECT_EQ(store->figures().reported.size(), 1U);
    EXPECT_TRUE(testing::get_block(*store, 1).ok());
    EXPECT_TRUE(store->may_be_replaced(1) && store->may_be_replaced(2));
    ASSERT_TRUE(testing::put_block(*store, 4).ok() && store->sync().ok());
    EXPECT_FALSE(store->may_be_replaced(4));
    EXPECT_EQ(store->checkpoint().ok(), !can_be_read_later) << "one that is lost is replaced";
    files.heal();
    store.reset();
    store = testing::open_store(files);
    EXPECT_EQ(store->figures().reported.size(), 0U);
    EXPECT_FALSE(can_be_read_later && store->find(2)) << "its removal was acknowledged";
    for (const BlockHash hash : {1U, 3U, 4U}) EXPECT_TRUE(testing::get_block(*store, hash).ok());
  }
}

}  // namespace
}  // namespace towpath::kv
