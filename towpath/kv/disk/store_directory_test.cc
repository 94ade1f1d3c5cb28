// A store's directory as others may leave it: real files, links, FIFOs, and processes that die.
#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/kv/disk/store_fixture.h>
#include <towpath/kv/disk/store_lock.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/forwarding_file_system.h>
#include <towpath/sys/text_file.h>

namespace towpath::kv {
namespace {

class StoreDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override { ::alarm(60); }  // what hangs must end
  void TearDown() override { ::alarm(0); }

  std::string path(const std::string& name = {}) const {
    return directory_.path() + "/kv" + (name.empty() ? "" : "/" + name);
  }
  Result<std::unique_ptr<BlockStore>> open() {
    return BlockStore::open(files_, {.directory = path(),
                                     .segment_bytes = kMiB,  // each opening looks through it
                                     .capacity_bytes = 16 * kMiB,
                                     .incarnation = ++incarnation_});
  }
  /// With some blocks, and closed again.
  void make_store() {
    auto store = open();
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    for (BlockHash hash = 1; hash <= 9; ++hash) ASSERT_TRUE(testing::put_block(**store, hash).ok());
    ASSERT_TRUE((*store)->checkpoint().ok());
  }
  void expect_blocks(BlockStore& store) {
    for (BlockHash hash = 1; hash <= 9; ++hash)
      EXPECT_TRUE(testing::get_block(store, hash).ok()) << hash;
  }
  /// In a process of its own: whether the store can be opened there.
  Code code_in_another_process() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(static_cast<int>(open().code()));
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    return static_cast<Code>(WEXITSTATUS(status));
  }

  sys::TemporaryDirectory directory_ = *sys::TemporaryDirectory::create();
  sys::SystemFileSystem files_;
  std::uint64_t incarnation_ = 0;
};

// An engine forks workers; they have its descriptors, and live on when it is killed.
TEST_F(StoreDirectoryTest, store_of_a_killed_process_is_taken_over_although_its_child_lives) {
  int said[2];
  ASSERT_EQ(::pipe2(said, O_CLOEXEC), 0);
  const pid_t engine = ::fork();
  if (engine == 0) {
    auto store = open();
    if (!store.ok() || !testing::put_block(**store, 1).ok() || !(*store)->sync().ok()) ::_exit(1);
    const pid_t worker = ::fork();
    if (worker == 0) {
      for (;;) ::pause();
    }
    (void)!::write(said[1], &worker, sizeof worker);
    for (;;) ::pause();
  }
  pid_t worker = 0;
  ASSERT_EQ(::read(said[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  EXPECT_EQ(open().code(), Code::unavailable) << "the engine lives";
  ::kill(engine, SIGKILL);
  ASSERT_EQ(::waitpid(engine, nullptr, 0), engine);
  ASSERT_EQ(::kill(worker, 0), 0) << "its worker lives";
  auto store = open();
  EXPECT_TRUE(store.ok()) << store.status().to_string();
  if (store.ok()) {
    EXPECT_TRUE(testing::get_block(**store, 1).ok());
    EXPECT_EQ(code_in_another_process(), Code::unavailable) << "and now it is this one's";
    store = error(Code::not_ready, "closed");
    EXPECT_EQ(code_in_another_process(), Code::ok) << "this one has let go, and lives";
  }
  ::kill(worker, SIGKILL);
  ::close(said[0]);
  ::close(said[1]);
}

// It has nothing but F_SETLK until that child ends, and nothing else when it has.
TEST_F(StoreDirectoryTest, store_that_was_taken_over_stays_this_one_s_whatever_it_opens_then) {
  int said[2];
  ASSERT_EQ(::pipe2(said, O_CLOEXEC), 0);
  const pid_t engine = ::fork();
  if (engine == 0) {
    const auto store = open();
    const pid_t worker = store.ok() ? ::fork() : -1;
    if (worker != 0) (void)!::write(said[1], &worker, sizeof worker);
    for (;;) ::pause();
  }
  pid_t worker = 0;
  ASSERT_EQ(::read(said[0], &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  ASSERT_GT(worker, 0) << "the engine has no store";
  ::kill(engine, SIGKILL);
  ASSERT_EQ(::waitpid(engine, nullptr, 0), engine);
  const auto store = BlockStore::open(
      files_, {.directory = path(), .incarnation = ++incarnation_, .direct = true});
  EXPECT_TRUE(store.ok()) << store.status().to_string();
  EXPECT_EQ(open().code(), Code::unavailable) << "once in one process";
  ::kill(worker, SIGKILL);
  ::close(said[1]);
  EXPECT_EQ(::read(said[0], &worker, sizeof worker), 0) << "until it has ended";
  EXPECT_EQ(code_in_another_process(), Code::unavailable);
  ::close(said[0]);
}

TEST_F(StoreDirectoryTest, store_that_was_closed_can_be_opened_although_a_child_lives) {
  auto store = open();
  ASSERT_TRUE(store.ok());
  const pid_t worker = ::fork();
  if (worker == 0) {
    for (;;) ::pause();
  }
  EXPECT_EQ(code_in_another_process(), Code::unavailable) << "it is open";
  store = error(Code::not_ready, "closed");
  EXPECT_EQ(code_in_another_process(), Code::ok);
  EXPECT_TRUE(open().ok());
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
}

// It is forked while another thread is about to open one, most likely; what that has locked then
// nobody unlocks in the child.
TEST_F(StoreDirectoryTest, forked_child_opens_a_store_whatever_the_threads_of_its_parent_did) {
#if defined(TOWPATH_ASAN) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has locks of its own, which may be held in the child";
#endif
  for (const char* name : {"parents", "childs"})
    ASSERT_TRUE(files_.make_directories(path(name)).ok());
  std::atomic<bool> is_over{false};
  std::thread opens([&] {
    while (!is_over) (void)lock_store(files_, {.directory = path("parents"), .incarnation = 1});
  });
  for (int i = 0; i < 20 && !HasFailure(); ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      ::_exit(lock_store(files_, {.directory = path("childs"), .incarnation = 2}).ok() ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "child " << i;
  }
  is_over = true;
  opens.join();
}

TEST_F(StoreDirectoryTest, second_opening_is_refused_and_opens_no_door_for_a_third) {
  make_store();
  const auto store = open();
  ASSERT_TRUE(store.ok());
  const auto second = open();
  EXPECT_EQ(second.code(), Code::unavailable);
  EXPECT_NE(second.status().to_string().find(std::to_string(::getpid())), std::string::npos)
      << second.status().to_string();
  EXPECT_EQ(code_in_another_process(), Code::unavailable);
}

TEST_F(StoreDirectoryTest, another_name_of_the_directory_is_refused_by_name_too) {
  make_store();
  const auto store = open();
  ASSERT_TRUE(store.ok());
  const std::string other_name = directory_.path() + "/link";
  ASSERT_EQ(::symlink(path().c_str(), other_name.c_str()), 0);
  const auto second = BlockStore::open(files_, {.directory = other_name, .incarnation = 9});
  EXPECT_EQ(second.code(), Code::unavailable);
  EXPECT_NE(second.status().to_string().find("this one"), std::string::npos)
      << second.status().to_string();
}

TEST_F(StoreDirectoryTest, deleted_lock_lets_no_second_writer_in) {
  make_store();
  const auto store = open();
  ASSERT_TRUE(store.ok());
  ASSERT_EQ(::unlink(path("lock").c_str()), 0);
  EXPECT_EQ(open().code(), Code::unavailable);
  EXPECT_EQ(code_in_another_process(), Code::unavailable);
}

/// As over NFS, where the two kinds of lock are one, of two owners.
class OneKindOfLock final : public sys::File {
 public:
  explicit OneKindOfLock(std::unique_ptr<sys::File> file) : file_(std::move(file)) {}
  Status lock() override {
    return is_locked_ ? error(Code::unavailable, "fcntl(2) has it") : file_->lock();
  }
  Status lock_for_process() override {
    Status locked = file_->lock_for_process();
    is_locked_ = locked.ok();
    return locked;
  }
  Result<std::size_t> read_at(ByteSpan into, std::uint64_t offset) override {
    return file_->read_at(into, offset);
  }
  Result<std::size_t> write_at(ConstByteSpan from, std::uint64_t offset) override {
    return file_->write_at(from, offset);
  }
  Status sync() override { return file_->sync(); }
  Result<std::uint64_t> size() override { return file_->size(); }
  Status resize(std::uint64_t size_bytes) override { return file_->resize(size_bytes); }
  Status preallocate(std::uint64_t size_bytes) override { return file_->preallocate(size_bytes); }
  int fd() const noexcept override { return file_->fd(); }
  const std::string& path() const noexcept override { return file_->path(); }
  bool direct() const noexcept override { return file_->direct(); }
  const std::string& direct_refusal() const noexcept override { return file_->direct_refusal(); }
  std::uint64_t alignment() const noexcept override { return file_->alignment(); }

 private:
  const std::unique_ptr<sys::File> file_;
  bool is_locked_ = false;
};

class FilesOverNfs final : public sys::testing::ForwardingFileSystem {
 public:
  Result<std::unique_ptr<sys::File>> open(const std::string& path,
                                          const sys::OpenFile& options) override {
    TOWPATH_TRY(auto file, ForwardingFileSystem::open(path, options));
    if (!path.ends_with("/lock")) return file;
    return std::make_unique<OneKindOfLock>(std::move(file));
  }
};

TEST_F(StoreDirectoryTest, store_over_nfs_is_not_kept_from_the_process_by_its_own_lock) {
  FilesOverNfs files;
  for (std::uint64_t life = 1; life <= 2; ++life) {
    auto store = BlockStore::open(files, {.directory = path(), .incarnation = life});
    ASSERT_TRUE(store.ok()) << life << ": " << store.status().to_string();
    EXPECT_EQ(code_in_another_process(), Code::unavailable) << "it is open";
  }
  EXPECT_EQ(code_in_another_process(), Code::ok);
}

TEST_F(StoreDirectoryTest, links_in_place_of_its_files_lead_nowhere) {
  make_store();
  const std::string victim = directory_.path() + "/victim";
  for (const std::string name : {"lock", "index", "index.new"}) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(sys::write_exactly(
                    **files_.open(victim, {.writable = true, .create = true, .truncate = true}),
                    as_bytes("precious"), 0)
                    .ok());
    (void)::unlink(path(name).c_str());
    ASSERT_EQ(::symlink(victim.c_str(), path(name).c_str()), 0);
    {
      auto store = open();
      if (name == "lock") {
        EXPECT_EQ(store.code(), Code::denied);
        EXPECT_NE(store.status().to_string().find("link"), std::string::npos);
      } else {
        ASSERT_TRUE(store.ok()) << store.status().to_string();
        expect_blocks(**store);
        EXPECT_TRUE((*store)->checkpoint().ok());
      }
    }
    EXPECT_EQ(*sys::read_text_file(victim), "precious");
    (void)::unlink(path(name).c_str());
  }
}

TEST_F(StoreDirectoryTest, fifos_in_place_of_its_files_hang_nobody) {
  make_store();
  for (const std::string name : {"index", "index.new", "segment-00000000000000000077"}) {
    SCOPED_TRACE(name);
    (void)::unlink(path(name).c_str());
    ASSERT_EQ(::mkfifo(path(name).c_str(), 0600), 0);
    auto store = open();
    ASSERT_TRUE(store.ok()) << store.status().to_string();
    expect_blocks(**store);
    (void)::unlink(path(name).c_str());
  }
  (void)::unlink(path("lock").c_str());
  ASSERT_EQ(::mkfifo(path("lock").c_str(), 0600), 0);
  EXPECT_EQ(open().code(), Code::denied);
}

TEST_F(StoreDirectoryTest, index_of_a_terabyte_is_of_no_use_and_costs_none) {
  make_store();
  ASSERT_EQ(::truncate(path("index").c_str(), off_t{1} << 40), 0);
  auto store = open();
  ASSERT_TRUE(store.ok()) << store.status().to_string();
  expect_blocks(**store);
  ASSERT_EQ((*store)->figures().reported.size(), 1U);
  EXPECT_NE((*store)->figures().reported.front().find("bytes"), std::string::npos)
      << (*store)->figures().reported.front();
}

TEST_F(StoreDirectoryTest, nobody_else_may_read_it_whatever_the_umask_is) {
  const mode_t before = ::umask(0);
  make_store();
  ::umask(before);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(path()).permissions(), perms::owner_all);
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
    const perms wanted =
        entry.is_directory() ? perms::owner_all : perms::owner_read | perms::owner_write;
    EXPECT_EQ(entry.symlink_status().permissions(), wanted) << entry.path();
    if (!entry.is_directory()) ++files;
  }
  EXPECT_GE(files, 3) << "a lock, an index and a segment";
}

TEST_F(StoreDirectoryTest, directory_that_cannot_be_made_is_denied_and_not_missing) {
  // In sysfs nobody makes directories, not even root.
  const auto store = BlockStore::open(files_, {.directory = "/sys/kernel/towpath-store"});
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.code(), Code::denied) << store.status().to_string();
}

}  // namespace
}  // namespace towpath::kv
