// PEs of one process that take each other for processes of other hosts: messages over UCX, by TCP.
#include <numeric>

#include <gtest/gtest.h>

#include <towpath/net/ucx/testing/real_ucx.h>
#include <towpath/shmem/collectives.h>
#include <towpath/shmem/testing/pes.h>

namespace towpath::shmem {
namespace {

using testing::as_threads;

class HostsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = net::testing::why_no_ucx(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(HostsTest, puts_and_gets_of_every_size_arrive) {
  as_threads({.pes = 2, .hosts = 2}, [](Context& context) {
    const int other = 1 - context.my_pe();
    auto bytes = context.allocate_zeroed<std::uint8_t>(1 << 20);
    ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
    EXPECT_EQ(bytes->ptr(other), nullptr);
    std::vector<std::uint8_t> sent(1 << 20), back(1 << 20);
    std::iota(sent.begin(), sent.end(), static_cast<std::uint8_t>(context.my_pe()));
    for (const std::size_t size :
         {0UL, 1UL, 8UL, 4096UL, 128UL << 10U, (128UL << 10U) + 1, 1UL << 20U}) {
      ASSERT_TRUE(bytes->put({.pe = other}, std::span(sent).first(size)).ok());
      context.quiet();
      ASSERT_TRUE(bytes->get(std::span(back).first(size), {.pe = other}).ok());
      EXPECT_TRUE(std::equal(sent.begin(), sent.begin() + size, back.begin())) << size;
    }
    EXPECT_TRUE(context.finalize().ok());
  });
}

}  // namespace
}  // namespace towpath::shmem
