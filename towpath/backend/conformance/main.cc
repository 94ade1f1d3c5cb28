// Runs the conformance suite for the candidates of an executable: [--matrix=FILE]
// [--rounds=N] (of what is done over and over: growth.h) and what GoogleTest takes.
#include <charconv>
#include <optional>
#include <string_view>

#include <malloc.h>

#include <towpath/backend/conformance/growth.h>
#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/peer_process.h>

int main(int argc, char** argv) {
  // Pools of megabytes are made and dropped all the time: keep their pages.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (argc == 2) {
    using towpath::backend::conformance::run_as_peer;
    if (const std::optional<int> status = run_as_peer(argv[1])) return *status;
  }
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kMatrix = "--matrix=";
  constexpr std::string_view kRounds = "--rounds=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kRounds)) {
      std::from_chars(argument.data() + kRounds.size(), argument.data() + argument.size(),
                      towpath::backend::conformance::rounds());
    }
    if (!argument.starts_with(kMatrix)) continue;
    testing::UnitTest::GetInstance()->listeners().Append(
        new towpath::backend::conformance::MatrixListener(
            std::string(argument.substr(kMatrix.size()))));
  }
  return RUN_ALL_TESTS();
}
