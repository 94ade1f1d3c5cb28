// The main function of a fuzz target without a fuzzer: gives it every file of the folders
// named on the command line, the empty input, and each file cut short and with bits turned, so that
// a short look for trouble runs with every suite. A folder without a seed is an error.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

void feed(const Input& input) { LLVMFuzzerTestOneInput(input.data(), input.size()); }

/// A few hundred neighbours of one seed, the same ones in every run.
std::size_t feed_neighbours(const Input& seed) {
  const std::size_t step = seed.size() / 128 + 1;
  std::size_t count = 0;
  for (std::size_t at = 0; at < seed.size(); at += step, count += 2) {
    feed(Input(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(at)));
    Input turned = seed;
    turned[at] ^= static_cast<std::uint8_t>(1U << (at % 8));
    feed(turned);
  }
  return count;
}

Input read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Input(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

int main(int argc, char** argv) {
  feed({});
  std::size_t seeds = 0;
  std::size_t neighbours = 0;
  for (int i = 1; i < argc; ++i) {
    const std::size_t before = seeds;
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i], error)) {
      if (!entry.is_regular_file()) continue;
      const Input seed = read(entry.path());
      std::printf("%s (%zu bytes)\n", entry.path().c_str(), seed.size());
      feed(seed);
      neighbours += feed_neighbours(seed);
      ++seeds;
    }
    if (seeds == before) {
      std::printf("%s holds no seed\n", argv[i]);
      return 1;
    }
  }
  std::printf("%zu seeds, %zu neighbours\n", seeds, neighbours);
  return 0;
}
