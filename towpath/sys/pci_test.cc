#include <gmock/gmock.h>

#include <towpath/core/format.h>
#include <towpath/sys/pci.h>
#include <towpath/sys/testing/fake_machine.h>

namespace towpath::sys {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class PciTest : public testing::FakeMachineTest {
 protected:
  /// A bridge whose configuration has these bytes from 0x100 on.
  std::string bridge(std::initializer_list<int> extended) {
    std::string bytes(0x100, '\0');
    for (const int byte : extended) bytes.push_back(static_cast<char>(byte));
    put("bridge/config", bytes);
    return path("bridge");
  }
};

constexpr const char* kGpu = "/d/pci0000:15/0000:15:01.0/0000:17:00.0";

TEST_F(PciTest, a_switch_is_above_both_and_no_root) {
  EXPECT_TRUE(share_switch(kGpu, "/d/pci0000:15/0000:15:01.0/0000:18:00.0"));
  EXPECT_TRUE(share_switch(kGpu, "/d/pci0000:15/0000:15:01.0/0000:18:00.0/nvme/nvme0/nvme0n1"));
  EXPECT_FALSE(share_switch("/d/pci0000:15/0000:15:01.0", "/d/pci0000:15/0000:15:02.0"));
  EXPECT_FALSE(share_switch(kGpu, "/d/pci0000:15/0000:15:01.1/0000:17:00.0"));
  EXPECT_FALSE(share_switch(kGpu, ""));
  EXPECT_FALSE(share_switch("", ""));
}

TEST_F(PciTest, a_root_is_the_processors) {
  EXPECT_TRUE(share_root(kGpu, "/d/pci0000:15/0000:15:02.0/0000:20:00.0"));
  EXPECT_FALSE(share_root(kGpu, "/d/pci0000:60/0000:60:02.0/0000:20:00.0"));
  EXPECT_FALSE(share_root(kGpu, ""));
}

TEST_F(PciTest, bridges_are_what_is_between_the_root_and_the_device) {
  EXPECT_THAT(bridges_above("/d/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0"),
              ElementsAre("/d/pci0000:15/0000:15:01.0", "/d/pci0000:15/0000:15:01.0/0000:16:00.0"));
  EXPECT_THAT(bridges_above("/d/pci0000:15/0000:15:01.0"), IsEmpty());
  EXPECT_THAT(bridges_above(""), IsEmpty());
}

TEST_F(PciTest, redirection_is_found_among_the_capabilities) {
  // Another capability first, which names the one at 0x108: 0x000D, whose control is at 0x10E.
  const auto with_control = [&](int control) {
    return redirects_peers(bridge({0x01, 0x00, 0x81, 0x10, 0, 0, 0, 0,  //
                                   0x0D, 0x00, 0x01, 0x00, 0x7F, 0x00, control, 0x00}));
  };
  EXPECT_EQ(with_control(0x00), false);
  EXPECT_EQ(with_control(0x13), false) << "what it forwards and validates is no matter";
  EXPECT_EQ(with_control(0x04), true);
  EXPECT_EQ(with_control(0x08), true);
  EXPECT_EQ(with_control(0x20), true);
  EXPECT_EQ(redirects_peers(bridge({0x01, 0x00, 0x01, 0x00})), false) << "it has none";
}

TEST_F(PciTest, a_configuration_that_is_not_shown_or_runs_in_a_ring_does_no_harm) {
  EXPECT_EQ(redirects_peers(bridge({})), std::nullopt) << "what others than root are shown";
  EXPECT_EQ(redirects_peers(path("nowhere")), std::nullopt);
  EXPECT_EQ(redirects_peers(bridge({0x01, 0x00, 0x01, 0x10})), false) << "the next one is itself";
  EXPECT_EQ(redirects_peers(bridge({0x01, 0x00, 0xC1, 0xFF})), false) << "behind the end";
}

}  // namespace
}  // namespace towpath::sys
