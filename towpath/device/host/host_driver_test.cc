#include <atomic>
#include <csignal>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/device/host/host_driver.h>
#include <towpath/device/host/host_ipc.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>

namespace towpath::device {
namespace {

class HostDriverTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  HostDriver driver_{clock_, {.devices = 1, .memory_bytes = 1 << 20, .numa_node = 3}};
  const std::shared_ptr<Device> device_ = driver_.open(0).value();
};

TEST_F(HostDriverTest, is_no_gpu_and_says_so) {
  EXPECT_FALSE(device_->driver().is_gpu);
  EXPECT_EQ(device_->info().name, "host memory (no GPU)");
  EXPECT_EQ(device_->info().numa_node, 3u);
}

TEST_F(HostDriverTest, a_device_has_as_much_memory_as_it_was_given) {
  auto most = device_->allocate(1 << 19).value();
  const Status status = device_->allocate((1 << 19) + 1).status();
  EXPECT_EQ(status.code(), Code::exhausted);
  EXPECT_EQ(status.message(),
            "cannot allocate 524289 bytes on device 0: 524288 of 1048576 are free");
  EXPECT_TRUE(device_->allocate(1 << 19).ok());
}

TEST_F(HostDriverTest, registered_memory_must_not_overlap) {
  auto mapping = sys::Mapping::anonymous(16384).value();
  auto held = device_->register_host(mapping.bytes().first(8192)).value();
  EXPECT_EQ(device_->register_host(mapping.bytes().subspan(4096, 8192)).code(),
            Code::already_exists);
  EXPECT_TRUE(device_->register_host(mapping.bytes().subspan(8192)).ok());
}

TEST_F(HostDriverTest, time_is_that_of_the_clock_it_was_given) {
  const auto stream = device_->create_stream().value();
  const auto first = device_->create_event({.timed = true}).value();
  const auto last = device_->create_event({.timed = true}).value();
  EXPECT_EQ(last->since(*first).code(), Code::invalid_argument) << "not recorded";
  ASSERT_TRUE(stream->record(*first).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  clock_.advance(std::chrono::milliseconds(5));
  ASSERT_TRUE(stream->record(*last).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(last->since(*first).value(), std::chrono::milliseconds(5));
}

TEST_F(HostDriverTest, records_of_one_event_under_way_are_bounded_and_said) {
  const auto stream = device_->create_stream().value();
  const auto blocker = device_->create_stream().value();
  const auto gate = device_->create_event().value();
  const auto event = device_->create_event().value();
  std::atomic<bool> open{false};
  ASSERT_TRUE(blocker
                  ->run([&] {
                    while (!open) sched_yield();
                  })
                  .ok());
  ASSERT_TRUE(blocker->record(*gate).ok());
  ASSERT_TRUE(stream->wait(*gate).ok());
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(stream->record(*event).ok()) << i;
  EXPECT_EQ(stream->record(*event).code(), Code::exhausted);
  open = true;
  ASSERT_TRUE(event->wait().ok());
  EXPECT_TRUE(stream->record(*event).ok());
}

TEST_F(HostDriverTest, a_handle_of_this_process_or_of_one_that_is_gone_is_refused) {
  auto memory = device_->allocate(4096).value();
  const IpcHandle handle = device_->export_memory(memory).value();
  EXPECT_EQ(device_->import_memory(handle, 4096).code(), Code::invalid_argument);
  EXPECT_EQ(device_->import_memory(handle, 8192).code(), Code::invalid_argument);
  IpcHandle gone = handle;
  const std::int64_t no_process = 0x7fff'ffff;  // beyond the kernel's largest
  std::memcpy(gone.bytes.data() + 16, &no_process, sizeof no_process);
  EXPECT_EQ(device_->import_memory(gone, 4096).code(), Code::not_found);
}

// It would be mapped, and end the process that touches it.
TEST_F(HostDriverTest, a_handle_of_memory_that_its_owner_can_shrink_or_that_is_shorter_is_refused) {
  const sys::Fd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
  const sys::Fd sealed = sys::create_sealed_memfd("sealed", 4096).value();
  const pid_t other = ::fork();
  ASSERT_GE(other, 0);
  while (other == 0) ::pause();
  const auto import = [&](const sys::Fd& fd, std::uint64_t size_bytes) {
    IpcHandle handle = make_handle({.fd = fd.get(), .size_bytes = size_bytes}).value();
    const std::int64_t process = other;
    std::memcpy(handle.bytes.data() + 16, &process, sizeof process);
    return device_->import_memory(handle, size_bytes).code();
  };
  EXPECT_EQ(import(sealed, 4096), Code::ok);
  EXPECT_EQ(import(sealed, 8192), Code::out_of_range);
  EXPECT_EQ(import(unsealed, 4096), Code::denied);
  ::kill(other, SIGKILL);
  EXPECT_EQ(::waitpid(other, nullptr, 0), other);
}

TEST_F(HostDriverTest, pooled_memory_is_not_freed_before_the_stream_has_passed_it) {
  std::atomic<bool> open{false};
  const auto pool = device_->create_pool().value();
  const auto stream = device_->create_stream().value();
  auto memory = PooledMemory::allocate(pool, stream, 4096).value();
  ASSERT_TRUE(stream
                  ->run([&] {
                    while (!open) sched_yield();
                  })
                  .ok());
  memory = PooledMemory();
  EXPECT_EQ(pool->figures()->used_bytes, 4096u);
  open = true;
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(pool->figures()->used_bytes, 0u);
}

TEST_F(HostDriverTest, null_is_no_memory) {
  const auto stream = device_->create_stream().value();
  EXPECT_EQ(stream->copy({.target = 0, .source = 4096, .length = 1}).code(),
            Code::invalid_argument);
  EXPECT_EQ(device_->copy({.target = 4096, .source = 0, .length = 1}).code(),
            Code::invalid_argument);
  EXPECT_EQ(stream->fill({.address = 0, .length = 1}).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::device
