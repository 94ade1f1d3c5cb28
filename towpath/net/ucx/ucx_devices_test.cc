#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/net/ucx/ucx_devices.h>

namespace towpath::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string> kKnown = {"eth0", "lo", "mlx5_0:1", "mlx5_0:2"};

std::string chosen(std::string_view asked) {
  const auto devices = choose_devices(asked, kKnown);
  return devices.ok() ? *devices : devices.status().to_string();
}

TEST(UcxDevicesTest, what_a_context_prints_is_read) {
  EXPECT_THAT(devices_in("#\n# UCP context\n#\n"
                         "#     component 1  :  tcp\n"
                         "#            md 0  :  component 1  tcp \n"
                         "#\n"
                         "#      resource 0  :  md 0  dev 0  flags -- tcp/lo\n"
                         "#      resource 1  :  md 0  dev 1  flags -- tcp/eth0\n"
                         "#      resource 2  :  md 1  dev 2  flags -- rc_verbs/mlx5_0:1\n"
                         "#      resource 3  :  md 1  dev 2  flags -- ud_verbs/mlx5_0:1\n#\n"),
              ElementsAre("lo", "eth0", "mlx5_0:1"));
}

TEST(UcxDevicesTest, what_is_printed_in_another_way_names_none) {
  EXPECT_THAT(devices_in(""), IsEmpty());
  EXPECT_THAT(devices_in("resource"), IsEmpty());
  EXPECT_THAT(devices_in("# resources: tcp lo\n# resource 0\n"), IsEmpty());
}

TEST(UcxDevicesTest, names_are_given_to_ucx_as_it_reads_them) {
  EXPECT_EQ(chosen("eth0"), "eth0");
  EXPECT_EQ(chosen("lo, eth0"), "lo,eth0");
  EXPECT_EQ(chosen("^lo"), "^lo");
  EXPECT_EQ(chosen("all"), "all");
}

TEST(UcxDevicesTest, device_without_its_port_is_its_first) {
  EXPECT_EQ(chosen("mlx5_0"), "mlx5_0:1");
  EXPECT_EQ(chosen("mlx5_0:2"), "mlx5_0:2");
}

TEST(UcxDevicesTest, unknown_name_is_refused_with_those_that_are_known) {
  for (const char* const asked : {"eth7", "lo,eth7", "^eth7"}) {
    EXPECT_EQ(choose_devices(asked, kKnown).code(), Code::invalid_argument);
    EXPECT_THAT(chosen(asked), HasSubstr("eth7; it knows eth0, lo, mlx5_0:1, mlx5_0:2"));
  }
  EXPECT_THAT(choose_devices("eth7", {}).status().to_string(), HasSubstr("it knows none"));
}

}  // namespace
}  // namespace towpath::net
