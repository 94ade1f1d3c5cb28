#include <algorithm>

#include <gmock/gmock.h>

#include <towpath/core/format.h>
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
            .rdma_libraries = {"libtowpath-no-such.so.1"},
            .configuration = path("cufile.json"),
            .directories = {}};
  }
  DirectStorage probe() const { return probe_direct_storage(options()); }

  /// What is said to the question that begins so.
  static Finding answer(const std::vector<Finding>& findings, std::string_view question) {
    const auto found = std::ranges::find_if(
        findings, [&](const Finding& one) { return one.question.starts_with(question); });
    return found == findings.end() ? Finding{.reason = "nobody asked"} : *found;
  }

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
  EXPECT_EQ(probe().direct_path, DirectPath::p2pdma);
  EXPECT_EQ(probe().why, "");
  std::filesystem::remove_all(path("proc/driver/nvidia-fs"));
  EXPECT_EQ(probe().direct_path, DirectPath::p2pdma);
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
    EXPECT_EQ(probe_with(one.file, one.text).direct_path, DirectPath::nvidia_fs) << one.file;
  }
}

TEST_F(DirectStorageTest, the_kernels_symbols_report_where_its_configuration_is_not_there) {
  std::filesystem::remove_all(path("boot"));
  EXPECT_EQ(probe().direct_path, DirectPath::nvidia_fs);
  put("proc/kallsyms", "0000 T one\n0000 d p2pdma_pgmap_ops\n");
  EXPECT_EQ(probe().direct_path, DirectPath::p2pdma);
}

TEST_F(DirectStorageTest, without_either_way_libcufile_stages_and_the_reasons_are_reported) {
  std::filesystem::remove_all(path("proc/driver/nvidia-fs"));
  const DirectStorage storage = probe_with("sys/module/nvme_core/parameters/multipath", "Y\n");
  EXPECT_EQ(storage.direct_path, DirectPath::compat);
  EXPECT_THAT(storage.why, HasSubstr("nvidia-fs is not loaded"));
  EXPECT_THAT(storage.why, HasSubstr("multipath is on"));
  EXPECT_EQ(findings_of(storage).back().verdict, Verdict::degraded);
}

TEST_F(DirectStorageTest, forced_compat_is_never_called_direct) {
  for (const char* name : {"force_compat_mode", "vanilla_posix_io_mode", "posix_io_mode"}) {
    const DirectStorage storage = probe_with(
        "cufile.json", cat("{\"properties\":{\"use_pci_p2pdma\":true,\"", name, "\":true}}"));
    EXPECT_EQ(storage.direct_path, DirectPath::compat) << name;
    EXPECT_THAT(storage.why, HasSubstr("forced")) << name;
  }
}

TEST_F(DirectStorageTest, a_kernel_that_can_is_nothing_without_the_library) {
  auto without = options();
  without.libraries = {"libtowpath-no-such.so.0", "libtowpath-no-such.so"};
  const DirectStorage storage = probe_direct_storage(without);
  EXPECT_EQ(storage.direct_path, DirectPath::unavailable);
  EXPECT_THAT(storage.why, HasSubstr("libtowpath-no-such.so.0"));
  EXPECT_EQ(findings_of(storage).back().verdict, Verdict::no);
}

TEST_F(DirectStorageTest, without_a_gpu_nothing_is_direct) {
  std::filesystem::remove_all(path("sys/bus/pci"));
  EXPECT_EQ(probe().direct_path, DirectPath::compat);
  EXPECT_THAT(probe().why, HasSubstr("no GPU"));
}

TEST_F(DirectStorageTest, the_window_of_a_gpu_is_reported_in_bytes) {
  const auto storage = probe();
  EXPECT_EQ(storage.gpu.front().reason, "0000:17:00.0: 128 GiB");
  const char* const hopper =  // whose first one is of 64 bits
      "0x0000088042000000 0x0000088042ffffff 0x000000000014220c\n"
      "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
      "0x0000084000000000 0x0000085fffffffff 0x000000000014220c\n";
  EXPECT_EQ(probe_with("sys/bus/pci/devices/0000:17:00.0/resource", hopper).gpu.front().reason,
            "0000:17:00.0: 128 GiB");
  for (const char* junk : {"", "\n", "\n0x", "\n0x1", "\n0xzz 0x1 0", "\n0x2 0x1 0"}) {
    EXPECT_EQ(probe_with("sys/bus/pci/devices/0000:17:00.0/resource", junk).gpu.front().reason,
              "0000:17:00.0: 0 B")
        << junk;
  }
}

TEST_F(DirectStorageTest, a_translating_iommu_is_reported_and_does_not_decide) {
  const auto iommu = [&] { return answer(probe().gpu, "Does the IOMMU"); };
  EXPECT_EQ(iommu().reason, "there is none");
  put("proc/cmdline", "root=/dev/vda intel_iommu=on quiet iommu.strict=0 noiommutator=1\n");
  put("sys/class/iommu/dmar0/x", "");
  put("sys/kernel/iommu_groups/7/type", "identity\n");
  EXPECT_EQ(iommu().reason, "all groups pass through; started with intel_iommu=on iommu.strict=0");
  put("sys/kernel/iommu_groups/7/type", "DMA-FQ\n");
  EXPECT_THAT(iommu().reason, HasSubstr("group 7 translates (DMA-FQ); started with intel_iommu"));
  EXPECT_EQ(probe().direct_path, DirectPath::p2pdma);
}

TEST_F(DirectStorageTest, a_bridge_that_redirects_is_reported_and_does_not_decide) {
  const auto bridges = [&] { return answer(probe().gpu, "Do the PCI bridges"); };
  EXPECT_EQ(bridges().reason, "0 bridges, none of which redirects");
  const std::string gpu = "sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0";
  std::filesystem::create_directories(path("sys/devices/pci0000:16/0000:16:01.0"));
  std::filesystem::rename(path("sys/bus/pci/devices/0000:17:00.0"), path(gpu));
  link("sys/bus/pci/devices/0000:17:00.0", path(gpu));
  EXPECT_EQ(bridges().verdict, Verdict::unknown);
  EXPECT_THAT(bridges().reason, HasSubstr("0000:16:01.0 is not shown"));
  const auto with_control = [&](char control) {
    std::string bytes(0x110, '\0');
    bytes[0x100] = 0x0D;
    bytes[0x106] = control;
    put("sys/devices/pci0000:16/0000:16:01.0/config", bytes);
    return bridges();
  };
  EXPECT_EQ(with_control(0).reason, "1 bridges, none of which redirects");
  EXPECT_EQ(with_control(0x0C).verdict, Verdict::degraded);
  EXPECT_THAT(bridges().hint, HasSubstr("pci=disable_acs_redir=0000:16:01.0"));
  EXPECT_EQ(probe().direct_path, DirectPath::p2pdma);
}

TEST_F(DirectStorageTest, what_the_configuration_sets_is_reported) {
  const Finding set = answer(
      probe_with("cufile.json",
                 "{\"properties\": {\"max_direct_io_size_kb\" : 512, // less\n"
                 "\"per_buffer_cache_size_kb\": 64}, \"posix_pool_slab_size_kb\": [4, 1024]}")
          .library,
      "Does libcufile's configuration");
  EXPECT_THAT(set.reason, HasSubstr("; max_direct_io_size_kb 512; per_buffer_cache_size_kb 64; "
                                    "posix_pool_slab_size_kb [4, 1024]"));
  EXPECT_EQ(answer(probe().library, "Does libcufile's configuration").reason,
            "p2pdma on, compat forbidden");
  for (const char* junk : {"\"max_direct_io_size_kb\"",
                           "\"max_direct_io_size_kb\":", "\"posix_pool_slab_count\": [1, 2"})
    EXPECT_EQ(probe_with("cufile.json", junk).direct_path, DirectPath::nvidia_fs) << junk;
}

TEST_F(DirectStorageTest, the_library_for_storage_over_rdma_is_looked_for_and_does_not_decide) {
  EXPECT_EQ(answer(probe().library, "Can libcufile go to storage over RDMA").verdict,
            Verdict::degraded);
  EXPECT_EQ(probe().direct_path, DirectPath::p2pdma);
  auto with = options();
  with.rdma_libraries.emplace_back("libc.so.6");
  EXPECT_EQ(answer(probe_direct_storage(with).library, "Can libcufile go to storage").verdict,
            Verdict::yes);
}

TEST_F(DirectStorageTest, network_cards_reach_a_gpu_by_either_module) {
  const auto peers = [&] { return answer(probe().gpu, "Can network cards"); };
  EXPECT_EQ(peers().verdict, Verdict::unknown);
  put("sys/module/nvidia_peermem/refcnt", "0\n");
  EXPECT_EQ(peers().verdict, Verdict::yes);
  put("sys/kernel/mm/memory_peers/nv_mem/version", "1.3\n");
  EXPECT_EQ(peers().reason, "nv_mem 1.3");
}

/// Where file systems are, and the drives under them.
class StorageDeviceTest : public testing::FakeMachineTest {
 protected:
  void mount(const char* type, const char* options) {
    put("proc/self/mountinfo",
        cat("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 22 259:1 / /kv rw shared:1 - ", type,
            " /dev/nvme0n1p1 ", options, "\n"));
  }
  /// `place` below sys/devices.
  void put_drive(const std::string& place) {
    std::filesystem::remove_all(path("sys/dev"));
    std::filesystem::create_directories(path("sys/devices/" + place));
    link("sys/dev/block/259:1", path("sys/devices/" + place));
  }
  void put_gpu(const std::string& place) {
    put("sys/devices/" + place + "/vendor", "0x10de\n");
    put("sys/devices/" + place + "/class", "0x030200\n");
    link("sys/bus/pci/devices/" + place.substr(place.rfind('/') + 1), path("sys/devices/" + place));
  }
  std::vector<Finding> probe() const { return probe_storage_device("/kv", "259:1", root_); }
};

constexpr const char* kDrive = "pci0000:00/0000:00:04.0/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p1";

TEST_F(StorageDeviceTest, a_file_system_must_be_one_that_can) {
  put_drive(kDrive);
  const auto verdict = [&](const char* type, const char* options) {
    mount(type, options);
    return probe().at(0).verdict;
  };
  EXPECT_EQ(verdict("xfs", "rw"), Verdict::yes);
  EXPECT_EQ(verdict("ext4", "rw,data=ordered"), Verdict::yes);
  EXPECT_EQ(verdict("ext4", "rw,data=journal"), Verdict::no);
  EXPECT_EQ(verdict("btrfs", "rw"), Verdict::no);
  put("proc/self/mountinfo", "garbage\n - \n 259:1");
  EXPECT_EQ(probe().at(0).verdict, Verdict::unknown);
}

TEST_F(StorageDeviceTest, it_must_lie_right_on_a_drive) {
  mount("xfs", "rw");
  const auto reason = [&](const char* place) {
    put_drive(place);
    const Finding drive = probe().at(1);
    EXPECT_EQ(drive.verdict == Verdict::yes, drive.hint.empty()) << drive.reason;
    return drive.reason;
  };
  EXPECT_EQ(probe().at(1).reason, "no block device carries it");
  EXPECT_EQ(reason(kDrive), "nvme0n1p1, an NVMe drive on the PCI bus");
  EXPECT_EQ(reason("virtual/block/md0"), "md0: a device made of others");
  EXPECT_EQ(reason("virtual/block/dm-3"), "dm-3: a device made of others");
  EXPECT_EQ(reason("pci0000:00/0000:00:05.0/virtio1/block/vda"), "vda is no NVMe drive");
  EXPECT_EQ(reason("virtual/nvme-subsystem/s0/nvme0n1"),
            "nvme0n1: an NVMe drive by several paths (multipath)");
  EXPECT_EQ(reason("virtual/nvme-fabrics/ctl/nvme1/nvme1n1"),
            "nvme1n1: an NVMe drive over a network");
}

TEST_F(StorageDeviceTest, how_far_it_is_from_each_gpu_is_reported) {
  mount("xfs", "rw");
  put_drive(kDrive);
  EXPECT_EQ(probe().size(), 2U) << "there is no GPU";
  put_gpu("pci0000:00/0000:00:04.0/0000:02:00.0");
  put_gpu("pci0000:00/0000:00:06.0/0000:03:00.0");
  put_gpu("pci0000:80/0000:80:01.0/0000:81:00.0");
  const auto findings = probe();
  ASSERT_EQ(findings.size(), 5U);
  EXPECT_EQ(findings[2].question, "Is /kv near GPU 0000:02:00.0?");
  EXPECT_EQ(findings[2].verdict, Verdict::yes);
  EXPECT_EQ(findings[3].reason, "they meet at the processor's root");
  EXPECT_THAT(findings[4].reason, HasSubstr("different roots"));
  EXPECT_EQ(findings[4].verdict, Verdict::degraded);
  put_drive("virtual/block/md0");
  EXPECT_EQ(probe().size(), 2U) << "what is no drive is nowhere";
}

TEST_F(DirectStorageTest, a_directory_that_cannot_go_direct_keeps_all_from_it) {
  auto with = options();
  with.directories = {path("."), path("none")};  // on whatever the test runs on: no mount is known
  const DirectStorage storage = probe_direct_storage(with);
  EXPECT_EQ(storage.files.size(), 3U);
  EXPECT_EQ(storage.direct_path, DirectPath::compat);
}

TEST(DirectStorageOfThisMachineTest, has_an_answer_to_every_question) {
  const auto findings = findings_of(probe_direct_storage());
  EXPECT_FALSE(findings.empty());
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.question.empty());
    EXPECT_FALSE(finding.reason.empty()) << finding.question;
    EXPECT_FALSE(finding.source.empty()) << finding.question;
  }
}

}  // namespace
}  // namespace towpath::sys
