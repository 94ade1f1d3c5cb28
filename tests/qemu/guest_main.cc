// The first process of the virtual machine: mounts what tests look at, runs them, says how many
// passed, and ends the machine.
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

namespace {

void mount_all() {
  for (const char* folder : {"/proc", "/sys", "/dev", "/tmp"}) ::mkdir(folder, 0755);
  const bool done = ::mount("proc", "/proc", "proc", 0, nullptr) == 0 &&
                    ::mount("sys", "/sys", "sysfs", 0, nullptr) == 0;
  const bool devices = ::mount("dev", "/dev", "devtmpfs", 0, nullptr) == 0 || errno == EBUSY;
  if (!done || !devices) std::perror("mount");
}

}  // namespace

int main(int argc, char** argv) {
  mount_all();
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
