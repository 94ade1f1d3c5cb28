#include <cstdio>
#include <fstream>
#include <string_view>

#include <towpath/backend/conformance/matrix.h>
#include <towpath/core/format.h>

namespace towpath::backend::conformance {
namespace {

constexpr const char* kBackend = "backend";
constexpr const char* kKinds = "kinds";

std::string property_of(const testing::TestResult& result, std::string_view key) {
  for (int i = 0; i < result.test_property_count(); ++i) {
    if (result.GetTestProperty(i).key() == key) return result.GetTestProperty(i).value();
  }
  return {};
}

std::string outcome_of(const testing::TestResult& result) {
  if (result.Failed()) return "failed";
  if (!result.Skipped()) return "ran";
  std::string why;
  for (int i = 0; i < result.total_part_count() && why.empty(); ++i) {
    if (result.GetTestPartResult(i).skipped()) why = result.GetTestPartResult(i).message();
  }
  while (!why.empty() && why.back() == '\n') why.pop_back();
  return "skipped: " + why;
}

}  // namespace

void tag(const std::string& backend, const std::string& kinds) {
  testing::Test::RecordProperty(kBackend, backend);
  testing::Test::RecordProperty(kKinds, kinds);
}

void MatrixListener::OnTestEnd(const testing::TestInfo& test) {
  const testing::TestResult& result = *test.result();
  const std::string backend = property_of(result, kBackend);
  if (backend.empty()) return;  // no case of the suite
  const std::string_view name = test.name();
  rows_.append(cat(backend, "\t", property_of(result, kKinds), "\t", name.substr(0, name.find('/')),
                   "\t", outcome_of(result), "\n"));
}

void MatrixListener::OnTestProgramEnd(const testing::UnitTest&) { std::ofstream(file_) << rows_; }

std::span<const TransferOp> PairingTest::ways() const {
  const std::span<const TransferOp> both = kBothWays;  // reads come first
  return pairing().far == Store::object ? both.first(1) : both;
}

void CandidateTest::SetUp() {
  tag(candidate().name, "any");
  if (const auto why = not_here(candidate().unavailable); !why.empty()) GTEST_SKIP() << why;
}

void PairingTest::SetUp() {
  tag(candidate().name, to_string(pairing()));
  if (const auto why = not_here(candidate().unavailable); !why.empty()) GTEST_SKIP() << why;
}

}  // namespace towpath::backend::conformance
