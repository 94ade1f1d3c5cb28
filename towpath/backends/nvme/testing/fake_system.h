// A /proc, /sys and /dev of a machine that has drives, as files below a directory. For tests only.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <towpath/backends/nvme/in_use.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::backends::nvme::testing {

class FakeSystem {
 public:
  FakeSystem() : folder_(std::move(*sys::TemporaryDirectory::create())) {
    put("proc/self/mountinfo", "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n");
    put("proc/self/status", "CapEff:\t0000003fffffffff\n");
    put("proc/sys/kernel/osrelease", "6.12.117+deb12-cloud-amd64\n");
    put("proc/swaps", "Filename\tType\n");
  }
  SystemRoot root() const {
    return {.proc = folder_.file("proc"),
            .sys = folder_.file("sys"),
            .dev = folder_.file("dev"),
            .boot = folder_.file("boot")};
  }
  void put(const std::string& name, const std::string& content) const {
    const std::filesystem::path path = folder_.file(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << content;
  }
  void make_folder(const std::string& name) const {
    std::filesystem::create_directories(folder_.file(name));
  }
  /// ng0n1 and nvme0n1, used by nothing.
  void add_drive() const {
    put("sys/class/nvme-generic/ng0n1/dev", "244:0\n");
    put("sys/block/nvme0n1/dev", "259:0\n");
    put("sys/block/nvme0n1/queue/max_hw_sectors_kb", "512\n");
    put("sys/block/nvme0n1/queue/max_segments", "127\n");
    make_folder("sys/block/nvme0n1/holders");
    put("dev/ng0n1", "");
    put("dev/nvme0n1", "");
  }

 private:
  sys::TemporaryDirectory folder_;
};

}  // namespace towpath::backends::nvme::testing
