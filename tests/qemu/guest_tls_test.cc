// Kernel TLS, which few kernels have: the tests of net/tls, net/tcp and tests/conformance that need
// it.
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <towpath/core/format.h>

#include "guest_programs.h"

namespace towpath::guest {
namespace {

/// Of /proc/net/tls_stat; -1: it has no such line.
long counted(const std::string& name) {
  std::ifstream table("/proc/net/tls_stat");
  std::string word;
  long value = 0;
  while (table >> word >> value)
    if (word == name) return value;
  return -1;
}

class GuestTls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!has_program("/net_tls_test")) return;
    EXPECT_EQ(run("/ip link set lo up").status, 0);
  }
  void SetUp() override {
    if (!has_program("/net_tls_test")) GTEST_SKIP() << "this machine has another kernel";
  }
  static void run_all(const std::string& program, const std::string& filter) {
    const Ended ended = run(cat(program, " --gtest_color=no --gtest_filter=", filter));
    EXPECT_EQ(ended.status, 0) << ended.said;
    EXPECT_NE(ended.said.find("[  PASSED  ]"), std::string::npos) << ended.said;
    EXPECT_EQ(ended.said.find("SKIPPED"), std::string::npos) << ended.said;
  }
};

TEST_F(GuestTls, connections_whose_records_the_kernel_makes) {
  ASSERT_EQ(counted("TlsRxRekeyReceived"), 0);
  const long opened_before = counted("TlsRxSw");
  run_all("/net_tls_test",
          "Makers/KernelTlsPairTest.*-*memory_that_is_not_there*/library_to_kernel");
  EXPECT_GT(counted("TlsRxRekeyReceived"), 0) << "new keys of the other side";
  EXPECT_GT(counted("TlsRxSw"), opened_before);
  EXPECT_EQ(counted("TlsTxRekeyError"), 0);
  EXPECT_EQ(counted("TlsRxRekeyError"), 0);
}

TEST_F(GuestTls, workers_over_it) {
  const long made_before = counted("TlsTxSw");
  run_all("/net_tcp_test", "Security/TcpWorkerTest.*/kernel_tls-*three_hundred*:*nobody_sleeps*");
  EXPECT_GT(counted("TlsTxSw"), made_before);
}

class GuestTlsAgents : public GuestTls, public ::testing::WithParamInterface<const char*> {};

TEST_P(GuestTlsAgents, move_bytes_over_it) {
  const long made_before = counted("TlsTxSw");
  run_all("/conformance_tcp_tls", GetParam());
  EXPECT_GT(counted("TlsTxSw"), made_before);
}

// What takes long is left out: all of this is emulated. Lists of other forms make the same stream,
// and KernelTlsPairTest has memory that is not there.
INSTANTIATE_TEST_SUITE_P(
    Cases, GuestTlsAgents,
    ::testing::Values(
        "Backend/BytesConformance.*tcp_kernel_tls*-*object*:*lists_of_every*:*scattered*",
        "Backend/ProcessConformance.*tcp_kernel_tls*-*stopped*:*survivor*"));

}  // namespace
}  // namespace towpath::guest
