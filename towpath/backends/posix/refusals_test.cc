// What the backend does where the kernel refuses it something: io_uring, locked memory.
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <towpath/backends/posix/posix_fixture.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/testing/child.h>
#include <towpath/sys/testing/few_descriptors.h>

namespace towpath::backends::posix {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

/// There and back, by whatever way.
void round_trip(PosixFixture& posix) {
  const sys::Fd file(::memfd_create("data", MFD_CLOEXEC));
  posix.use_memory(2 * kMiB);
  posix.use_file(file.get(), kMiB);
  fill_with_random_bytes(posix.memory.first(kMiB), 1);
  EXPECT_TRUE(posix.write({posix.segment(0, 0, kMiB)}).status.ok());
  EXPECT_TRUE(posix.read({posix.segment(kMiB, 0, kMiB)}).status.ok());
  EXPECT_EQ(std::memcmp(posix.memory.data(), posix.memory.data() + kMiB, kMiB), 0);
}

std::int64_t gauge(PosixFixture& posix, const std::string& name, telemetry::Labels labels = {}) {
  labels.push_back({"agent", posix.self.name});
  return posix.metrics.gauge(name, std::move(labels)).value();
}

using Forbidden = std::tuple<long, int>;  // a system call, and what it answers
class PosixForbiddenTest : public ::testing::TestWithParam<Forbidden> {};

INSTANTIATE_TEST_SUITE_P(Calls, PosixForbiddenTest,
                         ::testing::Combine(::testing::Values(SYS_io_uring_setup,
                                                              SYS_io_uring_enter,
                                                              SYS_io_uring_register),
                                            ::testing::Values(EPERM, ENOSYS)));

// As in most containers, or with sysctl kernel.io_uring_disabled=2.
TEST_P(PosixForbiddenTest, threads_take_over_by_themselves_and_it_is_reported) {
  const auto body = [] {
    const auto [call, answer] = GetParam();
    if (!sys::testing::refuse_calls({call}, answer)) GTEST_SKIP() << sys::testing::kNoFilter;
    PosixFixture posix(backend::Params{});
    ASSERT_NE(posix.backend, nullptr);
    round_trip(posix);
    EXPECT_EQ(posix.log.count_of("files go through threads"), 1U);
    EXPECT_THAT(posix.backend->describe_path(*posix.local, *posix.imported),
                AllOf(HasSubstr("8 threads"), HasSubstr("io_uring is refused")));
    EXPECT_EQ(gauge(posix, "towpath_posix_engines", {{"engine", "threads"}}), 1);
    const Finding found = posix_type().probe({}).back();
    EXPECT_EQ(found.verdict, Verdict::degraded);
    EXPECT_THAT(found.hint, HasSubstr("allow io_uring"));
  };
  EXPECT_TRUE(sys::testing::passes_in_child(body));
}

TEST_P(PosixForbiddenTest, who_insists_on_io_uring_is_reported_what_forbids_it) {
  const auto body = [] {
    const auto [call, answer] = GetParam();
    if (!sys::testing::refuse_calls({call}, answer)) GTEST_SKIP() << sys::testing::kNoFilter;
    sys::SystemClock clock;
    backend::testing::RecordingEvents events;
    const auto opened =
        posix_type().open({.clock = &clock, .events = &events, .params = {{"engine", "io_uring"}}});
    EXPECT_THAT(opened.code(), AnyOf(Code::denied, Code::unsupported))
        << opened.status().to_string();
    EXPECT_FALSE(opened.status().hint().empty());
  };
  EXPECT_TRUE(sys::testing::passes_in_child(body));
}

TEST(PosixLimitsTest, without_locked_memory_buffers_stay_plain_and_it_is_reported) {
  const auto body = [] {
    if (!sys::testing::become_nobody(64 << 10)) GTEST_SKIP() << sys::testing::kNoNobody;
    PosixFixture posix(backend::Params{{"engine", "io_uring"}});
    ASSERT_NE(posix.backend, nullptr);
    round_trip(posix);
    EXPECT_EQ(posix.log.count_of("memory is not pinned with the engine"), 1U);
    EXPECT_THAT(posix.backend->describe_path(*posix.local, *posix.imported),
                AllOf(HasSubstr("plain buffer"), HasSubstr("ulimit -l")));
    EXPECT_EQ(gauge(posix, "towpath_posix_registered_buffer_bytes"), 0);
    // What fits is pinned all the same.
    posix.use_memory(4096);
    EXPECT_EQ(gauge(posix, "towpath_posix_registered_buffer_bytes"), 4096);
  };
  EXPECT_TRUE(sys::testing::passes_in_child(body));
}

TEST(PosixLimitsTest, without_a_descriptor_nothing_is_opened_and_what_is_open_works) {
  PosixFixture posix(backend::Params{});
  ASSERT_NE(posix.backend, nullptr);
  const auto folder = *sys::TemporaryDirectory::create();
  const std::string path = folder.path() + "/kv";
  ASSERT_TRUE(sys::SystemFileSystem().open(path, {.writable = true, .create = true}).ok());
  const RegionDescriptor by_path{
      .kind = MemoryKind::disk, .length = 4096, .device_id = 900, .key = "rw:" + path};
  const sys::Fd file(::memfd_create("data", MFD_CLOEXEC));
  posix.use_memory(2 * kMiB);
  posix.use_file(file.get(), kMiB);
  {
    const sys::testing::FewDescriptors few(0);
    const auto refused = posix.backend->register_memory(by_path);
    EXPECT_EQ(refused.code(), Code::exhausted) << refused.status().to_string();
    EXPECT_THAT(refused.status().to_string(), HasSubstr("ulimit -n"));
    EXPECT_TRUE(posix.write({posix.segment(0, 0, kMiB)}).status.ok());
    EXPECT_TRUE(posix.read({posix.segment(kMiB, 0, kMiB)}).status.ok());
  }
  EXPECT_TRUE(posix.backend->register_memory(by_path).ok());
}

TEST(PosixLimitsTest, without_descriptors_for_the_engine_it_does_not_open_or_says_what_it_opened) {
  sys::SystemClock clock;
  backend::testing::RecordingEvents events;
  rlim_t free = 0;
  for (bool opens = false; !opens && free < 64; ++free) {
    const sys::testing::FewDescriptors few(free);
    const auto opened = posix_type().open({.clock = &clock, .events = &events, .params = {}});
    opens = opened.ok();
    if (opens) continue;
    EXPECT_EQ(opened.code(), Code::exhausted) << free << ": " << opened.status().to_string();
    EXPECT_THAT(opened.status().to_string(), HasSubstr("ulimit -n")) << free;
  }
  EXPECT_GT(free, 1U) << "nothing was refused";
  EXPECT_LT(free, 64U) << "it never opened";
}

}  // namespace
}  // namespace towpath::backends::posix
