// PEs of one process that take each other for processes of other hosts: messages over UCX, by TCP.
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include <towpath/core/text.h>
#include <towpath/net/ucx/testing/real_ucx.h>
#include <towpath/shmem/collectives.h>
#include <towpath/shmem/hosts.h>
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

TEST_F(HostsTest, pes_of_two_hosts_meet_by_an_identifier) {
  const UniqueId id = UniqueId::create();
  testing::add_up(3, [&](int pe) -> Result<Context> {
    TOWPATH_TRY(auto bootstrap,
                bootstrap_by_id(id, {.my_pe = pe,
                                     .pes = 3,
                                     .heap_bytes = 1 << 20,
                                     .files = {},
                                     .host = cat("host ", pe % 2),
                                     .network = {.ucx = {.transports = "tcp", .devices = "lo"}}}));
    EXPECT_EQ(bootstrap.hosts, (std::vector<std::uint32_t>{0, 1, 0}));
    return Context::open(std::move(bootstrap));
  });
}

TEST_F(HostsTest, a_pe_without_a_network_is_reported_to_all) {
  const UniqueId id = UniqueId::create();
  std::vector<std::jthread> pes;
  for (int pe = 0; pe < 2; ++pe)
    pes.emplace_back([&, pe] {
      const char* transports = pe == 0 ? "tcp" : "nothing of this name";
      const auto bootstrap = bootstrap_by_id(id, {.my_pe = pe,
                                                  .pes = 2,
                                                  .heap_bytes = 1 << 20,
                                                  .files = {},
                                                  .host = cat("host ", pe),
                                                  .network = {.ucx = {.transports = transports}}});
      EXPECT_FALSE(bootstrap.ok());
      if (pe != 0) return;
      EXPECT_EQ(bootstrap.status().message(), "PE 1 has no way to other hosts");
    });
}

}  // namespace
}  // namespace towpath::shmem
