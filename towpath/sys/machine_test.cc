#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/machine.h>
#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/numa.h>
#include <towpath/sys/nvidia_gpus.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/fake_machine.h>

namespace towpath::sys {
namespace {

using ::testing::ElementsAre;
using testing::FakeMachineTest;
using ::testing::HasSubstr;

using MachineTest = FakeMachineTest;
using NumaTest = FakeMachineTest;

TEST_F(MachineTest, what_cannot_be_read_is_unknown) {
  for (const Finding& finding :
       {probe_kernel(root_), probe_locked_memory(root_), probe_huge_pages(root_),
        probe_transparent_huge_pages(root_), probe_numa(root_)}) {
    EXPECT_EQ(finding.verdict, Verdict::unknown) << finding.question;
    EXPECT_FALSE(finding.reason.empty()) << finding.question;
  }
}

TEST_F(MachineTest, kernels_are_judged_by_their_release) {
  auto verdict_of = [&](std::string_view release) {
    put("proc/sys/kernel/osrelease", release);
    return probe_kernel(root_).verdict;
  };
  EXPECT_EQ(verdict_of("6.1.0-13-amd64\n"), Verdict::yes);
  EXPECT_EQ(verdict_of("5.19.0\n"), Verdict::yes);
  EXPECT_EQ(verdict_of("5.18.99\n"), Verdict::degraded);
  EXPECT_EQ(verdict_of("4.20\n"), Verdict::degraded);
  for (const char* bad : {"", "six", "6", "6.", "6.x"})
    EXPECT_EQ(verdict_of(bad), Verdict::unknown) << bad;
}

TEST_F(MachineTest, locked_memory_is_read_from_the_limits) {
  auto finding_of = [&](std::string_view value) {
    put("proc/self/limits", "Limit      Soft Limit  Hard Limit  Units\nMax locked memory     " +
                                std::string(value) + "      8388608      bytes\n");
    return probe_locked_memory(root_);
  };
  EXPECT_EQ(finding_of("unlimited").verdict, Verdict::yes);
  EXPECT_EQ(finding_of("67108864").verdict, Verdict::yes);
  const Finding small = finding_of("65536");
  EXPECT_EQ(small.verdict, Verdict::degraded);
  EXPECT_THAT(small.reason, HasSubstr("64 KiB"));
  EXPECT_THAT(small.hint, HasSubstr("ulimit -l"));
  EXPECT_EQ(finding_of("much").verdict, Verdict::unknown);
}

TEST_F(MachineTest, a_process_that_may_pin_everything_is_exempt_from_the_limit) {
  constexpr const char* kAll = "         0          0 4294967295\n";
  put("proc/self/limits", "Max locked memory     65536      65536      bytes\n");
  auto verdict_of = [&](std::string_view rights, std::string_view users) {
    put("proc/self/status", cat("CapPrm:\t0000000000004000\nCapEff:\t", rights, "\nCapBnd:\t0\n"));
    put("proc/self/uid_map", users);
    return probe_locked_memory(root_).verdict;
  };
  EXPECT_EQ(verdict_of("0000000000004000", kAll), Verdict::yes);
  EXPECT_THAT(probe_locked_memory(root_).reason, HasSubstr("CAP_IPC_LOCK"));
  EXPECT_EQ(verdict_of("000001fffeffffff", kAll), Verdict::yes);
  EXPECT_EQ(verdict_of("00000000a80425fb", kAll), Verdict::degraded) << "a container's root";
  EXPECT_EQ(verdict_of("000001ffffffffff", "0 1000 1\n"), Verdict::degraded) << "root of its own";
  EXPECT_EQ(verdict_of("none", kAll), Verdict::degraded);
}

TEST_F(MachineTest, huge_pages_are_counted) {
  put("proc/meminfo", "MemTotal: 1 kB\nHugePages_Total:       4\nHugePages_Free:        3\n");
  EXPECT_EQ(probe_huge_pages(root_).verdict, Verdict::yes);
  EXPECT_THAT(probe_huge_pages(root_).reason, HasSubstr("3 of 4"));
  put("proc/meminfo", "HugePages_Total:       0\nHugePages_Free:        0\n");
  EXPECT_EQ(probe_huge_pages(root_).verdict, Verdict::degraded);
  put("proc/meminfo", "MemTotal: 1 kB\n");
  EXPECT_EQ(probe_huge_pages(root_).verdict, Verdict::unknown);
}

TEST_F(MachineTest, transparent_huge_pages_follow_the_bracket) {
  auto verdict_of = [&](std::string_view text) {
    put("sys/kernel/mm/transparent_hugepage/enabled", text);
    return probe_transparent_huge_pages(root_).verdict;
  };
  EXPECT_EQ(verdict_of("[always] madvise never\n"), Verdict::yes);
  EXPECT_EQ(verdict_of("always [madvise] never\n"), Verdict::yes);
  EXPECT_EQ(verdict_of("always madvise [never]\n"), Verdict::degraded);
  EXPECT_EQ(verdict_of("what\n"), Verdict::unknown);
}

TEST_F(MachineTest, shared_memory_needs_space) {
  MemoryFileSystem files;
  ASSERT_TRUE(files.make_directories("/dev/shm").ok());
  EXPECT_EQ(probe_shared_memory(files).verdict, Verdict::yes);
  files.set_capacity(1 << 20);
  const Finding small = probe_shared_memory(files);
  EXPECT_EQ(small.verdict, Verdict::degraded);
  EXPECT_THAT(small.reason, HasSubstr("1 MiB"));
  EXPECT_EQ(probe_shared_memory(files, {.shared_memory = "/none"}).verdict, Verdict::degraded);
}

TEST_F(MachineTest, direct_io_is_tried_and_its_refusal_reported) {
  MemoryFileSystem memory;
  const Finding refused = probe_direct_io(memory, "/tmp");
  EXPECT_EQ(refused.verdict, Verdict::degraded);
  EXPECT_THAT(refused.reason, HasSubstr("page cache"));
  SystemFileSystem files;
  EXPECT_EQ(probe_direct_io(files, directory_->file("none")).verdict, Verdict::unknown);
  EXPECT_NE(probe_direct_io(files, directory_->path()).verdict, Verdict::unknown);
  EXPECT_TRUE(std::filesystem::is_empty(directory_->path())) << "the probe leaves nothing";
}

TEST_F(MachineTest, this_machine_answers_every_question) {
  SystemFileSystem files;
  const auto findings = probe_machine(files, {directory_->path(), "/dev/shm"});
  EXPECT_EQ(findings.size(), 16u + nvidia_gpus().size());
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.question.empty());
    EXPECT_FALSE(finding.signal.empty()) << finding.question;
    EXPECT_FALSE(finding.source.empty()) << finding.question;
    EXPECT_FALSE(finding.reason.empty()) << finding.question;
    const bool lacking = finding.verdict == Verdict::no || finding.verdict == Verdict::degraded;
    EXPECT_EQ(lacking, !finding.hint.empty()) << finding.question;
  }
  EXPECT_EQ(probe_memfd().verdict, Verdict::yes);
}

TEST_F(NumaTest, lists_of_processors_are_parsed) {
  EXPECT_THAT(*parse_cpu_list("0-2,8,10-11\n"), ElementsAre(0, 1, 2, 8, 10, 11));
  EXPECT_THAT(*parse_cpu_list("3,1,1-3"), ElementsAre(1, 2, 3));
  EXPECT_TRUE(parse_cpu_list("\n")->empty());
  for (const char* bad : {"a", "1-", "-1", "3-1", "1,,2", "0-65536", "0-99999999999", "1 2"})
    EXPECT_EQ(parse_cpu_list(bad).code(), Code::corrupt) << bad;
}

TEST_F(NumaTest, nodes_have_processors_and_memory) {
  put("sys/devices/system/node/online", "0,2\n");
  put("sys/devices/system/node/node0/cpulist", "0-1\n");
  put("sys/devices/system/node/node0/meminfo",
      "Node 0 MemTotal:   1024 kB\nNode 0 MemFree: 1 kB\n");
  put("sys/devices/system/node/node2/cpulist", "\n");
  const auto nodes = numa_nodes(root_.sys);
  ASSERT_TRUE(nodes.ok()) << nodes.status().to_string();
  EXPECT_THAT(*nodes, ElementsAre(NumaNode{.id = 0, .cpus = {0, 1}, .memory_bytes = 1 << 20},
                                  NumaNode{.id = 2}));
  put("sys/devices/system/node/node2/cpulist", "x\n");
  EXPECT_EQ(numa_nodes(root_.sys).code(), Code::corrupt);
}

TEST_F(NumaTest, a_kernel_without_numa_is_one_node) {
  put("sys/devices/system/cpu/online", "0-3\n");
  const auto nodes = numa_nodes(root_.sys);
  ASSERT_TRUE(nodes.ok());
  EXPECT_THAT(*nodes, ElementsAre(NumaNode{.id = 0, .cpus = {0, 1, 2, 3}}));
}

TEST_F(NumaTest, this_thread_runs_on_a_node_that_exists) {
  if (::access("/sys/devices/system/cpu/online", R_OK) != 0)
    GTEST_SKIP() << "the processors are not listed here: mount /sys";
  const auto nodes = numa_nodes();
  ASSERT_TRUE(nodes.ok()) << nodes.status().to_string();
  const unsigned current = current_numa_node();
  EXPECT_TRUE(
      std::ranges::any_of(*nodes, [&](const NumaNode& node) { return node.id == current; }));
}

}  // namespace
}  // namespace towpath::sys
