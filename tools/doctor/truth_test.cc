#include "tools/doctor/truth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/gds/cufile.h>
#include <towpath/backends/gds/gds_backend.h>
#include <towpath/backends/gds/testing/fake_cufile.h>
#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/staging/staged_backend.h>
#include <towpath/sys/clock.h>

namespace towpath::tools {
namespace {

using backends::gds::testing::FakeCufile;
using ::testing::HasSubstr;

/// The backends that reach files, over a device that is host memory and a libcufile of the tests.
class TruthTest : public ::testing::Test {
 protected:
  TruthTest() {
    const auto open = [this]() -> Result<std::shared_ptr<device::Driver>> { return driver; };
    backend::BackendType gds = backends::gds::gds_type(open);
    gds.open = [type = gds](backend::BackendContext context) {
      context.params = {{"library", FakeCufile::path()}, {"compat", "allow"}};
      return type.open(context);
    };
    EXPECT_TRUE(registry.add(std::move(gds)).ok());
    EXPECT_TRUE(registry.add(staging::staged(backends::posix::posix_type(), {.open = open})).ok());
    EXPECT_TRUE(registry.add(backends::loopback::loopback_type()).ok());
    device = driver->open(0).value();
  }
  Counter library_counter() {
    const auto library = backends::gds::CuFile::open({.libraries = {FakeCufile::path()},
                                                      .compat = backends::gds::Compat::allow})
                             .value();
    return [library] {
      const auto gpu = library->counters().value();
      return Counts{.straight_reads = gpu.p2p_reads, .staged_reads = gpu.posix_reads};
    };
  }
  Finding ask(const char* backend, bool to_device, const Counter& count) {
    return prove(registry, {"/var/tmp", backend, to_device ? device : nullptr}, count);
  }

  const FakeCufile control;
  sys::SystemClock clock;
  std::shared_ptr<device::Driver> driver = std::make_shared<device::HostDriver>(clock);
  memory::SharedDevice device;
  backend::Registry registry;
};

Counter counter_of(std::uint64_t fetched_each_time) {
  return [fetched_each_time, all = std::uint64_t{0}]() mutable {
    return Counts{.fetched_bytes = all += fetched_each_time};
  };
}

TEST_F(TruthTest, what_was_fetched_from_storage_went_straight) {
  const Finding finding = ask("posix", false, counter_of(kTruthBytes));
  EXPECT_EQ(finding.verdict, Verdict::yes) << finding.reason;
  EXPECT_THAT(finding.reason, HasSubstr("the kernel fetched 64 KiB"));
}

TEST_F(TruthTest, what_nobody_counted_did_not_whatever_the_backend_says) {
  const Finding finding = ask("posix", false, counter_of(4096));
  EXPECT_EQ(finding.verdict, Verdict::degraded);
  EXPECT_THAT(finding.reason, HasSubstr("the kernel fetched 4 KiB"));
  EXPECT_FALSE(finding.hint.empty());
}

TEST_F(TruthTest, the_librarys_counters_report_straight_from_staged) {
  const Finding straight = ask("gds", true, library_counter());
  EXPECT_EQ(straight.verdict, Verdict::yes) << straight.reason;
  EXPECT_THAT(straight.reason, HasSubstr("1 reads straight and 0 through host memory"));
  control.set_direct(false);
  const Finding staged = ask("gds", true, library_counter());
  EXPECT_EQ(staged.verdict, Verdict::degraded);
  EXPECT_THAT(staged.reason, HasSubstr("0 reads straight and 1 through host memory"));
}

TEST_F(TruthTest, a_library_that_does_not_count_has_nvidia_fs_count) {
  const auto driver_counts = [](std::uint64_t each_time) -> Counter {
    return [each_time, all = std::uint64_t{0}]() mutable {
      return Counts{.driver_reads = all += each_time};
    };
  };
  const Finding straight = ask("gds", true, driver_counts(1));
  EXPECT_EQ(straight.verdict, Verdict::yes);
  EXPECT_THAT(straight.reason, HasSubstr("nvidia-fs counted 1 reads straight"));
  EXPECT_EQ(ask("gds", true, driver_counts(0)).verdict, Verdict::degraded);
}

TEST_F(TruthTest, staging_is_never_straight) {
  const Finding finding = ask("posix", true, counter_of(kTruthBytes));
  EXPECT_EQ(finding.verdict, Verdict::degraded);
  EXPECT_THAT(finding.reason, HasSubstr("staged through"));
}

TEST_F(TruthTest, what_cannot_be_moved_is_reported_with_its_reason) {
  control.fail_next("cuFileRead", backends::gds::cufile::kInternal);
  EXPECT_EQ(ask("gds", true, counter_of(0)).verdict, Verdict::no);
  const Finding finding = ask("loopback", false, counter_of(0));
  EXPECT_EQ(finding.verdict, Verdict::no);
  EXPECT_THAT(finding.reason, HasSubstr("disk"));
  EXPECT_EQ(prove(registry, {"/nowhere/at/all", "posix", nullptr}, counter_of(0)).verdict,
            Verdict::no);
}

}  // namespace
}  // namespace towpath::tools
