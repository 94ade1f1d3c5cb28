// The first process of the virtual machine: mounts what tests look at, loads the modules that it
// carries, runs the tests, says how many passed, and ends the machine.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

namespace {

void mount_all() {
  for (const char* folder : {"/proc", "/sys", "/dev", "/tmp"}) ::mkdir(folder, 0755);
  const bool done = ::mount("proc", "/proc", "proc", 0, nullptr) == 0 &&
                    ::mount("sys", "/sys", "sysfs", 0, nullptr) == 0;
  const bool devices = ::mount("dev", "/dev", "devtmpfs", 0, nullptr) == 0 || errno == EBUSY;
  ::mkdir("/dev/shm", 0755);
  const bool shared = ::mount("shm", "/dev/shm", "tmpfs", 0, nullptr) == 0;
  if (!done || !devices || !shared) std::perror("mount");
}

/// In the order of their names.
void load_modules() {
  std::error_code none;
  std::vector<std::filesystem::path> modules;
  for (const auto& entry : std::filesystem::directory_iterator("/modules", none))
    modules.push_back(entry.path());
  std::ranges::sort(modules);
  for (const auto& module : modules) {
    const int file = ::open(module.c_str(), O_RDONLY | O_CLOEXEC);
    if (::syscall(SYS_finit_module, file, "", 0) != 0) std::perror(module.c_str());
    ::close(file);
  }
}

}  // namespace

int main(int argc, char** argv) {
  mount_all();
  load_modules();
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::printf("RESULT pass=%d fail=%d skip=%d status=%d\n", all.successful_test_count(),
              all.failed_test_count(), all.skipped_test_count(), failed);
  std::fflush(nullptr);
  ::tcdrain(1);
  if (::getpid() == 1) ::reboot(RB_AUTOBOOT);
  return failed;
}
