// The backend ucx over RDMA: soft RoCE, which the kernel emulates over a pair of virtual Ethernet
// devices. run_guest.py carries its modules, and what UCX opens at run time.
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/text_file.h>

#include "guest_programs.h"

namespace towpath::guest {
namespace {

constexpr const char* kDevice = "/sys/class/infiniband/rxe0";
constexpr std::uint64_t kPacket = 4096;  // at most, by the device's MTU

std::uint64_t packets_sent() {
  const auto said = sys::read_text_file(cat(kDevice, "/ports/1/hw_counters/sent_pkts"));
  EXPECT_TRUE(said.ok()) << said.status().to_string();
  return said.ok() ? std::stoull(*said) : 0;
}

/// Sockets of the whole guest that listen for TCP: nothing but what a test runs has any.
std::size_t listening_sockets() {
  constexpr std::string_view kListens = " 0A ";  // the column `st`
  std::size_t count = 0;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(path);
    for (std::string line; std::getline(table, line);)
      if (line.find(kListens) != std::string::npos) ++count;
  }
  return count;
}

/// Those of an agent with the backend `ucx`.
std::size_t sockets_with(const char* transports) {
  ::setenv("UCX_TLS", transports, 1);
  const std::size_t before = listening_sockets();
  const auto node = standard::Node::open({.name = "one", .backends = {"ucx"}});
  EXPECT_TRUE(node.ok()) << transports << ": " << node.status().to_string();
  return listening_sockets() - before;
}

class GuestRdma : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    if (!has_program("/rdma")) return;
    for (const char* line :
         {"/ip link set lo up", "/ip link add left type veth peer name right",
          "/ip addr add 10.7.0.1/24 dev left", "/ip link set left mtu 4200 up",
          "/ip link set right mtu 4200 up", "/rdma link add rxe0 type rxe netdev left"})
      EXPECT_EQ(run(line).status, 0) << line;
  }

  void SetUp() override {
    if (!has_program("/rdma")) GTEST_SKIP() << "this machine has no RDMA";
    if (!has_program("/towpath")) GTEST_SKIP() << "the command was not built";
    // docs/gotchas/ucx.md says what the last two are for.
    for (const auto& [name, value] : {std::pair("UCX_TLS", GetParam()),
                                      {"UCX_NET_DEVICES", "rxe0:1"},
                                      {"UCX_UD_VERBS_ETH_DGID_CHECK", "n"},
                                      {"UCX_IB_ASYNC_EVENTS", "n"}})
      ::setenv(name, value, 1);
  }
};

TEST_P(GuestRdma, bench_moves_every_byte_right_and_the_device_counts_them) {
  constexpr std::uint64_t kBlock = 256 * 1024, kBlocks = 2 + 1;  // and one to warm up
  for (const char* op : {"WRITE", "READ"}) {
    const std::uint64_t before = packets_sent();
    const Ended ended =
        run(cat("/towpath bench --backend ucx --op_type ", op, " --start_block_size ", kBlock,
                " --max_block_size ", kBlock,
                " --total_buffer_size 4M --num_iter 2 --warmup_iter 1", " --timeout 60 --json -"));
    EXPECT_EQ(ended.status, 0) << op;
    EXPECT_NE(ended.said.find("\"passed\": true"), std::string::npos) << ended.said;
    EXPECT_EQ(ended.said.find("\"verified\": false"), std::string::npos) << ended.said;
    EXPECT_GE(packets_sent() - before, kBlock * kBlocks / kPacket) << op;
  }
}

TEST_P(GuestRdma, without_its_tcp_no_port_of_ucx_is_open) {
  EXPECT_EQ(sockets_with(GetParam()), 0U);
  EXPECT_EQ(sockets_with("^tcp"), 0U) << "what NIXL's UCX is here";
  ::unsetenv("UCX_NET_DEVICES");  // which names no network for TCP
  EXPECT_GT(sockets_with(cat(GetParam(), ",tcp").c_str()), 0U) << "a worker listens";
}

INSTANTIATE_TEST_SUITE_P(Transports, GuestRdma,
                         ::testing::Values("rc_verbs,ud_verbs,self", "ud_verbs,self"),
                         [](const auto& shape) {
                           return std::string(shape.index == 0 ? "reliable_connections"
                                                               : "datagrams");
                         });

}  // namespace
}  // namespace towpath::guest
