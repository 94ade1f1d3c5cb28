#include "bench/perftest.h"

#include <array>
#include <cstdio>

#include <unistd.h>

#include <towpath/core/format.h>

namespace towpath::bench {
namespace {

// Columns of its last line, counted from 0 behind "Final:".
constexpr std::size_t kMedianMicroseconds = 1;
constexpr std::size_t kOverallMicroseconds = 3;
constexpr std::size_t kOverallMebibytesPerSecond = 5;

std::string program(const Perftest& test) {
  return cat("UCX_TLS=", test.transports, " ucx_perftest ", test.how);
}

double run(const Perftest& test, std::size_t column) {
  static int port = 20000 + ::getpid() % 20000;
  const std::string on_port = cat(" -p ", ++port);
  const std::string both = cat("(", program(test), on_port, " >/dev/null 2>&1 &) ; ",
                               "for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; ", test.command(),
                               on_port, " 127.0.0.1 2>/dev/null | grep Final && break; done");
  std::FILE* const output = ::popen(both.c_str(), "r");
  std::array<char, 512> line{};
  const bool reported =
      output != nullptr && std::fgets(line.data(), line.size(), output) != nullptr;
  if (output != nullptr) ::pclose(output);
  std::array<double, 7> columns{};
  if (!reported ||
      std::sscanf(line.data(), "Final: %lf %lf %lf %lf %lf %lf %lf", &columns[0], &columns[1],
                  &columns[2], &columns[3], &columns[4], &columns[5], &columns[6]) < 6)
    fail(error(Code::unavailable, cat("no figure from: ", test.command()),
               "apt-get install ucx-utils"));
  return columns.at(column);
}

}  // namespace

std::string Perftest::command() const {
  return cat(program(*this), " -t ", test, " -s ", size, " -n ", iterations, " -w ", warm_up());
}

Sample bandwidth_of(const Perftest& test) {
  return [test] { return 1e9 / (run(test, kOverallMebibytesPerSecond) * 1024 * 1024); };
}

Sample median_bandwidth_of(const Perftest& test) {
  return [test] { return 1e3 * run(test, kMedianMicroseconds) / static_cast<double>(test.size); };
}

Sample round_trip_of(const Perftest& test) {
  return [test] { return 2e3 * run(test, kOverallMicroseconds); };  // it reports half of it
}

}  // namespace towpath::bench
