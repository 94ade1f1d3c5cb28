#include <filesystem>

#include <gmock/gmock.h>

#include <towpath/sys/nvidia_fs.h>
#include <towpath/sys/testing/child.h>
#include <towpath/sys/testing/fake_machine.h>

namespace towpath::sys {
namespace {

using ::testing::HasSubstr;
using State = NvidiaFs::State;

constexpr const char* kStats = "proc/driver/nvidia-fs/stats";
constexpr const char* kModules = "proc/driver/nvidia-fs/modules";

using NvidiaFsTest = testing::FakeMachineTest;

TEST_F(NvidiaFsTest, what_it_says_is_handed_on_as_it_stands) {
  put(kStats, "GDS Version: 1.13.0\nNVFS statistics(ver: 4.0)\n");
  const NvidiaFs found = read_nvidia_fs(root_);
  EXPECT_TRUE(found.is_loaded());
  EXPECT_EQ(found.stats, "GDS Version: 1.13.0\nNVFS statistics(ver: 4.0)\n");
  EXPECT_EQ(found.reason, "");
}

TEST_F(NvidiaFsTest, each_way_of_not_being_there_has_a_name_and_a_reason) {
  EXPECT_EQ(read_nvidia_fs(root_).state, State::absent);
  put(kStats, " \n\t\n");
  EXPECT_EQ(read_nvidia_fs(root_).state, State::empty);
  for (const char* junk :
       {"\xff\xfe", "ok \x80", "cut \xc3", "long \xc0\xaf", "\xf5\x80\x80\x80"}) {
    put(kStats, junk);
    EXPECT_EQ(read_nvidia_fs(root_).state, State::not_text) << junk;
  }
  std::filesystem::remove(path(kStats));
  std::filesystem::create_directory(path(kStats));
  const NvidiaFs directory = read_nvidia_fs(root_);
  EXPECT_EQ(directory.state, State::unreadable);
  EXPECT_THAT(directory.reason, HasSubstr("directory"));
  EXPECT_EQ(directory.stats, "");
}

TEST_F(NvidiaFsTest, letters_of_all_alphabets_are_text) {
  put(kStats, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\xa2");
  EXPECT_TRUE(read_nvidia_fs(root_).is_loaded());
}

TEST_F(NvidiaFsTest, a_mebibyte_is_read_and_not_a_byte_more) {
  put(kStats, std::string(kMaxNvidiaFsStats, 'x'));
  EXPECT_EQ(read_nvidia_fs(root_).stats.size(), kMaxNvidiaFsStats);
  put(kStats, std::string(kMaxNvidiaFsStats + 1, 'x'));
  const NvidiaFs found = read_nvidia_fs(root_);
  EXPECT_EQ(found.state, State::too_long);
  EXPECT_THAT(found.reason, HasSubstr("1048576"));
}

TEST_F(NvidiaFsTest, who_may_not_read_it_is_reported_so) {
  put(kStats, "loaded");
  std::filesystem::permissions(path(kStats), std::filesystem::perms::none);
  const auto body = [&] {
    if (!testing::become_nobody(64 << 10)) GTEST_SKIP() << testing::kNoNobody;
    EXPECT_EQ(read_nvidia_fs(root_).state, State::denied);
    EXPECT_THAT(probe_nvidia_fs(root_).hint, HasSubstr("user"));
  };
  EXPECT_TRUE(testing::passes_in_child(body));
}

TEST_F(NvidiaFsTest, reads_are_counted_where_it_counts_them) {
  const auto reads = [&](const char* stats) {
    put(kStats, stats);
    return read_nvidia_fs(root_).reads();
  };
  EXPECT_EQ(reads("IO stats: Enabled\nReads\t\t\t\t: n=12 ok=11 err=1 readMiB=3 io_state_err=0\n"
                  "Reads\t\t\t\t: Bandwidth(MiB/s)=7 Avg-Latency(usec)=9\n"),
            12U);
  EXPECT_EQ(reads("Reads\t: n=0\n"), 0U);
  EXPECT_EQ(reads("IO stats: Disabled\nReads\t\t\t\t: err=0 io_state_err=0\n"), std::nullopt);
  EXPECT_EQ(reads("Reads: n=many\n"), std::nullopt);
  EXPECT_EQ(reads("GDS Version: 1.0\n"), std::nullopt);
  EXPECT_EQ(NvidiaFs().reads(), std::nullopt);
}

TEST_F(NvidiaFsTest, loaded_without_hooks_in_nvme_takes_no_local_drive) {
  put(kStats, "loaded");
  EXPECT_EQ(probe_nvidia_fs(root_).verdict, Verdict::no);
  put(kModules, "nvme_rdma: 1\nlnet: 2\n");
  EXPECT_EQ(probe_nvidia_fs(root_).verdict, Verdict::no);
  EXPECT_THAT(probe_nvidia_fs(root_).reason, HasSubstr("no hooks"));
  put(kModules, "lnet: 2\nnvme: 1.2\n");
  EXPECT_EQ(probe_nvidia_fs(root_).verdict, Verdict::yes);
  EXPECT_THAT(probe_nvidia_fs(root_).reason, HasSubstr("nvidia-fs is loaded"));
  put("proc/driver/nvidia-fs/version", "version: 2.28\n");
  EXPECT_THAT(probe_nvidia_fs(root_).reason, HasSubstr("nvidia-fs 2.28 is loaded"));
  put("proc/driver/nvidia-fs/version", "2:7:49\n");  // as nothing that is known writes it
  EXPECT_THAT(probe_nvidia_fs(root_).reason, HasSubstr("nvidia-fs is loaded"));
}

}  // namespace
}  // namespace towpath::sys
