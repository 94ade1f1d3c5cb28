#include "tools/replay/memory.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::tools::replay {
namespace {

using testing::HasSubstr;

TEST(ReplayMemoryTest, pools_that_fit_are_let_through) {
  const Options options;
  const PoolBytes pools = pool_bytes(options).value();
  EXPECT_TRUE(check_memory(options, 1, 1, pools.prefill + pools.decode).ok());
  EXPECT_TRUE(check_memory(options, 16, 16, std::nullopt).ok());
}

TEST(ReplayMemoryTest, one_byte_less_is_refused_with_both_figures_and_what_would_help) {
  const Options options;
  const PoolBytes pools = pool_bytes(options).value();
  const Status status = check_memory(options, 1, 1, pools.prefill + pools.decode - 1);
  EXPECT_EQ(status.code(), Code::exhausted);
  EXPECT_THAT(status.to_string(), HasSubstr("128 MiB"));
  EXPECT_THAT(status.to_string(), HasSubstr("--scale"));
}

TEST(ReplayMemoryTest, every_process_counts) {
  const Options options;
  const PoolBytes pools = pool_bytes(options).value();
  const std::uint64_t available = 2 * pools.prefill + 3 * pools.decode;
  EXPECT_TRUE(check_memory(options, 2, 3, available).ok());
  EXPECT_FALSE(check_memory(options, 3, 3, available).ok());
  EXPECT_FALSE(check_memory(options, 2, 4, available).ok());
}

TEST(ReplayMemoryTest, what_the_kernel_has_available_is_read) {
  const auto directory = sys::TemporaryDirectory::create().value();
  const std::string proc = directory.path() + "/proc";
  std::filesystem::create_directories(proc);
  std::ofstream(proc + "/meminfo") << "MemTotal: 9 kB\nMemAvailable:    2048 kB\nBuffers: 1 kB\n";
  EXPECT_EQ(available_memory({.proc = proc, .sys = directory.path(), .shared_memory = {}}),
            2U << 20);
}

}  // namespace
}  // namespace towpath::tools::replay
