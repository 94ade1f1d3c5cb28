#include <cerrno>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/gds/cufile.h>
#include <towpath/backends/gds/testing/fake_cufile.h>
#include <towpath/sys/fd.h>

namespace towpath::backends::gds {
namespace {

using testing::FakeCufile;
using ::testing::HasSubstr;

CuFileOptions fake(Compat compat = Compat::refuse) {
  return {.libraries = {FakeCufile::path()}, .compat = compat};
}

TEST(CuFileTest, without_a_library_it_says_what_is_missing_and_how_to_get_it) {
  const auto cufile = CuFile::open({.libraries = {"libcufile-not-here.so.0"}});
  EXPECT_EQ(cufile.code(), Code::not_found);
  EXPECT_THAT(cufile.status().to_string(), HasSubstr("libcufile-not-here.so.0"));
  EXPECT_THAT(std::string(cufile.status().hint()), HasSubstr("CUDA toolkit"));
}

TEST(CuFileTest, a_library_without_the_functions_is_too_old) {
  const auto cufile = CuFile::open({.libraries = {"libc.so.6"}});
  EXPECT_EQ(cufile.code(), Code::unsupported);
  EXPECT_THAT(cufile.status().to_string(), HasSubstr("has no cuFile"));
}

TEST(CuFileTest, the_driver_is_started_and_ended_and_reported_to_refuse_compat_mode) {
  const FakeCufile control;
  {
    const auto cufile = CuFile::open(fake());
    ASSERT_TRUE(cufile.ok()) << cufile.status().to_string();
    EXPECT_EQ(control.drivers(), 1u);
    EXPECT_FALSE((*cufile)->may_stage());
    EXPECT_EQ((*cufile)->properties().control_flags & cufile::kCompatAllowed, 0u);
    EXPECT_THAT((*cufile)->describe(), HasSubstr("libcufile 1.15"));
    EXPECT_TRUE((*cufile)->has_batches());
    EXPECT_TRUE((*cufile)->has_streams());
  }
  EXPECT_EQ(control.drivers(), 0u);
  EXPECT_STREQ(control.complaints(), "");
}

TEST(CuFileTest, compat_mode_that_cannot_be_refused_is_never_taken_in_silence) {
  const FakeCufile control;
  control.set_started(true);
  const auto cufile = CuFile::open(fake());
  EXPECT_EQ(cufile.code(), Code::unsupported);
  EXPECT_THAT(cufile.status().to_string(), HasSubstr("started before"));
  EXPECT_THAT(std::string(cufile.status().hint()), HasSubstr("allow_compat_mode"));
  const auto allowed = CuFile::open(fake(Compat::allow));
  ASSERT_TRUE(allowed.ok());
  EXPECT_THAT((*allowed)->describe(), HasSubstr("may stage through host memory"));
}

TEST(CuFileTest, other_modes_that_stage_are_refused_too) {
  const FakeCufile control;
  for (const std::uint64_t mode : {cufile::kPosixAlone, cufile::kFallsBack}) {
    SCOPED_TRACE(mode);
    control.set_version(1180);  // has the mode, and no switch for it
    control.set_configured(mode);
    const auto refused = CuFile::open(fake());
    EXPECT_EQ(refused.code(), Code::unsupported);
    EXPECT_THAT(refused.status().to_string(), HasSubstr("its configuration asks for POSIX I/O"));
    EXPECT_THAT(std::string(refused.status().hint()), HasSubstr("vanilla_posix_io_mode"));
    EXPECT_TRUE(CuFile::open(fake(Compat::allow)).ok());
    control.set_version(1190);
    EXPECT_TRUE(CuFile::open(fake()).ok());
  }
}

TEST(CuFileTest, a_driver_that_does_not_start_is_reported_with_number_and_hint) {
  const FakeCufile control;
  control.fail_next("cuFileDriverOpen", cufile::kNotInitialized);
  const auto none = CuFile::open(fake());
  EXPECT_EQ(none.code(), Code::unsupported);
  EXPECT_THAT(none.status().to_string(), HasSubstr("5001"));
  EXPECT_THAT(std::string(none.status().hint()), HasSubstr("doctor"));
  control.fail_next("cuFileDriverOpen", cufile::kPermissionDenied);
  EXPECT_EQ(CuFile::open(fake()).code(), Code::denied);
  control.fail_next("cuFileDriverGetProperties", 5099);
  EXPECT_THAT(CuFile::open(fake()).status().to_string(), HasSubstr("5099"));
  EXPECT_EQ(control.drivers(), 0u);
}

/// The counters, before and after a read of a file that is empty, which is staged.
void expect_that_a_read_counts(const CuFile& cufile) {
  const auto before = cufile.counters();
  const sys::Fd file(::open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  cufile::FileDescription description;
  description.fd = file.get();
  cufile::FileHandle handle = nullptr;
  ASSERT_EQ(cufile.call().register_file(&handle, &description).code, 0);
  std::byte into{};
  EXPECT_EQ(cufile.call().read(handle, &into, 1, 0, 0), 0);
  cufile.call().deregister_file(handle);
  const auto after = cufile.counters();
  ASSERT_TRUE(before && after);
  EXPECT_EQ(after->posix_reads, before->posix_reads + 1);
  EXPECT_EQ(after->p2p_reads, before->p2p_reads);
}

TEST(CuFileTest, counters_are_found_where_each_version_of_the_library_puts_them) {
  const FakeCufile control;
  for (const std::uint64_t version : {1150, 1180, 1190, 1200}) {
    SCOPED_TRACE(version);
    control.set_version(version);
    expect_that_a_read_counts(*CuFile::open(fake(Compat::allow)).value());
  }
  control.set_version(1210);
  const auto newer = CuFile::open(fake(Compat::allow)).value();
  EXPECT_FALSE(newer->counters()) << "nobody knows how much it would write";
}

TEST(CuFileTest, answers_of_reads_and_writes_are_bytes_or_errno_or_numbers_of_its_own) {
  const FakeCufile control;
  const auto cufile = CuFile::open(fake()).value();
  EXPECT_EQ(CuFile::result_of(4096), 4096);
  errno = ENOSPC;
  EXPECT_EQ(cufile->failure_of(CuFile::result_of(-1), "it").code(), Code::exhausted);
  EXPECT_EQ(cufile->failure_of(CuFile::result_of(-EACCES), "it").code(), Code::denied);
  const Status own = cufile->failure_of(CuFile::result_of(-cufile::kPointerRange), "it");
  EXPECT_EQ(own.code(), Code::out_of_range);
  EXPECT_THAT(own.to_string(), HasSubstr("5014"));
  EXPECT_THAT(cufile->check({.code = cufile::kCudaFailed, .cuda = 801}, "it").to_string(),
              HasSubstr("CUDA 801"));
}

}  // namespace
}  // namespace towpath::backends::gds
