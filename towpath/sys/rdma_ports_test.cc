#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/sys/rdma_ports.h>
#include <towpath/sys/testing/fake_machine.h>

namespace towpath::sys {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RdmaPortsTest : public testing::FakeMachineTest {
 protected:
  /// `place` below sys/devices, whose last part is its address.
  void put_gpu(const std::string& place) {
    put("sys/devices/" + place + "/vendor", "0x10de\n");
    put("sys/devices/" + place + "/class", "0x030200\n");
    link("sys/bus/pci/devices/" + place.substr(place.rfind('/') + 1), path("sys/devices/" + place));
  }
  void put_adapter(const std::string& name, const std::string& place, unsigned ports) {
    for (unsigned port = 1; port <= ports; ++port)
      put(cat("sys/devices/", place, "/infiniband/", name, "/ports/", port, "/state"), "ACTIVE\n");
    link("sys/devices/" + place + "/infiniband/" + name + "/device", path("sys/devices/" + place));
    link("sys/class/infiniband/" + name, path("sys/devices/" + place + "/infiniband/" + name));
  }
};

TEST_F(RdmaPortsTest, ports_under_the_switch_of_a_gpu_are_reported_as_ucx_wants_them) {
  const std::string near = "pci0000:15/0000:15:01.0/0000:16:00.0/";  // root port, switch
  put_gpu(near + "0000:17:00.0/0000:18:00.0");
  put_gpu("pci0000:60/0000:60:01.0/0000:65:00.0");
  EXPECT_THAT(probe_ports_near_gpus(root_), IsEmpty()) << "no adapter";
  put_adapter("mlx5_0", near + "0000:17:01.0/0000:19:00.0", 2);
  put_adapter("mlx5_1", "pci0000:15/0000:15:02.0/0000:20:00.0", 1);
  const auto findings = probe_ports_near_gpus(root_);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_THAT(findings[0].question, HasSubstr("0000:18:00.0"));
  EXPECT_EQ(findings[0].verdict, Verdict::yes);
  EXPECT_EQ(findings[0].reason, "UCX_NET_DEVICES=mlx5_0:1,mlx5_0:2");
  EXPECT_EQ(findings[1].verdict, Verdict::degraded);
  EXPECT_EQ(findings[1].reason, "none of mlx5_0:1,mlx5_0:2,mlx5_1:1");
}

TEST_F(RdmaPortsTest, an_adapter_that_is_on_no_bus_is_near_nothing) {
  put_gpu("pci0000:15/0000:15:01.0/0000:17:00.0");
  put("sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");  // over an Ethernet device
  EXPECT_EQ(probe_ports_near_gpus(root_).at(0).reason, "none of rxe0:1");
}

}  // namespace
}  // namespace towpath::sys
