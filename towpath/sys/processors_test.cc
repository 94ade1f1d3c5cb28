#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/sys/control_groups.h>
#include <towpath/sys/processors.h>
#include <towpath/sys/testing/fake_machine.h>

namespace towpath::sys {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ProcessorsTest : public testing::FakeMachineTest {
 protected:
  void allow(const std::string& list) {
    put("proc/self/status", "Name:\tcat\nCpus_allowed:\tff\nCpus_allowed_list:\t" + list + "\n");
  }
  /// A file of a group of version 2, whose path is below the mount.
  void put_2(const std::string& file, std::string_view text) {
    put("sys/fs/cgroup/cgroup.procs", "1\n");
    put("sys/fs/cgroup/" + file, text);
  }
  void put_1(const std::string& controller, const std::string& file, std::string_view text) {
    put("sys/fs/cgroup/" + controller + "/cgroup.procs", "1\n");
    put("sys/fs/cgroup/" + controller + "/" + file, text);
  }
};

TEST(ProcessorTest, a_thread_keeps_off_the_one_it_was_reported) {
  const auto allowed = allowed_processors();
  ASSERT_TRUE(allowed.ok());
  if (allowed->size() < 2) GTEST_SKIP() << "needs two processors";
  std::thread([&] {
    const ThreadProcessors own;
    for (const unsigned processor : *allowed) {
      own.keep_off(static_cast<int>(processor));
      for (int look = 0; look < 1000; ++look)
        ASSERT_NE(current_processor(), static_cast<int>(processor));
    }
    own.keep_off(-1);
  }).join();
}

TEST_F(ProcessorsTest, without_groups_nothing_limits_and_nothing_is_made_up) {
  EXPECT_EQ(probe_processors(root_).verdict, Verdict::unknown);
  EXPECT_EQ(probe_memory_limit(root_).verdict, Verdict::unknown);
  allow("0-3");
  EXPECT_EQ(probe_processors(root_).verdict, Verdict::yes);
  EXPECT_EQ(probe_processors(root_).reason, "4 processors");
  put("proc/self/cgroup", "0::/a\n");
  EXPECT_EQ(memory_limit(root_).code(), Code::not_found) << "nothing is mounted";
  put("proc/self/cgroup", "no line of a group\n");
  EXPECT_EQ(memory_limit(root_).code(), Code::corrupt);
}

TEST_F(ProcessorsTest, the_group_with_least_room_counts_wherever_it_stands_above) {
  put("proc/self/cgroup", "0::/pod/engine\n");
  put_2("pod/engine/memory.max", "max\n");
  put_2("pod/memory.max", "4294967296\n");
  put_2("pod/memory.current", "4026531840\n");
  put_2("memory.max", "8589934592\n");
  put_2("memory.current", "4026531840\n");
  const auto limit = memory_limit(root_);
  ASSERT_TRUE(limit.ok() && *limit) << limit.status().to_string();
  EXPECT_EQ((*limit)->group, root_.sys + "/fs/cgroup/pod");
  EXPECT_EQ((*limit)->room(), 268435456U);
  const Finding tight = probe_memory_limit(root_);
  EXPECT_EQ(tight.verdict, Verdict::degraded);
  EXPECT_EQ(tight.source, root_.sys + "/fs/cgroup/pod");
  EXPECT_THAT(tight.reason, HasSubstr("256 MiB are left of 4 GiB"));
  EXPECT_THAT(tight.hint, HasSubstr("limits.memory"));
  put_2("pod/memory.current", "4096\n");
  EXPECT_EQ(probe_memory_limit(root_).verdict, Verdict::yes);
  put_2("pod/memory.current", "4294967297\n");
  EXPECT_EQ((*memory_limit(root_))->room(), 0U) << "over its limit, while pages are taken back";
}

TEST_F(ProcessorsTest, without_a_limit_that_is_said) {
  put("proc/self/cgroup", "0::/\n");
  put_2("memory.max", "max\n");
  EXPECT_EQ(probe_memory_limit(root_).verdict, Verdict::yes);
  EXPECT_EQ(probe_memory_limit(root_).reason, "no group limits it");
  put_1("memory", "memory.limit_in_bytes", "9223372036854771712\n");
  put("proc/self/cgroup", "4:memory:/\n");
  EXPECT_EQ(probe_memory_limit(root_).reason, "no group limits it");
}

TEST_F(ProcessorsTest, a_container_sees_its_own_group_as_the_root) {
  put("proc/self/cgroup", "0::/../../kubepods/x\n");
  put_2("memory.max", "1048576\n");
  EXPECT_EQ((*memory_limit(root_))->bytes, 1048576U);
  put("proc/self/cgroup", "0::no/path\n");
  EXPECT_EQ((*memory_limit(root_))->bytes, 1048576U) << "and it ends";
  put("proc/self/cgroup", "0::/docker/of/the/host\n");
  EXPECT_EQ((*memory_limit(root_))->bytes, 1048576U);
}

TEST_F(ProcessorsTest, a_quota_of_time_is_reported_and_the_smallest_counts) {
  allow("0-7");
  put("proc/self/cgroup", "0::/a/b\n");
  put_2("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(probe_processors(root_).verdict, Verdict::yes);
  put_2("a/cpu.max", "250000 100000\n");
  put_2("cpu.max", "600000 100000\n");
  const Finding held_back = probe_processors(root_);
  EXPECT_EQ(held_back.verdict, Verdict::degraded);
  EXPECT_THAT(held_back.reason, HasSubstr("8 processors with the time of 2.5: "));
  EXPECT_EQ(held_back.source, root_.sys + "/fs/cgroup/a");
  EXPECT_THAT(held_back.hint, HasSubstr("limits.cpu"));
  allow("1");
  const Finding alone = probe_processors(root_);
  EXPECT_EQ(alone.verdict, Verdict::degraded);
  EXPECT_EQ(alone.reason, "1 processor");
  put_2("a/cpu.max", "much 0\n");
  put_2("cpu.max", "5 0\n");
  EXPECT_EQ(*processor_limit(root_), std::nullopt);
}

TEST_F(ProcessorsTest, version_1_has_a_tree_for_each_controller) {
  allow("0,2");
  put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/m\n2:cpu,cpuacct:/c\n0::/\n");
  put_1("memory", "m/memory.limit_in_bytes", "2147483648\n");
  put_1("memory", "m/memory.usage_in_bytes", "1048576\n");
  put_1("cpu", "c/cpu.cfs_quota_us", "50000\n");
  put_1("cpu", "c/cpu.cfs_period_us", "100000\n");
  put_1("cpu", "cpu.cfs_quota_us", "-1\n");
  put_1("cpu", "cpu.cfs_period_us", "100000\n");
  EXPECT_THAT(probe_memory_limit(root_).reason, HasSubstr("left of 2 GiB"));
  EXPECT_THAT(probe_processors(root_).reason, HasSubstr("the time of 0.5: "));
}

TEST_F(ProcessorsTest, each_gpu_is_asked_for_processors_near_it) {
  EXPECT_THAT(probe_processors_near_gpus(root_), IsEmpty());
  allow("0-3");
  for (const char* gpu : {"0000:17:00.0", "0000:65:00.0", "0000:99:00.0"}) {
    put(std::string("sys/bus/pci/devices/") + gpu + "/vendor", "0x10de\n");
    put(std::string("sys/bus/pci/devices/") + gpu + "/class", "0x030200\n");
  }
  put("sys/bus/pci/devices/0000:18:00.0/vendor", "0x8086\n");
  put("sys/bus/pci/devices/0000:17:00.0/local_cpulist", "2-9\n");
  put("sys/bus/pci/devices/0000:65:00.0/local_cpulist", "8-15\n");
  const auto findings = probe_processors_near_gpus(root_);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].verdict, Verdict::yes);
  EXPECT_EQ(findings[0].reason, "2 of 8 processors");
  EXPECT_EQ(findings[1].verdict, Verdict::degraded);
  EXPECT_THAT(findings[1].hint, HasSubstr("taskset -c 8-15"));
  EXPECT_EQ(findings[2].verdict, Verdict::unknown);
}

}  // namespace
}  // namespace towpath::sys
