#include <gtest/gtest.h>
#include <sys/stat.h>

#include <towpath/backends/nvme/probe.h>
#include <towpath/backends/nvme/testing/fake_system.h>
#include <towpath/sys/testing/child.h>

namespace towpath::backends::nvme {
namespace {

using NvmeProbeTest = ::testing::Test;

void expect_verdict(const Finding& finding, Verdict verdict, const std::string& reason) {
  EXPECT_EQ(finding.verdict, verdict) << finding.reason;
  EXPECT_NE(finding.reason.find(reason), std::string::npos) << finding.reason;
  EXPECT_FALSE(finding.question.empty() || finding.signal.empty() || finding.source.empty());
  EXPECT_TRUE(verdict != Verdict::no || !finding.hint.empty()) << finding.reason;
}

TEST(NvmeProbeTest, kernel_and_drives) {
  const testing::FakeSystem system;
  expect_verdict(probe_drives(system.root()), Verdict::no, "no NVMe namespace");
  system.add_drive();
  expect_verdict(probe_drives(system.root()), Verdict::yes, "1 namespaces");
  system.put("proc/sys/kernel/osrelease", "5.15.0\n");
  expect_verdict(probe_drives(system.root()), Verdict::no, "older than 6.0");
  system.put("proc/sys/kernel/osrelease", "\x01\xFF strange");
  expect_verdict(probe_drives(system.root()), Verdict::unknown, "not understood");
  system.put("proc/sys/kernel/osrelease", std::string(70'000, '6'));
  expect_verdict(probe_drives(system.root()), Verdict::unknown, "longer than");
  SystemRoot nowhere = system.root();
  nowhere.proc += "/nowhere";
  expect_verdict(probe_drives(nowhere), Verdict::unknown, "cannot open");
}

TEST(NvmeProbeTest, each_namespace_is_judged_by_itself) {
  const testing::FakeSystem system;
  EXPECT_TRUE(probe_namespaces(system.root()).empty());
  system.add_drive();
  const auto only = [&] { return probe_namespaces(system.root()).at(0); };
  expect_verdict(only(), Verdict::yes, "it is free");
  system.put("proc/self/status", "CapEff:\t0000000000000000\n");
  expect_verdict(only(), Verdict::degraded, "CAP_SYS_ADMIN");
  system.put("sys/block/nvme0n1/queue/zoned", "host-managed\n");
  expect_verdict(only(), Verdict::degraded, "zoned");
  system.put("sys/block/nvme0n1/nvme0n1p1/partition", "1\n");
  expect_verdict(only(), Verdict::no, "nvme0n1p1");
}

TEST(NvmeProbeTest, file_that_this_user_may_not_open_is_reported) {
  EXPECT_TRUE(sys::testing::passes_in_child([] {
    if (!sys::testing::become_nobody(8U << 20U)) GTEST_SKIP() << sys::testing::kNoNobody;
    const testing::FakeSystem system;
    system.add_drive();
    ASSERT_EQ(::chmod((system.root().dev + "/ng0n1").c_str(), 0400), 0);
    expect_verdict(probe_namespaces(system.root()).at(0), Verdict::degraded, "read only");
    ASSERT_EQ(::chmod((system.root().dev + "/ng0n1").c_str(), 0), 0);
    expect_verdict(probe_namespaces(system.root()).at(0), Verdict::no, "may not open");
  }));
}

TEST(NvmeProbeTest, device_file_that_is_missing_is_reported) {
  const testing::FakeSystem system;
  system.add_drive();
  SystemRoot root = system.root();
  root.dev += "/nowhere";
  expect_verdict(probe_namespaces(root).at(0), Verdict::no, "may not open");
}

TEST(NvmeProbeTest, peer_memory_needs_the_kernel_and_a_device) {
  const testing::FakeSystem system;
  const auto found = [&] { return probe_peer_memory(system.root()); };
  const std::string config = "boot/config-6.12.117+deb12-cloud-amd64";
  expect_verdict(found(), Verdict::unknown, "cannot open");
  system.put(config, "CONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n");
  expect_verdict(found(), Verdict::no, "without CONFIG_PCI_P2PDMA");
  system.put(config, "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n");
  expect_verdict(found(), Verdict::no, "no device offers memory");
  system.make_folder("sys/bus/pci/devices/0000:01:00.0");
  expect_verdict(found(), Verdict::no, "no device offers memory");
  system.make_folder("sys/bus/pci/devices/0000:01:00.0/p2pmem");
  expect_verdict(found(), Verdict::yes, "a device offers memory");
  system.put("sys/module/nvme_core/parameters/multipath", "Y\n");
  expect_verdict(found(), Verdict::degraded, "multipath");
}

TEST(NvmeProbeTest, this_machine_is_reported_of_whatever_it_has) {
  const auto findings = probe();
  EXPECT_GE(findings.size(), 5U);
  for (const Finding& finding : findings) EXPECT_FALSE(finding.reason.empty()) << finding.question;
}

}  // namespace
}  // namespace towpath::backends::nvme
