#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/backends/shm/peer_file.h>
#include <towpath/backends/shm/piece_table.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/process.h>
#include <towpath/sys/text_file.h>

namespace towpath::backends::shm {
namespace {

PieceHolder holder_of(pid_t pid, std::string_view name = "far") {
  const auto start_time = sys::process_start_time(pid);
  EXPECT_TRUE(start_time.ok());
  return {.pid = static_cast<std::uint32_t>(pid), .start_time = *start_time, .name = name};
}

Result<PieceEntry> claim(const PieceTable& table, const PieceHolder& holder) {
  TOWPATH_TRY(const sys::Fd fd,
              open_peer_file({.pid = ::getpid(), .file = table.file(), .writable = true}));
  return PieceEntry::claim(fd.get(), holder);
}

/// A process that is in a piece of the table, and stays there.
class Mover {
 public:
  enum class Leader { stays, ends };  ///< its first thread; another one is in the piece then
  explicit Mover(const PieceTable& table, Leader leader = Leader::stays) {
    int ready[2];
    if (::pipe(ready) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto entry = claim_of_parent(table);
      entry.begin_piece();
      if (leader == Leader::ends) std::thread([] { pause_on(); }).detach();
      (void)!::write(ready[1], "1", 1);
      if (leader == Leader::ends) ::syscall(SYS_exit, 0);  // of this thread alone
      pause_on();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~Mover() { end(); }
  void end() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  [[noreturn]] static void pause_on() {
    while (true) ::pause();
  }
  static PieceEntry claim_of_parent(const PieceTable& table) {
    const auto fd = open_peer_file({.pid = ::getppid(), .file = table.file(), .writable = true});
    return *PieceEntry::claim(fd->get(), holder_of(::getpid()));
  }
  pid_t pid_ = -1;
};

TEST(PieceTableTest, only_who_is_in_a_piece_is_under_way) {
  const auto table = PieceTable::create();
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(table->under_way(), nullptr);
  auto entry = claim(*table, holder_of(::getpid()));
  ASSERT_TRUE(entry.ok()) << entry.status().to_string();
  EXPECT_EQ(table->under_way(), nullptr);
  entry->begin_piece();
  const auto pieces = table->under_way();
  ASSERT_NE(pieces, nullptr);
  EXPECT_EQ(pieces->check().code(), Code::not_ready);
  entry->end_piece();
  EXPECT_TRUE(pieces->check().ok());
  EXPECT_EQ(table->under_way(), nullptr);
}

TEST(PieceTableTest, next_piece_is_not_waited_for) {
  const auto table = PieceTable::create();
  const auto entry = claim(*table, holder_of(::getpid()));
  entry->begin_piece();
  const auto pieces = table->under_way();
  entry->end_piece();
  entry->begin_piece();
  EXPECT_TRUE(pieces->check().ok());
  entry->end_piece();
}

TEST(PieceTableTest, peer_that_stands_still_is_named) {
  const auto table = PieceTable::create();
  const Mover mover(*table);
  ::kill(mover.pid(), SIGSTOP);
  const auto pieces = table->under_way();
  ASSERT_NE(pieces, nullptr);
  const std::string why = pieces->check().to_string();
  EXPECT_NE(why.find("far"), std::string::npos) << why;
  EXPECT_NE(why.find(std::to_string(mover.pid())), std::string::npos) << why;
}

TEST(PieceTableTest, killed_peer_moves_nothing_and_its_entry_is_free_when_others_are_short) {
  const auto table = PieceTable::create();
  Mover mover(*table);
  const auto pieces = table->under_way();
  EXPECT_EQ(pieces->check().code(), Code::not_ready);
  mover.end();
  EXPECT_TRUE(pieces->check().ok());
  std::vector<PieceEntry> all;
  for (std::uint32_t i = 0; i < PieceTable::kEntries; ++i)
    all.push_back(*claim(*table, holder_of(::getpid())));
  EXPECT_EQ(claim(*table, holder_of(::getpid())).code(), Code::exhausted);
  all.pop_back();
  EXPECT_TRUE(claim(*table, holder_of(::getpid())).ok());
  EXPECT_EQ(table->under_way(), nullptr) << "the dead one's turn is over";
}

// Its first thread has ended, which ps(1) shows as a zombie; another one goes on.
TEST(PieceTableTest, peer_lives_until_its_last_thread_has_ended) {
  const auto table = PieceTable::create();
  Mover mover(*table, Mover::Leader::ends);
  const auto pieces = table->under_way();
  const std::string stat = "/proc/" + std::to_string(mover.pid()) + "/stat";
  ASSERT_TRUE(run::eventually(
      [&] { return sys::read_text_file(stat)->find(") Z ") != std::string::npos; }));
  EXPECT_EQ(pieces->check().code(), Code::not_ready);
  mover.end();
  EXPECT_TRUE(pieces->check().ok());
}

TEST(PieceTableTest, process_that_has_got_the_pid_of_a_peer_is_not_the_peer) {
  const auto table = PieceTable::create();
  PieceHolder before = holder_of(::getpid());
  ++before.start_time;
  const auto entry = claim(*table, before);
  entry->begin_piece();
  EXPECT_TRUE(table->under_way()->check().ok());
}

TEST(PieceTableTest, forked_child_does_not_have_the_mappings_of_a_peer) {
  const auto table = PieceTable::create();
  const auto entry = claim(*table, holder_of(::getpid()));
  const auto maps_of = [](pid_t pid) {
    return *sys::read_text_file("/proc/" + std::to_string(pid) + "/maps", 16U << 20U);
  };
  const auto count = [](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find("towpath-shm-pieces", at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  EXPECT_EQ(count(maps_of(::getpid())), 2u) << "the owner's, and the peer's";
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) ::pause();
  }
  EXPECT_EQ(count(maps_of(child)), 1u);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(PieceTableTest, file_that_is_too_small_is_no_table) {
  const auto fd = sys::create_sealed_memfd("small", 4096);
  EXPECT_EQ(PieceEntry::claim(fd->get(), holder_of(::getpid())).code(), Code::out_of_range);
}

}  // namespace
}  // namespace towpath::backends::shm
