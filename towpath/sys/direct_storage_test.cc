#include <algorithm>

#include <gmock/gmock.h>

#include <towpath/sys/direct_storage.h>
#include <towpath/sys/testing/fake_machine.h>

namespace towpath::sys {
namespace {

using ::testing::HasSubstr;

/// A machine on which drives reach the GPU by P2PDMA and by nvidia-fs. libc stands for libcufile,
/// which is only loaded.
class DirectStorageTest : public testing::FakeMachineTest {
 protected:
  void SetUp() override {
    FakeMachineTest::SetUp();
    put("cufile.json",
        "{ // all of it\n \"properties\": {\"use_pci_p2pdma\": true,\n"
        "  \"allow_compat_mode\": false}}\n");
    put("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15\nGCC version: 12\n");
    put("proc/driver/nvidia/params", "RegistryDwords: \"RMForceStaticBar1=1\"\n");
    put("proc/driver/nvidia-fs/stats", "GDS Version: 1.13\n");
    put("proc/driver/nvidia-fs/modules", "nvme: 2.0\n");
    put("proc/sys/kernel/osrelease", "6.12.9-custom\n");
    put("boot/config-6.12.9-custom", "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n");
    put("sys/module/nvme_core/parameters/multipath", "N\n");
    put("sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n");
    put("sys/bus/pci/devices/0000:17:00.0/class", "0x030200\n");
    put("sys/bus/pci/devices/0000:17:00.0/resource",
        "0x00000000de000000 0x00000000deffffff 0x0000000000040200\n"
        "0x0000600000000000 0x0000601fffffffff 0x000000000014220c\n");
  }

  DirectStorageOptions options() const {
    return {.root = root_,
            .boot = path("boot"),
            .libraries = {"libc.so.6"},
            .configuration = path("cufile.json"),
            .directories = {}};
  }
  DirectStorage probe() const { return probe_direct_storage(options()); }

  /// With what stood in `name` replaced, and put back after.
  DirectStorage probe_with(const std::string& name, std::string_view text) {
    std::ifstream before(path(name));
    const std::string kept((std::istreambuf_iterator<char>(before)), {});
    put(name, text);
    DirectStorage storage = probe();
    put(name, kept);
    return storage;
  }
};

TEST_F(DirectStorageTest, p2pdma_needs_no_nvidia_fs) {
  EXPECT_EQ(probe().way, DirectWay::p2pdma);
  EXPECT_EQ(probe().why, "");
  std::filesystem::remove_all(path("proc/driver/nvidia-fs"));
  EXPECT_EQ(probe().way, DirectWay::p2pdma);
}

TEST_F(DirectStorageTest, each_thing_that_p2pdma_wants_is_asked_for) {
  struct Case {
    const char* file;
    const char* text;
  };
  for (const Case& one :
       {Case{"proc/sys/kernel/osrelease", "6.1.0\n"}, Case{"proc/sys/kernel/osrelease", "new\n"},
        Case{"boot/config-6.12.9-custom", "# CONFIG_PCI_P2PDMA is not set\n"},
        Case{"sys/module/nvme_core/parameters/multipath", "Y\n"},
        Case{"proc/driver/nvidia/params", "RegistryDwords: \"\"\n"},
        Case{"proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64\n"},
        Case{"cufile.json", "{}"},
        Case{"cufile.json", "{\"a\": 1, // \"use_pci_p2pdma\": true\n}"}}) {
    EXPECT_EQ(probe_with(one.file, one.text).way, DirectWay::nvidia_fs) << one.file;
  }
}

TEST_F(DirectStorageTest, the_kernels_symbols_tell_where_its_configuration_is_not_there) {
  std::filesystem::remove_all(path("boot"));
  EXPECT_EQ(probe().way, DirectWay::nvidia_fs);
  put("proc/kallsyms", "0000 T one\n0000 d p2pdma_pgmap_ops\n");
  EXPECT_EQ(probe().way, DirectWay::p2pdma);
}

TEST_F(DirectStorageTest, without_either_way_libcufile_stages_and_the_reasons_are_told) {
  std::filesystem::remove_all(path("proc/driver/nvidia-fs"));
  const DirectStorage storage = probe_with("sys/module/nvme_core/parameters/multipath", "Y\n");
  EXPECT_EQ(storage.way, DirectWay::compat);
  EXPECT_THAT(storage.why, HasSubstr("nvidia-fs is not loaded"));
  EXPECT_THAT(storage.why, HasSubstr("multipath is on"));
  EXPECT_EQ(findings_of(storage).back().verdict, Verdict::degraded);
}

TEST_F(DirectStorageTest, forced_compat_is_never_called_direct) {
  const DirectStorage storage = probe_with(
      "cufile.json", "{\"properties\":{\"use_pci_p2pdma\":true,\"force_compat_mode\":true}}");
  EXPECT_EQ(storage.way, DirectWay::compat);
  EXPECT_THAT(storage.why, HasSubstr("forced"));
}

TEST_F(DirectStorageTest, a_kernel_that_can_is_nothing_without_the_library) {
  auto without = options();
  without.libraries = {"libtowpath-no-such.so.0", "libtowpath-no-such.so"};
  const DirectStorage storage = probe_direct_storage(without);
  EXPECT_EQ(storage.way, DirectWay::unavailable);
  EXPECT_THAT(storage.why, HasSubstr("libtowpath-no-such.so.0"));
  EXPECT_EQ(findings_of(storage).back().verdict, Verdict::no);
}

TEST_F(DirectStorageTest, without_a_gpu_nothing_is_direct) {
  std::filesystem::remove_all(path("sys/bus/pci"));
  EXPECT_EQ(probe().way, DirectWay::compat);
  EXPECT_THAT(probe().why, HasSubstr("no GPU"));
}

TEST_F(DirectStorageTest, the_window_of_a_gpu_is_told_in_bytes) {
  const auto storage = probe();
  EXPECT_EQ(storage.gpu.front().reason, "0000:17:00.0: 128 GiB");
  for (const char* junk : {"", "\n", "\n0x", "\n0x1", "\n0xzz 0x1 0", "\n0x2 0x1 0"}) {
    EXPECT_EQ(probe_with("sys/bus/pci/devices/0000:17:00.0/resource", junk).gpu.front().reason,
              "0000:17:00.0: 0 B")
        << junk;
  }
}

TEST_F(DirectStorageTest, a_translating_iommu_is_told_and_does_not_decide) {
  put("sys/class/iommu/dmar0/x", "");
  put("sys/kernel/iommu_groups/7/type", "DMA-FQ\n");
  const DirectStorage storage = probe();
  EXPECT_TRUE(std::ranges::any_of(storage.gpu, [](const Finding& finding) {
    return finding.reason.find("group 7 translates") != std::string::npos;
  }));
  EXPECT_EQ(storage.way, DirectWay::p2pdma);
}

TEST_F(DirectStorageTest, a_file_system_must_be_one_that_can_and_lie_right_on_a_drive) {
  const auto verdicts = [&](std::string_view mount, const char* drive) {
    put("proc/self/mountinfo", mount);
    std::filesystem::remove_all(path("sys/dev"));
    if (drive != nullptr) link("sys/dev/block/259:1", drive);
    const auto findings = probe_storage_device("/kv", "259:1", root_);
    return std::pair(findings[0].verdict, findings[1].verdict);
  };
  const auto line = [](const char* type, const char* options) {
    return std::string("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 22 259:1 / /kv rw shared:1 - ") +
           type + " /dev/nvme0n1p1 " + options + "\n";
  };
  constexpr const char* kDrive =
      "../../devices/pci0000:00/0000:00:04.0/nvme/nvme0/nvme0n1/nvme0n1p1";
  using V = Verdict;
  EXPECT_EQ(verdicts(line("xfs", "rw"), kDrive), std::pair(V::yes, V::yes));
  EXPECT_EQ(verdicts(line("ext4", "rw,data=ordered"), kDrive), std::pair(V::yes, V::yes));
  EXPECT_EQ(verdicts(line("ext4", "rw,data=journal"), kDrive), std::pair(V::no, V::yes));
  EXPECT_EQ(verdicts(line("btrfs", "rw"), "../../devices/virtual/block/md0"),
            std::pair(V::no, V::no));
  EXPECT_EQ(verdicts(line("xfs", "rw"), "../../devices/virtual/block/dm-3"),
            std::pair(V::yes, V::no));
  // Multipath's node is virtual, whatever its name.
  EXPECT_EQ(verdicts(line("xfs", "rw"), "../../devices/virtual/nvme-subsystem/s0/nvme0n1"),
            std::pair(V::yes, V::no));
  EXPECT_EQ(verdicts("garbage\n - \n 259:1", nullptr), std::pair(V::unknown, V::no));
}

TEST_F(DirectStorageTest, a_directory_that_cannot_go_direct_keeps_all_from_it) {
  auto with = options();
  with.directories = {path("."), path("none")};  // on whatever the test runs on: no mount is known
  const DirectStorage storage = probe_direct_storage(with);
  EXPECT_EQ(storage.files.size(), 3U);
  EXPECT_EQ(storage.way, DirectWay::compat);
}

TEST(DirectStorageOfThisMachineTest, has_an_answer_to_every_question) {
  for (const Finding& finding : findings_of(probe_direct_storage())) {
    EXPECT_FALSE(finding.question.empty());
    EXPECT_FALSE(finding.reason.empty()) << finding.question;
    EXPECT_FALSE(finding.source.empty()) << finding.question;
  }
}

}  // namespace
}  // namespace towpath::sys
