// What `towpath doctor` says of drives on a machine that has some.
#include <algorithm>
#include <cstdio>

#include <towpath/backends/nvme/probe.h>

#include "guest_drives.h"

namespace towpath::guest {
namespace {

using backends::nvme::probe;

const Finding* about(const std::vector<Finding>& findings, std::string_view what) {
  const auto found = std::ranges::find_if(findings, [&](const Finding& finding) {
    return finding.question.find(what) != std::string::npos;
  });
  return found == findings.end() ? nullptr : &*found;
}

TEST(GuestProbe, each_drive_is_judged_by_what_is_on_it) {
  if (!has_drive("PARTITIONED")) GTEST_SKIP() << "this machine has other drives";
  const Drive plain = drive_called("PLAIN512");
  const Drive partitioned = drive_called("PARTITIONED");
  const auto findings = probe();
  for (const Finding& finding : findings)
    std::printf("%s: %s %s (%s)\n", std::string(name_of(finding.verdict)).c_str(),
                finding.question.c_str(), finding.reason.c_str(), finding.hint.c_str());
  ASSERT_NE(about(findings, plain.generic), nullptr);
  EXPECT_EQ(about(findings, plain.generic)->verdict, Verdict::yes);
  ASSERT_NE(about(findings, partitioned.generic), nullptr);
  EXPECT_EQ(about(findings, partitioned.generic)->verdict, Verdict::no);
  EXPECT_NE(about(findings, partitioned.generic)->reason.find("p1"), std::string::npos);
  EXPECT_EQ(about(findings, "take NVMe commands")->verdict, Verdict::yes);
  EXPECT_EQ(about(findings, "carry NVMe commands")->verdict, Verdict::yes);
}

TEST(GuestProbe, peer_memory_is_seen_where_a_drive_offers_it) {
  if (!has_drive("PROVIDER")) GTEST_SKIP() << "this machine has other drives";
  drive_called("PROVIDER");
  const auto findings = probe();
  EXPECT_EQ(about(findings, "memory of other devices")->verdict, Verdict::yes)
      << about(findings, "memory of other devices")->reason;
}

}  // namespace
}  // namespace towpath::guest
