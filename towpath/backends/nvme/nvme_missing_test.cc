#include <gtest/gtest.h>

#include <towpath/backends/nvme/nvme_backend.h>

namespace towpath::backends::nvme {
namespace {

TEST(NvmeMissingTest, build_without_it_says_so_when_asked_and_when_opened) {
  const backend::BackendType type = nvme_type();
  EXPECT_EQ(type.name, "nvme");
  const auto opened = type.open({});
  EXPECT_EQ(opened.code(), Code::unsupported);
  EXPECT_TRUE(opened.status().message().starts_with("not_built")) << opened.status().to_string();
  EXPECT_FALSE(opened.status().hint().empty());
  const auto findings = type.probe({});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].verdict, Verdict::no);
  EXPECT_TRUE(findings[0].reason.starts_with("not_built"));
}

}  // namespace
}  // namespace towpath::backends::nvme
