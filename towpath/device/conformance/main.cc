// Runs the suite; or is the other process of ipc_test.cc; or reports what GPUs there are
// (--findings; status 3 when there is none), for `./dev gpu`.
#include <cstdio>
#include <cstring>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/device/conformance/candidate.h>
#include <towpath/device/probe.h>

namespace {

int report_findings() {
  const auto findings = towpath::device::probe_devices();
  for (const towpath::Finding& finding : findings)
    std::puts(towpath::cat(name_of(finding.verdict), ": ", finding.question, " ", finding.reason,
                           finding.hint.empty() ? "" : "; ", finding.hint)
                  .c_str());
  return findings.front().verdict == towpath::Verdict::yes ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  using towpath::device::conformance::use_from_outside;
  if (argc == 5 && std::strcmp(argv[1], "--use-from-outside") == 0)
    return use_from_outside(argv[2], argv[3], argv[4]);
  if (argc == 2 && std::strcmp(argv[1], "--findings") == 0) return report_findings();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
