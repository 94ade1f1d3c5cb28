// Stores that are put to, removed from, synced, killed and cut off from power at random, on disks
// that fail, are held against a model.
//
// Each put has bytes of its own: it is a version of its block. The model knows what a block is
// `now`, a version or none; what it may be found as by the `next` opening; and what that comes to
// when a sync succeeds (`synced`).
//
//                       now                next                   synced
//   put, done           the version        also the version       also the version
//   put, failed         as it was          also the version       also the version
//   remove, done or not none               also none              none
//   sync, done          as it was          what was `synced`      as it was
//   checkpoint, done    as it was          what is now            what is now
//   get, failed         none               also none              also none
//   an opening          one of `next`      what is now            what is now
//
// A block that is_acknowledged() is found as what it is now, and after a sync all are. Any step
// that fails may forget those that are not; one that makes room, also others. While the disk is
// well, nothing fails. An opening while it is not, after which nothing is done, changes nothing.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/core/testing/seeds.h>
#include <towpath/kv/disk/drive_files.h>
#include <towpath/kv/disk/store_fixture.h>
#include <towpath/sys/memory_file_system.h>

namespace towpath::kv {
namespace {

using sys::FileEffect;
using sys::FileOp;

constexpr int kSteps = 300;
constexpr BlockHash kBlockCount = 12;
constexpr std::uint64_t kOnAndOn = UINT64_MAX / 2;

using Version = std::uint64_t;  // 0: there is none

struct StoreKind {
  bool is_drive = false;
  std::uint64_t capacity_bytes = 1024 * kMiB;
  std::uint64_t scale = 1;  ///< of a block's bytes

  bool is_small() const { return is_drive || capacity_bytes < kMiB; }
};

/// The same for all seeds.
struct Versions {
  explicit Versions(const StoreKind& kind) : bytes(1), digests(1) {
    for (Version version = 1; version <= kSteps; ++version) {
      bytes.push_back(testing::bytes_of_block(version));
      bytes.back().resize(bytes.back().size() * kind.scale);
      digests.push_back(digest_of(bytes.back(), 5));
    }
  }
  Version found_in(const BlockStore& store, BlockHash hash) const {
    const auto found = store.find(hash);
    if (!found) return 0;
    return static_cast<Version>(std::ranges::find(digests, found->digest) - digests.begin());
  }

  std::vector<Bytes> bytes;
  std::vector<Digest> digests;
};

struct Block {
  Version now = 0;
  std::set<Version> next{0};
  std::set<Version> synced{0};

  void may_be(Version version) { next.insert(version), synced.insert(version); }
  void is(Version version) { now = version, next = synced = {version}; }
};

std::string listed(const std::set<Version>& versions) {
  std::string all;
  for (const Version version : versions) all += cat(all.empty() ? "" : " or ", version);
  return all;
}

class StoreSimulation {
 public:
  StoreSimulation(const StoreKind& kind, const Versions& versions, std::uint64_t seed)
      : kind_(kind),
        versions_(versions),
        random_(seed),
        takes_space_(kind.is_drive || seed % 2 == 0) {}

  /// Empty, or all steps, and what went wrong.
  std::string run() {
    if (kind_.is_drive) make_drive();
    begin_life();
    for (int step = 0; step < kSteps && wrong_.empty(); ++step) take_step(1 + random(kBlockCount));
    return wrong_.empty() ? wrong_ : log_ + wrong_;
  }

 private:
  std::uint64_t random(std::uint64_t below) { return random_() % below; }
  void log(const std::string& line) { log_ += line + '\n'; }
  void expect(bool is_so, const std::string& wrong) {
    if (!is_so && wrong_.empty()) wrong_ = wrong;
  }

  void take_step(BlockHash hash) {
    const std::uint64_t what = random(100);
    if (what < 15) return replace(hash);
    if (what < 40) return put(hash);
    if (what < 50) return remove(hash);
    if (what < 65) return sync();
    if (what < 70) return checkpoint();
    if (what < 80) return hurt_disk();
    if (what < 84) return heal_disk();
    if (what < 94) return get(hash);
    end_life();
    begin_life();
  }

  // Steps ----------------------------------------------------------------------------------------

  /// What is there is put again: it may be leaving.
  void put(BlockHash hash) {
    Block& block = blocks_[hash];
    const Version version = block.now != 0 ? block.now : ++newest_;
    const Status put = store_->put(hash, versions_.digests[version], versions_.bytes[version]);
    block.may_be(version);
    if (put.ok()) block.now = version;
    end_step(cat("put ", hash, " as ", version), put);
  }

  void remove(BlockHash hash) {
    Block& block = blocks_[hash];
    const Status removed = store_->remove(hash);
    const bool was_there = removed.code() != Code::not_found;
    expect(was_there == (block.now != 0), cat("remove ", hash, ": ", removed.to_string()));
    if (!was_there) return;
    block.now = 0, block.next.insert(0), block.synced = {0};
    end_step(cat("remove ", hash), removed);
  }

  void replace(BlockHash hash) {
    remove(hash);
    put(hash);
  }

  void sync() {
    const Status synced = store_->sync();
    end_step("sync", synced);
    for (auto& [hash, block] : blocks_) {
      if (!synced.ok()) break;
      expect(block.now == 0 || store_->is_acknowledged(hash), cat(hash, " is not acknowledged"));
      block.next = block.synced;
    }
  }

  void checkpoint() {
    const Status made = store_->checkpoint();
    end_step("checkpoint", made);
    for (auto& [hash, block] : blocks_)
      if (made.ok()) block.is(block.now);
  }

  void get(BlockHash hash) {
    Block& block = blocks_[hash];
    if (block.now == 0) return;
    const Bytes& expected = versions_.bytes[block.now];
    Bytes bytes(expected.size());
    const Status got = store_->get(hash, bytes);
    if (!got.ok()) block.may_be(0);  // one that was put again since it is leaving has another copy
    expect(!got.ok() || std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0,
           cat(hash, " has wrong bytes"));
    end_step(cat("get ", hash), got);
  }

  void hurt_disk() {
    static constexpr FileOp kCalls[] = {FileOp::open,   FileOp::read,   FileOp::write,
                                        FileOp::write,  FileOp::sync,   FileOp::sync,
                                        FileOp::resize, FileOp::rename, FileOp::preallocate,
                                        FileOp::remove, FileOp::remove, FileOp::sync_directory};
    sys::FileFault fault{.on = kCalls[random(std::size(kCalls))],
                         .nth = 1 + random(4),
                         .times = random(3) == 0 ? kOnAndOn : 1,
                         .bytes = random(2) * random(20'000)};
    const bool is_partial = random(2) == 0;
    if (is_partial && fault.on == FileOp::write) fault.effect = FileEffect::stop;
    if (is_partial && fault.on == FileOp::sync) fault.effect = FileEffect::lose;
    if (fault.on != FileOp::read && random(4) == 0) fault.errno_value = ENOSPC;
    disk_.inject(fault);
    is_well_ = false;
    log(cat("call ", static_cast<int>(fault.on), " fails, number ", fault.nth,
            fault.times > 1 ? " and all after it" : "", is_partial ? ", in part" : ""));
  }

  void heal_disk() {
    disk_.heal();
    if (!takes_space_) disk_.inject({.on = FileOp::preallocate, .times = kOnAndOn});
    is_well_ = !kind_.is_drive;  // each opening of that hears of lost bytes, whenever it asks
    log("the disk is well");
  }

  // Lives ----------------------------------------------------------------------------------------

  /// Of nine slots, two of them for the index.
  void make_drive() {
    auto file = disk_.open("/drive", {.writable = true, .create = true}).value();
    expect(file->resize(10 * kMiB).ok() && file->sync().ok(), "no drive");
    expect(disk_.sync_directory("/").ok(), "no drive");
  }

  Status open() {
    BlockStoreOptions options{.directory = kind_.is_drive ? "/drive/blocks" : testing::kDirectory,
                              .segment_bytes = 60'000,
                              .capacity_bytes = kind_.capacity_bytes,
                              .incarnation = ++incarnation_};
    if (kind_.is_drive) {
      TOWPATH_TRY(drive_, DriveFiles::open(disk_, "/drive", incarnation_));
    }
    sys::FileSystem* const files = drive_ ? static_cast<sys::FileSystem*>(drive_.get()) : &disk_;
    TOWPATH_TRY(store_, BlockStore::open(*files, options));
    return {};
  }
  void close() {
    store_.reset();
    drive_.reset();
  }

  void end_life() {
    static constexpr const char* kEnds[] = {"killed", "power lost", "power lost, some was written"};
    const std::uint64_t end = random(std::size(kEnds));
    if (end == 1) disk_.crash();
    if (end == 2) disk_.crash([&] { return random(2) == 0; });
    close();
    log(kEnds[end]);
    if (random(4) == 0) log(cat("opened, and killed: ", open().to_string()));
    close();
  }

  void begin_life() {
    heal_disk();
    const Status opened = open();
    is_well_ = true;
    reclaimed_ = 0;
    expect(opened.ok(), opened.to_string());
    if (!opened.ok()) return;
    for (auto& [hash, block] : blocks_) {
      const Version found = versions_.found_in(*store_, hash);
      expect(block.next.contains(found),
             cat(hash, " is found as ", found, ", may be ", listed(block.next)));
      block.is(found);
    }
    for (const auto& [hash, block] : blocks_) get(hash);
  }

  void end_step(const std::string& step, const Status& status) {
    log(cat(step, status.ok() ? "" : ": ", status.ok() ? "" : status.to_string()));
    expect(status.ok() || !is_well_, "it failed while the disk was well");
    const BlockStore::Figures figures = store_->figures();
    expect(figures.bytes <= kind_.capacity_bytes, cat("it takes ", figures.bytes, " bytes"));
    const bool made_room = figures.reclaimed_segments != reclaimed_;
    reclaimed_ = figures.reclaimed_segments;
    for (auto& [hash, block] : blocks_) {
      const Version found = versions_.found_in(*store_, hash);
      const bool is_acknowledged = store_->is_acknowledged(hash);
      const bool was_acknowledged = block.next == std::set{block.now};
      // One that went while it was put again is there, and not acknowledged.
      const bool went = found != block.now || (found != 0 && was_acknowledged && !is_acknowledged);
      const bool may_go = made_room || (!status.ok() && (kind_.is_small() || !was_acknowledged));
      expect(!went || (may_go && (found == 0 || found == block.now)),
             cat(hash, " is ", found, ", and was ", block.now));
      if (went) block.may_be(0), block.now = found;
      if (is_acknowledged) block.is(found);
    }
  }

  const StoreKind& kind_;
  const Versions& versions_;
  std::mt19937_64 random_;
  const bool takes_space_;  // the disk does, ahead of what is written
  sys::MemoryFileSystem disk_;
  bool is_well_ = true;
  std::uint64_t incarnation_ = 0;
  std::shared_ptr<DriveFiles> drive_;
  std::unique_ptr<BlockStore> store_;
  std::uint64_t reclaimed_ = 0;  // segments of this life
  std::map<BlockHash, Block> blocks_;
  Version newest_ = 0;
  std::string log_;
  std::string wrong_;
};

/// --gtest_repeat=100 goes on where it was: 20,000 seeds in files, as `./dev soak` has it.
void simulate(const StoreKind& kind, std::uint64_t& first_seed, std::uint64_t usual) {
  const Versions versions(kind);
  for (const std::uint64_t end = first_seed + seeds_of(usual); first_seed < end; ++first_seed) {
    const std::string wrong = StoreSimulation(kind, versions, first_seed).run();
    ASSERT_TRUE(wrong.empty()) << wrong << "\nseed " << first_seed;
  }
}

TEST(BlockStoreModelTest, in_files) {
  static std::uint64_t seed = 1;
  simulate({}, seed, 200);
}

TEST(BlockStoreModelTest, in_files_with_little_room) {
  static std::uint64_t seed = 1;
  simulate({.capacity_bytes = 300'000}, seed, 200);
}

TEST(BlockStoreModelTest, on_a_drive) {
  static std::uint64_t seed = 1;
  simulate({.is_drive = true, .scale = 24}, seed, 20);
}

}  // namespace
}  // namespace towpath::kv
