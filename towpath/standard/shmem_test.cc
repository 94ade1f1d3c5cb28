// The environment of PEs: written by a launcher, read by a PE.
#include <gtest/gtest.h>

#include <towpath/standard/shmem.h>

namespace towpath::standard {
namespace {

TEST(ShmemEnvironmentTest, nothing_said_is_alone) {
  const auto bootstrap = shmem_bootstrap({});
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ(bootstrap->pes, 1);
  EXPECT_FALSE(bootstrap->files.has_value());
  EXPECT_EQ(shmem_bootstrap({{"TOWPATH_SHMEM_HEAP", "2M"}})->heap_bytes, 2u << 20U);
}

TEST(ShmemEnvironmentTest, launcher_and_pe_understand_each_other) {
  const auto files = shmem::create_job({.pes = 2, .heap_bytes = 1 << 20});
  for (int pe = 0; pe < 2; ++pe) {
    auto bootstrap = shmem_bootstrap(shmem_variables(*files, pe));
    ASSERT_TRUE(bootstrap.ok()) << bootstrap.status().to_string();
    EXPECT_EQ(bootstrap->my_pe, pe);
    EXPECT_EQ(bootstrap->files->heaps.size(), 2u);
    EXPECT_TRUE(shmem::JobView::map(bootstrap->files->control.get()).ok());
  }
}

TEST(ShmemEnvironmentTest, what_makes_no_sense_is_refused) {
  const auto code = [](const char* pe, const char* job) {
    return shmem_bootstrap({{"TOWPATH_SHMEM_PE", pe}, {"TOWPATH_SHMEM_JOB", job}}).code();
  };
  EXPECT_EQ(code("0", "1,x"), Code::invalid_argument);
  EXPECT_EQ(code("0", ""), Code::invalid_argument);
  EXPECT_EQ(code("-1", "1"), Code::invalid_argument);
  EXPECT_EQ(code("0", "9999"), Code::not_ready);
  EXPECT_EQ(shmem_bootstrap({{"TOWPATH_SHMEM_HEAP", "much"}}).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::standard
