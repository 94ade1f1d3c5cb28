#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/standard/nixl_network.h>

namespace towpath::standard {
namespace {

using testing::ElementsAre;

NetworkHere machine(bool has_rdma) {
  return {.has_rdma = has_rdma,
          .is_interface = [](const std::string& name) { return name == "eth0"; }};
}

TEST(NixlNetworkTest, without_rdma_it_is_tcp_by_sockets) {
  for (const char* transports : {"", "all", "tcp", "tcp,self", "sm,tcp", "^rc", "tcp,cma"})
    EXPECT_THAT(network_types({.transports = transports}, machine(false)), ElementsAre("tcp"))
        << transports;
}

TEST(NixlNetworkTest, with_rdma_it_is_ucx_and_tcp_for_those_that_have_none) {
  for (const char* transports : {"", "all", "^sm"})
    EXPECT_THAT(network_types({.transports = transports}, machine(true)), ElementsAre("ucx", "tcp"))
        << transports;
  EXPECT_THAT(network_types({.transports = "tcp"}, machine(true)), ElementsAre("tcp"));
}

TEST(NixlNetworkTest, what_was_chosen_by_name_is_had_or_refused_by_ucx) {
  for (const bool has_rdma : {false, true}) {
    EXPECT_THAT(network_types({.transports = "rc"}, machine(has_rdma)), ElementsAre("ucx"));
    EXPECT_THAT(network_types({.transports = "rc_x,sm,self"}, machine(has_rdma)),
                ElementsAre("ucx"));
    EXPECT_THAT(network_types({.transports = "rc,tcp"}, machine(has_rdma)),
                ElementsAre("ucx", "tcp"));
    EXPECT_THAT(network_types({.transports = "sm"}, machine(has_rdma)), ElementsAre("ucx"));
    EXPECT_THAT(network_types({.has_settings = true}, machine(has_rdma)), ElementsAre("ucx"));
  }
  EXPECT_THAT(network_types({.transports = "^tcp"}, machine(true)), ElementsAre("ucx"));
  EXPECT_THAT(network_types({.transports = "^tcp"}, machine(false)), ElementsAre("ucx"));
}

TEST(NixlNetworkTest, devices_choose_too) {
  EXPECT_THAT(network_types({.devices = "eth0"}, machine(true)), ElementsAre("tcp"));
  EXPECT_THAT(network_types({.devices = "all"}, machine(false)), ElementsAre("tcp"));
  EXPECT_THAT(network_types({.devices = "mlx5_0:1"}, machine(true)), ElementsAre("ucx"));
  EXPECT_THAT(network_types({.devices = "mlx5_0, eth0"}, machine(true)), ElementsAre("ucx"));
  EXPECT_THAT(network_types({.devices = "nosuch0"}, machine(false)), ElementsAre("ucx"))
      << "which knows what there is";
}

TEST(SharesMemoryTest, lists_are_read_as_ucx_reads_them) {
  for (const char* with :
       {"", "all", "sm", "tcp,cma", "rc,shm,self", "^tcp", "^rc,dc", "posix:aux"})
    EXPECT_TRUE(shares_memory(with)) << with;
  for (const char* without : {"tcp", "tcp,self", "rc_x,ud:aux", "^sm", "^shm,tcp", "self"})
    EXPECT_FALSE(shares_memory(without)) << without;
}

}  // namespace
}  // namespace towpath::standard
