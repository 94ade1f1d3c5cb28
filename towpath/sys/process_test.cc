#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/process.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/kernel_calls.h>

namespace towpath::sys {
namespace {

using ::testing::HasSubstr;

/// A copy of this process that does nothing until it is killed.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0)
      for (;;) ::pause();
  }
  ~Child() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(ProcessTest, the_descriptor_reports_when_a_process_ends) {
  Child child;
  auto process = open_process(child.pid());
  ASSERT_TRUE(process.ok()) << process.status().to_string();
  EXPECT_FALSE(has_ended(*process));
  child.kill();
  EXPECT_TRUE(has_ended(*process));
}

TEST(ProcessTest, a_number_exists_while_a_process_has_it) {
  Child child;
  const auto number = static_cast<std::uint64_t>(child.pid());
  EXPECT_TRUE(process_exists(number));
  child.kill();
  EXPECT_FALSE(process_exists(number));
  EXPECT_TRUE(process_exists(1)) << "of another user too";
  EXPECT_FALSE(process_exists(0)) << "our group, to kill(2)";
  EXPECT_FALSE(process_exists(UINT64_MAX)) << "all processes, to kill(2)";
  EXPECT_FALSE(process_exists((std::uint64_t{1} << 32U) + 1)) << "not process 1";
}

TEST(ProcessTest, no_process_is_peer_lost) {
  Child child;
  const pid_t pid = child.pid();
  child.kill();
  EXPECT_EQ(open_process(pid).code(), Code::peer_lost);
  EXPECT_EQ(process_start_time(pid).code(), Code::peer_lost);
}

TEST(ProcessTest, the_start_time_stays_and_orders_processes) {
  const auto mine = process_start_time(::getpid());
  ASSERT_TRUE(mine.ok()) << mine.status().to_string();
  EXPECT_EQ(*process_start_time(::getpid()), *mine);
  Child child;
  EXPECT_GE(*process_start_time(child.pid()), *mine);
}

TEST(ProcessTest, what_a_signal_stops_is_stopped_until_it_goes_on) {
  Child child;
  EXPECT_FALSE(*process_is_stopped(child.pid()));
  ::kill(child.pid(), SIGSTOP);
  int status = 0;
  ::waitpid(child.pid(), &status, WUNTRACED);
  EXPECT_TRUE(*process_is_stopped(child.pid()));
  ::kill(child.pid(), SIGCONT);
  ::waitpid(child.pid(), &status, WCONTINUED);
  EXPECT_FALSE(*process_is_stopped(child.pid()));
}

TEST(ProcessTest, a_hostile_name_does_not_move_the_fields) {
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  std::filesystem::create_directory(directory->file("7"));
  auto start_time_of = [&](std::string_view stat) {
    std::ofstream(directory->file("7/stat")) << stat;
    return process_start_time(7, directory->path());
  };
  EXPECT_EQ(
      *start_time_of("7 (a) b) c) S 1 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 777 23\n"),
      777u);
  EXPECT_EQ(*start_time_of("7 (x) S 1 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 777"), 777u);
  for (const char* bad : {"", "7", "7 (x", "7 (x) S 1 5", "7 (x)",
                          "7 (x) S 1 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 -7 23\n"})
    EXPECT_EQ(start_time_of(bad).code(), Code::corrupt) << bad;
}

/// The mapping in which an address of this process lies; an empty one: none.
ProcessMapping mapping_at(const std::byte* address) {
  const auto mappings = process_mappings(::getpid());
  EXPECT_TRUE(mappings.ok()) << mappings.status().to_string();
  EXPECT_TRUE(std::ranges::is_sorted(*mappings, {}, &ProcessMapping::begin));
  const auto holds = [&](const ProcessMapping& mapping) {
    return mapping.begin <= address_of(address) && address_of(address) < mapping.end;
  };
  const auto found = std::ranges::find_if(*mappings, holds);
  return found == mappings->end() ? ProcessMapping() : *found;
}

TEST(ProcessMappingsTest, only_readable_memory_of_its_own_is_plain) {
  const auto pages = Mapping::anonymous(3 * page_size());
  ASSERT_TRUE(pages.ok());
  std::byte* const second = pages->data() + page_size();
  ASSERT_EQ(::mprotect(second, page_size(), PROT_NONE), 0);
  const ProcessMapping first = mapping_at(pages->data());
  EXPECT_TRUE(first.is_plain);
  EXPECT_EQ(first.end, address_of(second)) << "it ends where the pages begin that nobody may read";
  EXPECT_FALSE(mapping_at(second).is_plain);
  EXPECT_TRUE(mapping_at(second + page_size()).is_plain);
  const auto* const of_program = reinterpret_cast<const std::byte*>("in the program's file");
  EXPECT_LT(mapping_at(of_program).begin, mapping_at(of_program).end);
  EXPECT_FALSE(mapping_at(of_program).is_plain);
}

TEST(ProcessMappingsTest, one_that_is_asked_for_is_as_it_stands_in_the_list) {
  const auto single = open_process_mappings(::getpid());
  if (!single.ok()) GTEST_SKIP() << single.status().to_string();
  const auto file = create_sealed_memfd("test", page_size());
  const auto shared =
      Mapping::of_file({.fd = file->get(), .size_bytes = page_size(), .writable = true});
  const auto pages = Mapping::anonymous(2 * page_size());
  ASSERT_EQ(::mprotect(pages->data() + page_size(), page_size(), PROT_NONE), 0);
  const auto* const of_program = reinterpret_cast<const std::byte*>("in the program's file");
  const auto* const of_kernel = reinterpret_cast<const std::byte*>(::getauxval(AT_SYSINFO_EHDR));
  const std::byte here{};
  const std::byte* const places[] = {
      pages->data(), pages->data() + page_size(), shared->data(), of_program, of_kernel, &here};
  for (const std::byte* const place : places) {
    const auto one = process_mapping_at(*single, address_of(place));
    ASSERT_TRUE(one.ok()) << one.status().to_string();
    const ProcessMapping listed = mapping_at(place);
    EXPECT_EQ(one->begin, listed.begin);
    EXPECT_EQ(one->end, listed.end);
    EXPECT_EQ(one->is_plain, listed.is_plain);
  }
  EXPECT_EQ(process_mapping_at(*single, page_size()).code(), Code::not_found);
}

TEST(ProcessMappingsTest, names_and_lines_out_of_shape_are_reported_apart) {
  const auto proc = TemporaryDirectory::create();
  ASSERT_TRUE(proc.ok());
  std::filesystem::create_directory(proc->path() + "/7");
  std::ofstream(proc->path() + "/7/maps") << "1000-2000 rw-p 00000000 00:00 0 \n"
                                             "2000-3000 rw-p 00000000 00:00 0   [heap]\n"
                                             "3000-4000 rw-p 00000000 00:00 0   [anon:pool]\n"
                                             "4000-5000 r--p 00000000 00:00 0   [vvar]\n"
                                             "5000-6000 rw-s 00000000 00:05 9   /dev/zero\n"
                                             "6000-7000 -w-p 00000000 00:00 0 \n"
                                             "no mapping\n8000-\n9000-8000 rw-p 0 00:00 0\n\n"
                                             "a000-b000 rw-p";
  const auto mappings = process_mappings(7, proc->path());
  ASSERT_TRUE(mappings.ok()) << mappings.status().to_string();
  std::vector<bool> plain;
  for (const ProcessMapping& mapping : *mappings) plain.push_back(mapping.is_plain);
  EXPECT_EQ(plain, std::vector({true, true, true, false, false, false, false}));
  EXPECT_EQ(mappings->back().begin, 0xa000U);
  EXPECT_FALSE(process_mappings(8, proc->path()).ok());
}

TEST(ProcessMemoryTest, bytes_move_both_ways_however_they_are_cut) {
  if (const auto why = testing::why_no_process_memory(); !why.empty()) GTEST_SKIP() << why;
  Bytes theirs(3000);
  for (std::size_t i = 0; i < theirs.size(); ++i) theirs[i] = static_cast<std::byte>(i % 251);
  const Child child;  // has a copy of `theirs` at the same address
  const Bytes expected = theirs;
  std::ranges::fill(theirs, std::byte{0});
  // 1500 local parts of 2 bytes and empty ones between; 3 remote parts.
  Bytes mine(3000);
  std::vector<IoPart> local;
  for (std::size_t i = 0; i < mine.size(); i += 2) {
    local.push_back({mine.data() + i, 2});
    local.push_back({nullptr, 0});
  }
  const std::uint64_t base = address_of(theirs.data());
  const RemotePart remote[] = {{base, 1}, {base + 1, 2000}, {base + 2001, 999}};
  auto read = read_process_memory(child.pid(), local, remote);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(*read, 3000u);
  EXPECT_EQ(mine, expected);

  std::ranges::reverse(mine);
  const Bytes reversed = mine;
  ASSERT_EQ(*write_process_memory(child.pid(), local, remote), 3000u);
  std::ranges::fill(mine, std::byte{0});
  ASSERT_EQ(*read_process_memory(child.pid(), local, remote), 3000u);
  EXPECT_EQ(mine, reversed);
}

TEST(ProcessMemoryTest, nothing_to_move_is_fine) {
  EXPECT_EQ(*read_process_memory(::getpid(), {}, {}), 0u);
}

TEST(ProcessMemoryTest, sides_of_unlike_length_are_refused) {
  char byte = 0;
  const IoPart local{&byte, 1};
  const RemotePart two{address_of(&byte), 2};
  const Status status = read_process_memory(::getpid(), {&local, 1}, {&two, 1}).status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_THAT(status.to_string(), HasSubstr("1 and 2 bytes"));
  const RemotePart wraps[] = {{0, UINT64_MAX}, {0, 2}};
  EXPECT_EQ(read_process_memory(::getpid(), {&local, 1}, wraps).code(), Code::invalid_argument);
}

TEST(ProcessMemoryTest, memory_that_is_not_mapped_reports_how_far_it_came) {
  if (const auto why = testing::why_no_process_memory(); !why.empty()) GTEST_SKIP() << why;
  auto pages = Mapping::anonymous(2 * page_size());
  ASSERT_TRUE(pages.ok());
  std::byte* const second = pages->data() + page_size();
  ASSERT_EQ(::mprotect(second, page_size(), PROT_NONE), 0);
  Bytes mine(16);
  const IoPart local = IoPart::of(mine);
  const RemotePart remote[] = {{address_of(pages->data()), 8}, {address_of(second), 8}};
  const Status status = read_process_memory(::getpid(), {&local, 1}, remote).status();
  EXPECT_EQ(status.code(), Code::out_of_range) << status.to_string();
  EXPECT_THAT(status.to_string(), HasSubstr("8 of 16 bytes moved"));
}

TEST(ProcessMemoryTest, a_dead_process_is_peer_lost) {
  if (const auto why = testing::why_no_process_memory(); !why.empty()) GTEST_SKIP() << why;
  Bytes theirs(16), mine(16);
  Child child;
  const pid_t pid = child.pid();
  child.kill();
  const IoPart local = IoPart::of(mine);
  const RemotePart remote{address_of(theirs.data()), 16};
  EXPECT_EQ(read_process_memory(pid, {&local, 1}, {&remote, 1}).code(), Code::peer_lost);
  EXPECT_EQ(write_process_memory(pid, {&local, 1}, {&remote, 1}).code(), Code::peer_lost);
}

TEST(ProcessMemoryTest, a_unauthenticated_memory_is_denied_with_the_hint) {
  if (const auto why = testing::why_no_process_memory(); !why.empty()) GTEST_SKIP() << why;
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  char byte = 0;
  const pid_t owner = ::getpid();
  const pid_t unauthenticated = ::fork();
  ASSERT_GE(unauthenticated, 0);
  if (unauthenticated == 0) {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    const IoPart local{&byte, 1};
    const RemotePart remote{address_of(&byte), 1};
    const Status status = read_process_memory(owner, {&local, 1}, {&remote, 1}).status();
    const bool reported = status.code() == Code::denied &&
                          status.to_string().find("CAP_SYS_PTRACE") != std::string::npos;
    ::_exit(reported ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(unauthenticated, &status, 0), unauthenticated);
  EXPECT_EQ(status, 0) << "exit " << WEXITSTATUS(status) << ", signal " << WTERMSIG(status);
}

TEST(ProcessMemoryTest, the_probe_reads_yamas_mind) {
  if (const auto why = testing::why_no_process_memory(); !why.empty()) GTEST_SKIP() << why;
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  EXPECT_EQ(probe_process_memory(directory->path()).verdict, Verdict::yes) << "no Yama";
  std::filesystem::create_directories(directory->file("sys/kernel/yama"));
  auto verdict_of = [&](std::string_view scope) {
    std::ofstream(directory->file("sys/kernel/yama/ptrace_scope")) << scope;
    return probe_process_memory(directory->path());
  };
  EXPECT_EQ(verdict_of("0\n").verdict, Verdict::yes);
  EXPECT_EQ(verdict_of("1\n").verdict, Verdict::degraded);
  EXPECT_EQ(verdict_of("3\n").verdict, Verdict::no);
  EXPECT_FALSE(verdict_of("3\n").hint.empty());
  EXPECT_EQ(verdict_of("what\n").verdict, Verdict::unknown);
}

}  // namespace
}  // namespace towpath::sys
