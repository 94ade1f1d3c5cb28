#include <algorithm>
#include <cstring>
#include <variant>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <towpath/backend/testing/backend_stand.h>
#include <towpath/backends/gds/cufile_abi.h>
#include <towpath/backends/gds/gds_backend.h>
#include <towpath/backends/gds/testing/fake_cufile.h>
#include <towpath/core/format.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::backends::gds {
namespace {

using backend::Segment;
using testing::FakeCufile;
using ::testing::HasSubstr;

constexpr std::uint64_t kSize = 1U << 20U;

/// A backend over the fake library, memory of the host device, and a file, as an agent has them.
class GdsBackendTest : public ::testing::Test, protected backend::testing::BackendStand {
 protected:
  Status open(backend::Params params = {}) {
    params.emplace("library", FakeCufile::path());
    TOWPATH_TRY(BackendStand::open(gds_type([this] { return driver; }), std::move(params)));
    device = driver->open(0).value();
    memory = device->allocate(kSize).value();
    local = backend->register_memory(device_region()).value();
    return {};
  }
  RegionDescriptor device_region() const {
    return {.kind = MemoryKind::device, .address = memory.address(), .length = kSize};
  }
  Status use_file(int flags = O_RDWR) {
    file.reset(::open(path().c_str(), flags | O_CREAT | O_CLOEXEC, 0600));
    EXPECT_TRUE(file) << std::strerror(errno);
    return use({.kind = MemoryKind::disk, .length = kSize, .fd = file.get()});
  }
  std::string path() const { return directory.file("data"); }
  ByteSpan bytes() const { return bytes_at(memory.address(), kSize); }
  void fill(std::uint64_t seed) const {
    for (std::byte& byte : bytes()) byte = static_cast<std::byte>((seed = seed * 31 + 7) >> 3U);
  }
  Bytes content() const {
    Bytes all(2 * kSize);
    const ssize_t length = ::pread(file.get(), all.data(), all.size(), 0);
    all.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    return all;
  }
  Segment segment(std::uint64_t at, std::uint64_t offset, std::uint64_t length) const {
    return {local.get(), imported.get(), memory.address() + at, offset, length};
  }
  const FakeCufile library;  // first: what is given back, it sees
  std::shared_ptr<device::Driver> driver = std::make_shared<device::HostDriver>(clock);
  std::shared_ptr<device::Device> device;
  sys::TemporaryDirectory directory = sys::TemporaryDirectory::create("/var/tmp").value();
  sys::Fd file;
  device::Memory memory;

  void TearDown() override {
    close();
    EXPECT_EQ(library.open_files(), 0u);
    EXPECT_EQ(library.registered_buffers(), 0u);
    EXPECT_EQ(library.registered_streams(), 0u);
    EXPECT_EQ(library.drivers(), 0u);
    EXPECT_STREQ(library.complaints(), "");
  }
};

TEST_F(GdsBackendTest, bytes_go_there_and_back_by_any_engine) {
  for (const char* engine : {"threads", "batch", "stream"}) {
    SCOPED_TRACE(engine);
    imported.reset();
    registered.reset();
    local.reset();
    ASSERT_TRUE(open({{"engine", engine}, {"thread_count", "2"}, {"chunk_bytes", "64K"}}).ok());
    ASSERT_TRUE(use_file().ok());
    fill(5);
    const Bytes before(bytes().begin(), bytes().end());
    EXPECT_EQ(move(TransferOp::write, {segment(0, 0, kSize)}).bytes, kSize);
    EXPECT_EQ(content(), before);
    std::ranges::fill(bytes(), std::byte{0});
    const auto outcome = move(TransferOp::read, {segment(0, 0, kSize)});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.to_string();
    EXPECT_TRUE(std::ranges::equal(bytes(), before));
  }
  EXPECT_GT(library.batches(), 0u);
  EXPECT_GT(library.given(), 0u);
}

// NIXL's users number the files that they name by path as they like.
TEST_F(GdsBackendTest, a_mode_and_a_path_win_over_the_number_that_comes_with_them) {
  ASSERT_TRUE(open().ok());
  const sys::Fd another(::open(directory.file("another").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_TRUE(another);
  const auto named = [&](const char* mode) {
    return RegionDescriptor{.kind = MemoryKind::disk,
                            .length = kSize,
                            .device_id = static_cast<std::uint64_t>(another.get()),
                            .fd = another.get(),
                            .key = mode + path()};
  };
  EXPECT_EQ(backend->register_memory(named("rw:")).code(), Code::not_found);
  ASSERT_TRUE(use(named("rw,create,direct:")).ok());
  fill(5);
  const Bytes before(bytes().begin(), bytes().end());
  EXPECT_EQ(move(TransferOp::write, {segment(0, 0, kSize)}).bytes, kSize);
  EXPECT_EQ(::lseek(another.get(), 0, SEEK_END), 0);
  file.reset(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(content(), before);
  ASSERT_TRUE(use(named("ro:")).ok());
  EXPECT_EQ(move(TransferOp::write, {segment(0, 0, kSize)}).status.code(), Code::denied);
  EXPECT_EQ(backend->register_memory(named("rw,creat:")).code(), Code::invalid_argument);
}

TEST_F(GdsBackendTest, a_device_id_stands_for_one_file_while_it_is_registered) {
  ASSERT_TRUE(open().ok());
  const auto named = [](const std::string& mode_and_path, std::uint64_t device_id) {
    return RegionDescriptor{
        .kind = MemoryKind::disk, .length = kSize, .device_id = device_id, .key = mode_and_path};
  };
  const auto code_of = [&](const RegionDescriptor& region) {
    return backend->register_memory(region).code();
  };
  const std::string other = "rw,create:" + directory.file("other");
  ASSERT_TRUE(use(named("rw,create:" + path(), 1)).ok());
  EXPECT_EQ(code_of(named(other, 1)), Code::already_exists);
  EXPECT_EQ(code_of(named("ro:" + path(), 1)), Code::already_exists) << "writes go either way";
  EXPECT_EQ(code_of(named("rw:" + path(), 1)), Code::ok);
  EXPECT_EQ(code_of(named(other, 2)), Code::ok);
  registered->revoke();  // its last transfers may be under way
  EXPECT_EQ(code_of(named(other, 1)), Code::ok);
}

TEST_F(GdsBackendTest, a_number_that_went_to_another_file_is_not_confirmed) {
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(use_file().ok());
  const sys::Fd another(
      ::open(directory.file("another").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  RegionDescriptor region{.kind = MemoryKind::disk, .length = kSize, .fd = file.get()};
  EXPECT_TRUE(backend->confirm(*registered, region).ok());
  EXPECT_TRUE(backend->confirm(*local, device_region()).ok());
  ASSERT_EQ(::dup2(another.get(), file.get()), file.get());
  EXPECT_EQ(backend->confirm(*registered, region).code(), Code::already_exists);
  region.key = "rw:" + path();
  EXPECT_TRUE(backend->confirm(*registered, region).ok()) << "the path names it";
}

TEST_F(GdsBackendTest, neighbours_go_in_one_call_and_gaps_cut) {
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(use_file().ok());
  Segment dense = segment(0, 4096, 512);
  dense.count = 8;
  dense.local_stride = dense.remote_stride = 512;
  Segment gaps = segment(65'536, 65'536, 512);
  gaps.count = 4;
  gaps.local_stride = 512;
  gaps.remote_stride = 1024;
  fill(1);
  EXPECT_TRUE(move(TransferOp::write, {dense, segment(4096, 8192, 100), gaps}).status.ok());
  EXPECT_EQ(counted("towpath_gds_calls_total"), 5u);
  EXPECT_EQ(counted("towpath_gds_bytes_total"), 8 * 512u + 100 + 4 * 512);
  EXPECT_EQ(counted("towpath_gds_operations_total"), 1u);
}

TEST_F(GdsBackendTest, short_ones_go_on_and_the_end_of_the_file_is_an_error_with_what_arrived) {
  ASSERT_TRUE(open({{"thread_count", "1"}}).ok());
  ASSERT_TRUE(use_file().ok());
  fill(2);
  library.set_longest(10'000);
  EXPECT_EQ(move(TransferOp::write, {segment(0, 0, 100'000)}).bytes, 100'000u);
  EXPECT_EQ(counted("towpath_gds_short_continuations_total"), 9u);
  const auto cut = move(TransferOp::read, {segment(0, 90'000, 4000), segment(8192, 99'000, 4000)});
  EXPECT_EQ(cut.status.code(), Code::out_of_range);
  EXPECT_EQ(cut.bytes, 5000u);
  ASSERT_EQ(cut.failures.size(), 1u);
  EXPECT_EQ(cut.failures[0].segment, 1u);
  EXPECT_EQ(cut.failures[0].bytes, 1000u);
  EXPECT_THAT(cut.failures[0].status.to_string(), HasSubstr("the file ends before"));
}

TEST_F(GdsBackendTest, an_error_names_its_extent_and_the_others_arrive) {
  ASSERT_TRUE(open({{"thread_count", "1"}}).ok());
  ASSERT_TRUE(use_file().ok());
  library.fail_next("cuFileWrite", cufile::kInternal, 1);
  const auto outcome = move(TransferOp::write, {segment(0, 0, 4096), segment(8192, 8192, 4096),
                                                segment(20'480, 20'480, 4096)});
  EXPECT_EQ(outcome.status.code(), Code::io_error);
  EXPECT_EQ(outcome.bytes, 8192u);
  ASSERT_EQ(outcome.failures.size(), 1u);
  EXPECT_EQ(outcome.failures[0].segment, 1u);
  EXPECT_THAT(outcome.failures[0].status.to_string(), HasSubstr("5030"));
}

TEST_F(GdsBackendTest, what_a_batch_leaves_undone_is_done_by_itself) {
  ASSERT_TRUE(open({{"engine", "batch"}, {"thread_count", "1"}, {"chunk_bytes", "4K"}}).ok());
  ASSERT_TRUE(use_file().ok());
  fill(4);
  library.set_broken_batches(true);
  EXPECT_TRUE(move(TransferOp::write, {segment(0, 0, 65'536)}).status.ok());
  EXPECT_GT(library.batches(), 0u);
  EXPECT_TRUE(std::ranges::equal(content(), bytes().first(65'536)));
  library.set_broken_batches(false);
  library.set_longest(1000);
  EXPECT_TRUE(move(TransferOp::write, {segment(4096, 0, 65'536)}).status.ok());
  EXPECT_TRUE(std::ranges::equal(content(), bytes().subspan(4096, 65'536)));
  library.set_longest(0);
  library.fail_next("cuFileBatchIOSubmit", cufile::kBatchFailed);
  EXPECT_TRUE(move(TransferOp::write, {segment(0, 0, 65'536)}).status.ok());
  EXPECT_TRUE(std::ranges::equal(content(), bytes().first(65'536)));
}

TEST_F(GdsBackendTest, io_in_streams_is_reported_and_each_gpu_has_its_streams) {
  ASSERT_TRUE(open({{"engine", "stream"}, {"thread_count", "3"}, {"chunk_bytes", "4K"}}).ok());
  ASSERT_TRUE(use_file().ok());
  EXPECT_THAT(backend->describe_path(*local, *imported), HasSubstr("in the order of 3 streams"));
  EXPECT_EQ(library.registered_streams(), 0u) << "none before there is something to do";
  fill(6);
  EXPECT_TRUE(move(TransferOp::write, {segment(0, 0, 65'536)}).status.ok());
  EXPECT_EQ(library.registered_streams(), 3u);
  EXPECT_EQ(library.given(), 16u);
  EXPECT_TRUE(std::ranges::equal(content(), bytes().first(65'536)));
}

TEST_F(GdsBackendTest, io_that_fails_in_its_stream_or_before_names_its_extent) {
  ASSERT_TRUE(open({{"engine", "stream"}, {"thread_count", "1"}}).ok());
  ASSERT_TRUE(use_file().ok());
  fill(7);
  const std::vector<Segment> three{segment(0, 0, 4096), segment(8192, 8192, 4096),
                                   segment(20'480, 20'480, 4096)};
  for (const char* symbol : {"cuFileWrite", "cuFileWriteAsync"}) {
    SCOPED_TRACE(symbol);
    library.fail_next(symbol, cufile::kPinningFailed, 1);
    const auto outcome = move(TransferOp::write, three);
    EXPECT_EQ(outcome.status.code(), Code::exhausted);
    EXPECT_EQ(outcome.bytes, 8192u);
    ASSERT_EQ(outcome.failures.size(), 1u);
    EXPECT_EQ(outcome.failures[0].segment, 1u);
  }
  library.set_longest(1000);
  EXPECT_TRUE(move(TransferOp::read, {segment(0, 0, 4096)}).status.ok()) << "short ones go on";
  library.fail_next("cuFileStreamRegister", cufile::kInvalidValue);
  local = backend->register_memory(device_region()).value();
  EXPECT_TRUE(move(TransferOp::read, {segment(0, 0, 4096)}).status.ok()) << "those that are stay";
}

TEST_F(GdsBackendTest, streams_that_libcufile_does_not_take_are_an_error_of_the_transfer) {
  ASSERT_TRUE(open({{"engine", "stream"}}).ok());
  ASSERT_TRUE(use_file().ok());
  library.fail_next("cuFileStreamRegister", cufile::kInvalidValue, 2);
  const auto refused = move(TransferOp::write, {segment(0, 0, 4096)});
  EXPECT_THAT(refused.status.to_string(), HasSubstr("5022"));
  EXPECT_EQ(library.registered_streams(), 0u) << "all or none";
  EXPECT_TRUE(move(TransferOp::write, {segment(0, 0, 4096)}).status.ok()) << "tried again";
}

// The handle that libcufile gets is a CUstream: this libcuda finds its own behind it.
TEST_F(GdsBackendTest, io_goes_into_streams_of_cuda) {
  const device::testing::FakeCuda cuda;
  driver = device::CudaDriver::open({.library = device::testing::FakeCuda::path()}).value();
  const auto libcuda = sys::DynamicLibrary::open(device::testing::FakeCuda::path()).value();
  library.set_launch(libcuda.find("cuLaunchHostFunc"));
  ASSERT_TRUE(open({{"engine", "stream"}, {"thread_count", "2"}, {"chunk_bytes", "16K"}}).ok());
  ASSERT_TRUE(use_file().ok());
  fill(8);
  EXPECT_TRUE(move(TransferOp::write, {segment(0, 0, kSize)}).status.ok());
  EXPECT_TRUE(std::ranges::equal(content(), bytes()));
  EXPECT_EQ(library.given(), kSize / 16'384);
  imported.reset();
  registered.reset();
  local.reset();
  connection.reset();
  backend.reset();  // its streams are CUDA's
  memory = {};
  EXPECT_STREQ(cuda.complaints(), "");
}

TEST_F(GdsBackendTest, a_file_system_that_does_not_go_straight_is_refused_once_and_reported) {
  ASSERT_TRUE(open().ok());
  library.set_direct(false);
  const Status refused = use_file();
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_THAT(std::string(refused.hint()), HasSubstr("doctor"));
  library.set_direct(true);
  const Status again = use_file();
  EXPECT_EQ(again.code(), Code::unsupported) << "decided once for the file system";
  EXPECT_THAT(again.to_string(), HasSubstr("do not go straight"));
  EXPECT_EQ(
      std::ranges::count_if(
          log.events(), [](const auto& event) { return event.level == telemetry::Level::warning; }),
      1);
}

TEST_F(GdsBackendTest, what_is_no_file_decides_nothing_about_its_file_system) {
  ASSERT_TRUE(open().ok());
  const sys::Fd folder(::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const RegionDescriptor region{.kind = MemoryKind::disk, .length = kSize, .device_id = 7};
  for (const std::string& key : {directory.path(), "ro:" + directory.path(), std::string()}) {
    RegionDescriptor wrong = region;
    wrong.key = key;
    wrong.fd = key.empty() ? folder.get() : -1;
    EXPECT_EQ(backend->register_memory(wrong).code(), Code::invalid_argument) << key;
  }
  const Status right = use_file();
  EXPECT_TRUE(right.ok()) << right.to_string();
}

// Nothing is read from them. Their names are in one file system, and say nothing about them.
TEST_F(GdsBackendTest, drives_are_decided_about_one_by_one) {
  ASSERT_TRUE(open().ok());
  const auto drive = [](const char* path) {
    return RegionDescriptor{.kind = MemoryKind::disk, .length = 1, .device_id = 7, .key = path};
  };
  const auto cannot_open = [](const char* path) {
    return !sys::Fd(::open(path, O_RDWR | O_DIRECT | O_CLOEXEC));
  };
  constexpr const char* kOne = "/dev/loop6";
  constexpr const char* kOther = "/dev/loop7";
  if (cannot_open(kOne) || cannot_open(kOther)) GTEST_SKIP() << "no loop devices for this user";
  library.set_direct(false);
  EXPECT_EQ(backend->register_memory(drive(kOne)).code(), Code::unsupported);
  library.set_direct(true);
  EXPECT_EQ(backend->register_memory(drive(kOne)).code(), Code::unsupported) << "decided once";
  const auto other = backend->register_memory(drive(kOther));
  EXPECT_TRUE(other.ok()) << other.status().to_string();
}

TEST_F(GdsBackendTest, directories_are_decided_about_when_it_opens) {
  ASSERT_TRUE(open({{"directories", cat(directory.path(), ":/nowhere")}}).ok());
  std::string reported;
  for (const auto& event : log.events()) reported += telemetry::to_string(event) + "\n";
  EXPECT_THAT(reported, HasSubstr("go straight to the GPU"));
  EXPECT_THAT(reported, HasSubstr("/nowhere"));
}

TEST_F(GdsBackendTest, compat_mode_that_is_allowed_is_reported_on_every_path) {
  library.set_direct(false);
  ASSERT_TRUE(open({{"compat", "allow"}}).ok());
  ASSERT_TRUE(use_file().ok());
  EXPECT_TRUE(move(TransferOp::write, {segment(0, 0, 4096)}).status.ok());
  EXPECT_THAT(backend->describe_path(*local, *imported),
              HasSubstr("may stage through host memory"));
}

TEST_F(GdsBackendTest, the_way_is_reported_with_what_is_not_registered) {
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(use_file().ok());
  EXPECT_THAT(backend->describe_path(*local, *imported),
              ::testing::AllOf(HasSubstr("compat mode refused"), HasSubstr("registered buffer"),
                               HasSubstr("O_DIRECT")));
  auto more = device->allocate(4096).value();
  library.fail_next("cuFileBufRegister", cufile::kPinningFailed);
  const auto plain = backend->register_memory(
      {.kind = MemoryKind::device, .address = more.address(), .length = 4096});
  ASSERT_TRUE(plain.ok());
  EXPECT_THAT(backend->describe_path(**plain, *imported), HasSubstr("5036"));
}

TEST_F(GdsBackendTest, what_waits_is_taken_back_by_a_cancel_and_what_runs_ends_first) {
  ASSERT_TRUE(open({{"thread_count", "1"}, {"chunk_bytes", "4K"}}).ok());
  ASSERT_TRUE(use_file().ok());
  const std::vector<Segment> segments{segment(0, 0, kSize)};
  auto operation = backend->make_operation();
  operation->post({TransferOp::write, connection.get(), segments});
  operation->cancel();
  run(*operation);
  const auto& outcome = events.last(*operation);
  EXPECT_EQ(outcome.status.code(), Code::cancelled);
  EXPECT_LT(outcome.bytes, kSize);
}

TEST_F(GdsBackendTest, what_is_no_memory_of_its_kinds_is_refused) {
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(backend->register_memory({.address = 4096, .length = 1}).code(), Code::unsupported);
  EXPECT_EQ(backend->register_memory({.kind = MemoryKind::device, .length = 1}).code(),
            Code::invalid_argument);
  EXPECT_EQ(backend->register_memory({.kind = MemoryKind::disk, .length = 1}).code(),
            Code::invalid_argument);
  ASSERT_TRUE(use_file(O_RDONLY).ok());
  EXPECT_EQ(move(TransferOp::write, {segment(0, 0, 1)}).status.code(), Code::denied);
  EXPECT_EQ(backend->connect({"decode", 1}, {}).code(), Code::unsupported);
}

TEST_F(GdsBackendTest, parameters_are_checked) {
  EXPECT_EQ(open({{"engine", "magic"}}).code(), Code::invalid_argument);
  EXPECT_EQ(open({{"batch_limit", "1000"}}).code(), Code::invalid_argument);
  EXPECT_EQ(open({{"compat", "yes"}}).code(), Code::invalid_argument);
  EXPECT_EQ(open({{"library", "libcufile-not-here.so"}}).code(), Code::not_found);
}

}  // namespace
}  // namespace towpath::backends::gds
