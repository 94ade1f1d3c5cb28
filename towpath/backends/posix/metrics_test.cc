// What the backend publishes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <towpath/backends/posix/counters.h>
#include <towpath/backends/posix/posix_fixture.h>

namespace towpath::backends::posix {
namespace {

/// "name{labels} value" of all that is not 0, but those that depend on the kernel's mood.
std::vector<std::string> shown(const telemetry::Metrics& metrics) {
  std::vector<std::string> lines;
  for (const telemetry::Metric& metric : metrics.snapshot()) {
    const auto* counter = std::get_if<std::uint64_t>(&metric.value);
    const auto* gauge = std::get_if<std::int64_t>(&metric.value);
    const std::int64_t value = gauge != nullptr ? *gauge : static_cast<std::int64_t>(*counter);
    if (value == 0 || metric.name == "towpath_posix_batches_total") continue;
    lines.push_back(telemetry::to_string(metric.name, metric.labels) + " " + std::to_string(value));
  }
  return lines;
}

TEST(PosixMetricsTest, bytes_operations_and_what_is_held_are_published) {
  PosixFixture posix({{"engine", "io_uring"}, {"registered_buffers", "on"}});
  const sys::Fd file(::memfd_create("data", MFD_CLOEXEC));
  posix.use_memory(1U << 20U);
  posix.use_file(file.get(), 1U << 20U);
  ASSERT_TRUE(posix.write({posix.segment(0, 0, 5000)}).status.ok());
  ASSERT_TRUE(posix.read({posix.segment(0, 0, 1000), posix.segment(8192, 2000, 10)}).status.ok());
  EXPECT_FALSE(posix.read({posix.segment(0, 9000, 10)}).status.ok());
  EXPECT_THAT(
      shown(posix.metrics),
      testing::ElementsAre(
          R"(towpath_posix_bytes_total{agent="prefill-0",op="read",path="buffered"} 1010)",
          R"(towpath_posix_bytes_total{agent="prefill-0",op="write",path="buffered"} 5000)",
          R"(towpath_posix_engines{agent="prefill-0",engine="io_uring"} 1)",
          R"(towpath_posix_files{agent="prefill-0",mode="buffered"} 1)",
          R"(towpath_posix_ios_total{agent="prefill-0"} 4)",
          R"(towpath_posix_operations_total{agent="prefill-0",ending="done",op="read"} 1)",
          R"(towpath_posix_operations_total{agent="prefill-0",ending="done",op="write"} 1)",
          R"(towpath_posix_operations_total{agent="prefill-0",ending="failed",op="read"} 1)",
          R"(towpath_posix_registered_buffer_bytes{agent="prefill-0"} 1048576)",
          R"(towpath_posix_registered_buffer_ios_total{agent="prefill-0"} 4)"));
}

TEST(PosixMetricsTest, what_was_held_is_given_back_at_the_end) {
  PosixFixture posix(backend::Params{});
  const sys::Fd file(::memfd_create("data", MFD_CLOEXEC));
  posix.use_memory(4096);
  posix.use_file(file.get(), 4096);
  posix.imported.reset();
  posix.registered.reset();
  posix.local.reset();
  posix.backend.reset();
  EXPECT_THAT(shown(posix.metrics), testing::IsEmpty());
}

TEST(PosixMetricsTest, two_agents_of_one_composition_are_reported_apart) {
  telemetry::Metrics metrics;
  Counters one(&metrics, "one");
  Counters two(&metrics, "two");
  one.moved(true, Path::direct).add(7);
  EXPECT_EQ(two.moved(true, Path::direct).value(), 0U);
  EXPECT_EQ(Counters(&metrics, "one").moved(true, Path::direct).value(), 7U);
}

}  // namespace
}  // namespace towpath::backends::posix
