#include <gmock/gmock.h>

#include <towpath/sys/kernel_config.h>
#include <towpath/sys/testing/fake_machine.h>

namespace towpath::sys {
namespace {

using namespace std::literals;
using ::testing::HasSubstr;

class KernelConfigTest : public testing::FakeMachineTest {
 protected:
  void SetUp() override {
    FakeMachineTest::SetUp();
    put("proc/sys/kernel/osrelease", "6.12.9-custom\n");
  }
  KernelAnswer ask() const {
    return built_with({"CONFIG_PCI_P2PDMA", "p2pdma_pgmap_ops"}, root_, path("boot"));
  }
};

/// "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n" as gzip(1) stores it: head, one stored block, sum, length.
constexpr auto kPacked =
    "\x1f\x8b\x08\0\0\0\0\0\0\x03\x01\x21\0\xde\xff"
    "CONFIG_PCI=y\nCONFIG_PCI_P2PDMA=y\n"
    "\x2a\x15\x00\xa0\x21\0\0\0"sv;

TEST_F(KernelConfigTest, the_configuration_beside_the_kernel_is_asked_first) {
  put("boot/config-6.12.9-custom", "CONFIG_PCI=y\n# CONFIG_PCI_P2PDMA is not set\n");
  put("proc/config.gz", kPacked);
  EXPECT_EQ(ask().built_in, false);
  EXPECT_EQ(ask().source, path("boot/config-6.12.9-custom"));
  put("boot/config-6.12.9-custom", "CONFIG_PCI_P2PDMA=y\n");
  EXPECT_EQ(ask().built_in, true);
}

TEST_F(KernelConfigTest, then_the_one_that_the_kernel_carries) {
  put("proc/config.gz", kPacked);
  put("proc/kallsyms", "0000 T one\n");
  EXPECT_EQ(ask().built_in, true) << ask().source;
  EXPECT_EQ(ask().source, path("proc/config.gz"));
}

TEST_F(KernelConfigTest, then_its_symbols) {
  put("proc/config.gz", kPacked.substr(0, kPacked.size() - 12));
  put("proc/kallsyms", "0000 T one\n0000 d p2pdma_pgmap_ops\n");
  EXPECT_EQ(ask().built_in, true);
  EXPECT_EQ(ask().source, path("proc/kallsyms"));
  put("proc/kallsyms", "0000 T one\n");
  EXPECT_EQ(ask().built_in, false);
}

TEST_F(KernelConfigTest, a_kernel_that_reports_nothing_is_no_answer_with_reasons) {
  EXPECT_EQ(ask().built_in, std::nullopt);
  EXPECT_THAT(ask().source, HasSubstr("config-6.12.9-custom"));
  put("proc/config.gz", kPacked.substr(0, kPacked.size() - 12));
  EXPECT_EQ(ask().built_in, std::nullopt);
  EXPECT_THAT(ask().source, HasSubstr("config.gz' is damaged"));
  put("proc/config.gz", std::string((4U << 20U) + 1, 'x'));  // zlib hands on what is not packed
  EXPECT_THAT(ask().source, HasSubstr("longer than"));
  put("boot/config-6.12.9-custom", std::string((4U << 20U) + 1, 'x'));
  EXPECT_EQ(ask().built_in, std::nullopt);
}

}  // namespace
}  // namespace towpath::sys
