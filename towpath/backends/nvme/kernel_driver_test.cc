// Opening namespaces, as far as it can be tested without a drive; tests/qemu has the rest.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <towpath/backends/nvme/kernel_driver.h>
#include <towpath/backends/nvme/testing/fake_system.h>
#include <towpath/sys/testing/kernel_rings.h>

namespace towpath::backends::nvme {
namespace {

TEST(KernelDriverTest, what_is_no_namespace_is_refused_by_what_it_is) {
  const auto driver = kernel_driver();
  const auto code_of = [&](const std::string& path) {
    return driver->open(path, Access::read_only).code();
  };
  EXPECT_EQ(code_of("/dev/no-such-namespace"), Code::not_found);
  EXPECT_EQ(code_of("/proc/self/status"), Code::invalid_argument) << "a file";
  EXPECT_EQ(code_of("/dev/null"), Code::invalid_argument) << "a device of another kind";
}

TEST(KernelDriverTest, device_with_the_number_of_a_namespace_is_still_asked_what_it_is) {
  const testing::FakeSystem system;
  system.add_drive();
  system.put("sys/class/nvme-generic/ng0n1/dev", "1:3\n");  // says that /dev/null were one
  const auto opened = kernel_driver(system.root())->open("/dev/null", Access::read_only);
  EXPECT_EQ(opened.code(), Code::unsupported) << opened.status().to_string();
}

TEST(KernelDriverTest, device_in_use_is_refused_before_it_is_asked_anything) {
  const testing::FakeSystem system;
  system.add_drive();
  system.put("sys/class/nvme-generic/ng0n1/dev", "1:3\n");
  system.put("sys/block/nvme0n1/nvme0n1p1/partition", "1\n");
  const auto opened = kernel_driver(system.root())->open("/dev/null", Access::read_write);
  EXPECT_EQ(opened.code(), Code::denied) << opened.status().to_string();
}

TEST(KernelDriverTest, engine_of_a_kernel_with_io_uring_opens) {
  const auto why = sys::testing::why_no_rings(IORING_SETUP_SQE128 | IORING_SETUP_CQE32);
  if (!why.empty()) GTEST_SKIP() << why;
  const auto engine = kernel_driver()->make_engine(8);
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  EXPECT_GE((*engine)->wait_fd(), 0);
  Done done[1];
  EXPECT_EQ((*engine)->reap(done), 0U);
}

}  // namespace
}  // namespace towpath::backends::nvme
