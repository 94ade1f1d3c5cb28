// Runs the conformance suite for the candidates of an executable: [--matrix=FILE]
// [--rounds=N] (of what is done over and over: growth.h) [--soak-rounds=N] [--soak-seed=S] [--gpu]
// (memory of a device is that of this machine's first GPU; status 3: there is none) and what
// GoogleTest takes.
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>

#include <malloc.h>

#include <towpath/backend/conformance/growth.h>
#include <towpath/backend/conformance/matrix.h>
#include <towpath/backend/conformance/peer_process.h>
#include <towpath/backend/conformance/test_memory.h>

namespace {

/// Of "--name=N"; nothing: it is another argument.
std::optional<std::uint64_t> number(std::string_view argument, std::string_view name) {
  if (!argument.starts_with(name)) return std::nullopt;
  std::uint64_t value = 0;
  std::from_chars(argument.data() + name.size(), argument.data() + argument.size(), value);
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace towpath::backend::conformance;
  // Pools of megabytes are made and dropped all the time: keep their pages.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  if (argc == 2) {
    if (const std::optional<int> status = run_as_peer(argv[1])) return *status;
  }
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kMatrix = "--matrix=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (const auto set = number(argument, "--rounds=")) rounds() = static_cast<int>(*set);
    if (const auto set = number(argument, "--soak-rounds=")) soak().rounds = *set;
    if (const auto set = number(argument, "--soak-seed=")) soak().seed = *set;
    if (argument == "--gpu") {
      if (const towpath::Status used = use_gpu(); !used.ok()) {
        std::puts(used.to_string().c_str());
        return 3;
      }
    }
    if (!argument.starts_with(kMatrix)) continue;
    testing::UnitTest::GetInstance()->listeners().Append(
        new MatrixListener(std::string(argument.substr(kMatrix.size()))));
  }
  return RUN_ALL_TESTS();
}
