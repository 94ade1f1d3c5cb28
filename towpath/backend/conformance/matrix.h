// Matrix: which case ran for which backend and kinds, and which did not, and why.
//
// A fixture tags its test; the listener writes a line per test when all have run:
//
//   backend <tab> kinds <tab> case <tab> ran | failed | skipped: why
//
// tests/conformance/check_matrix.py compares these lines with the committed minimum.
// Thread: none of its own.
#pragma once

#include <array>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include <towpath/backend/conformance/candidate.h>

namespace towpath::backend::conformance {

/// Says for the running test whose row it fills.
void tag(const std::string& backend, const std::string& kinds);

class MatrixListener final : public testing::EmptyTestEventListener {
 public:
  explicit MatrixListener(std::string file) : file_(std::move(file)) {}
  void OnTestEnd(const testing::TestInfo& test) override;
  void OnTestProgramEnd(const testing::UnitTest& all) override;

 private:
  const std::string file_;
  std::string rows_;
};

/// The fixture of cases that hold for a backend, whatever its kinds.
class CandidateTest : public testing::TestWithParam<CandidateParam> {
 protected:
  void SetUp() override;
  const Candidate& candidate() const { return *GetParam().candidate; }
  const Pairing& pairing() const { return candidate().pairings.front(); }
};

/// The fixture of cases that hold for each pair of kinds.
class PairingTest : public testing::TestWithParam<PairingParam> {
 protected:
  void SetUp() override;
  const Candidate& candidate() const { return *GetParam().candidate; }
  const Pairing& pairing() const { return GetParam().pairing; }
  /// The directions in which a transfer of any shape can go: an object is written whole or not.
  std::span<const TransferOp> ways() const;
};

/// Names the instances of a parameterised case.
struct Labels {
  template <typename Param>
  std::string operator()(const testing::TestParamInfo<Param>& instance) const {
    return label_of(instance.param);
  }
};

/// Cases with two directions run both.
inline constexpr std::array kBothWays = {TransferOp::read, TransferOp::write};

}  // namespace towpath::backend::conformance
