#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/device/kernels/box_kernel_ptx.h>
#include <towpath/device/probe.h>
#include <towpath/device/testing/fake_cuda.h>
#include <towpath/device/testing/fake_nvml.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/system_file.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::device {
namespace {

using ::testing::HasSubstr;

CudaDriverOptions fake() { return {.library = testing::FakeCuda::path(), .sys = "/nowhere"}; }

std::shared_ptr<Device> fake_device() { return CudaDriver::open(fake()).value()->open(0).value(); }

TEST(CudaDriverTest, without_a_driver_it_says_what_is_missing_and_how_to_get_it) {
  const auto driver = CudaDriver::open({.library = "libcuda-not-here.so.1"});
  EXPECT_EQ(driver.code(), Code::unsupported);
  EXPECT_THAT(std::string(driver.status().message()), HasSubstr("CUDA's driver is not here"));
  EXPECT_THAT(std::string(driver.status().hint()), HasSubstr("install NVIDIA's driver"));
  EXPECT_THAT(driver.status().to_string(), HasSubstr("libcuda-not-here.so.1"));
}

TEST(CudaDriverTest, a_library_without_the_functions_is_too_old) {
  const auto driver = CudaDriver::open({.library = "libc.so.6"});
  EXPECT_EQ(driver.code(), Code::unsupported);
  EXPECT_THAT(driver.status().to_string(), HasSubstr("has no cu"));
}

TEST(CudaDriverTest, a_driver_without_a_gpu_is_unsupported_and_one_in_use_may_be_retried) {
  const testing::FakeCuda control;
  control.fail_next("cuInit", cuda::kNoDevice);
  const auto none = CudaDriver::open(fake());
  EXPECT_EQ(none.code(), Code::unsupported);
  EXPECT_THAT(std::string(none.status().hint()), HasSubstr("CUDA_VISIBLE_DEVICES"));
  control.fail_next("cuInit", cuda::kSystemNotReady);
  EXPECT_EQ(CudaDriver::open(fake()).code(), Code::unavailable);
  control.fail_next("cuInit", cuda::kSystemDriverMismatch);
  EXPECT_THAT(CudaDriver::open(fake()).status().to_string(), HasSubstr("reboot"));
}

TEST(CudaDriverTest, an_error_has_name_text_number_values_and_hint) {
  const auto device = fake_device();
  testing::FakeCuda().fail_next("cuMemAlloc_v2", cuda::kOutOfMemory);
  const Status status = device->allocate(777).status();
  EXPECT_EQ(status.code(), Code::exhausted);
  EXPECT_EQ(status.message(),
            "cannot allocate 777 bytes on GPU 0: out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)");
  EXPECT_FALSE(status.hint().empty());
}

TEST(CudaDriverTest, an_error_that_the_driver_cannot_name_is_reported_by_number) {
  const auto device = fake_device();
  testing::FakeCuda().fail_next("cuMemAlloc_v2", 12345);
  const Status status = device->allocate(1).status();
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_THAT(std::string(status.message()), HasSubstr("12345"));
}

TEST(CudaDriverTest, a_device_that_writes_no_words_says_so) {
  const auto device = fake_device();
  const auto memory = device->allocate(8).value();
  testing::FakeCuda().fail_next("cuStreamWriteValue64_v2", cuda::kNotSupported);
  const Status status = device->create_stream().value()->write_word({memory.address(), 7});
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_THAT(status.to_string(), HasSubstr("cannot write 7 at"));
}

TEST(CudaDriverTest, a_wait_that_fails_does_not_return_before_the_work_is_over) {
  std::atomic<bool> is_over = false;
  const auto long_work = [&] {
    const sys::SystemClock clock;  // yields alone take minutes on a busy machine
    const Instant until = clock.now() + std::chrono::milliseconds(20);
    while (clock.now() < until) sched_yield();
    is_over = true;
  };
  const auto stream = fake_device()->create_stream().value();
  ASSERT_TRUE(stream->run(long_work).ok());
  testing::FakeCuda().fail_next("cuStreamSynchronize", cuda::kOperatingSystem);
  EXPECT_FALSE(stream->synchronize().ok());
  EXPECT_TRUE(is_over);
}

TEST(CudaDriverTest, a_context_that_cannot_be_made_current_fails_the_call) {
  const auto device = fake_device();
  testing::FakeCuda().fail_next("cuCtxPushCurrent_v2", cuda::kInvalidContext);
  EXPECT_FALSE(device->allocate(1).ok());
  EXPECT_EQ(testing::FakeCuda().current_depth(), 0);
}

TEST(CudaDriverTest, pinned_memory_that_the_device_cannot_reach_is_given_back) {
  const auto device = fake_device();
  testing::FakeCuda().fail_next("cuMemHostGetDevicePointer_v2", cuda::kInvalidValue);
  auto mapping = sys::Mapping::anonymous(4096).value();
  EXPECT_EQ(device->register_host(mapping.bytes()).code(), Code::invalid_argument);
  EXPECT_TRUE(device->register_host(mapping.bytes()).ok()) << "it is not registered any more";
}

TEST(CudaDriverTest, memory_that_cannot_be_given_back_stays_held_and_may_be_tried_again) {
  const auto device = fake_device();
  auto mapping = sys::Mapping::anonymous(4096).value();
  auto memory = device->register_host(mapping.bytes()).value();
  testing::FakeCuda().fail_next("cuMemHostUnregister", cuda::kHostMemoryNotRegistered);
  EXPECT_EQ(memory.release().code(), Code::not_found);
  EXPECT_TRUE(memory);
  EXPECT_TRUE(memory.release().ok());
  EXPECT_FALSE(memory);
}

TEST(CudaDriverTest, a_driver_that_ended_before_us_is_no_error) {
  const auto device = fake_device();
  auto memory = device->allocate(4096).value();
  testing::FakeCuda().fail_next("cuMemFree_v2", cuda::kDeinitialized);
  EXPECT_TRUE(memory.release().ok());
}

TEST(CudaDriverTest, a_batch_that_the_driver_cannot_take_is_given_one_by_one) {
  const auto device = fake_device();
  const auto stream = device->create_stream().value();
  auto memory = device->allocate(64).value();
  std::vector<std::byte> there(64, std::byte{5}), back(64);
  testing::FakeCuda().fail_next("cuMemcpyBatchAsync", cuda::kNotSupported);
  ASSERT_TRUE(stream
                  ->copy_batch(
                      std::vector<Copy>{{memory.address(), address_of(there.data()), 32},
                                        {memory.address() + 32, address_of(there.data()) + 32, 32}})
                  .ok());
  ASSERT_TRUE(stream->copy({address_of(back.data()), memory.address(), 64}).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(back, there);
}

// As PyTorch captures: in the mode in which other threads must not ask for an event's state.
TEST(CudaDriverTest, a_graph_that_another_thread_captures_fails_no_call) {
  const testing::FakeCuda control;
  const auto driver = CudaDriver::open(fake()).value();
  control.set_capturing(true);
  const auto device = driver->open(0).value();
  {
    auto memory = device->allocate(64);
    const auto stream = device->create_stream().value();
    const auto event = device->create_event().value();
    ASSERT_TRUE(memory.ok()) << memory.status().to_string();
    EXPECT_TRUE(stream->fill({.address = memory->address(), .length = 64}).ok());
    EXPECT_TRUE(stream->record(*event).ok());
    EXPECT_TRUE(event->is_done().ok()) << event->is_done().status().to_string();
    EXPECT_TRUE(stream->synchronize().ok());
    EXPECT_TRUE(memory->release().ok());
  }
  control.set_capturing(false);
  EXPECT_EQ(control.capture_mode(), 0);
}

TEST(CudaDriverTest, an_address_of_no_context_is_system_memory) {
  const auto driver = CudaDriver::open(fake()).value();
  testing::FakeCuda().fail_next("cuPointerGetAttributes", cuda::kInvalidContext);
  const int local = 0;
  const auto facts = driver->facts_of(address_of(&local));
  ASSERT_TRUE(facts.ok()) << facts.status().to_string();
  EXPECT_EQ(facts->kind, MemoryKind::system);
}

TEST(CudaDriverTest, rows_whose_pitch_the_driver_refuses_are_copied_one_by_one) {
  const auto device = fake_device();
  const auto stream = device->create_stream().value();
  auto memory = device->allocate(64).value();
  std::vector<std::byte> there(64, std::byte{7}), back(64);
  ASSERT_TRUE(stream->copy({memory.address(), address_of(there.data()), 64}).ok());
  testing::FakeCuda().fail_next("cuMemcpy2DAsync_v2", cuda::kInvalidValue);
  const Status given = stream->copy_2d({.target = address_of(back.data()),
                                        .target_pitch = 24,
                                        .source = memory.address(),
                                        .source_pitch = 16,
                                        .width = 8,
                                        .rows = 2});
  ASSERT_TRUE(given.ok()) << given.to_string();
  ASSERT_TRUE(stream->synchronize().ok());
  for (std::size_t i = 0; i < back.size(); ++i)
    EXPECT_EQ(back[i], std::byte(i % 24 < 8 && i < 48 ? 7 : 0)) << i;
}

TEST(CudaDriverTest, a_device_with_other_addresses_of_host_memory_gets_no_batch_and_no_kernel) {
  const testing::FakeCuda control;
  control.fail_next("host_addresses", cuda::kNotSupported);
  const auto device = fake_device();
  EXPECT_THAT(device->has_box_kernel().to_string(), HasSubstr("other addresses than the host"));
  const auto stream = device->create_stream().value();
  auto memory = device->allocate(64).value();
  std::vector<std::byte> there(64, std::byte{6}), back(64);
  control.fail_next("cuMemcpyBatchAsync", cuda::kInvalidValue);
  const Status given = stream->copy_batch(
      std::vector<Copy>{{memory.address(), address_of(there.data()), 32},
                        {memory.address() + 32, address_of(there.data()) + 32, 32}});
  control.fail_next("cuMemcpyBatchAsync", cuda::kSuccess);  // nobody called it
  ASSERT_TRUE(given.ok()) << given.to_string();
  ASSERT_TRUE(stream->copy({address_of(back.data()), memory.address(), 64}).ok());
  ASSERT_TRUE(stream->synchronize().ok());
  EXPECT_EQ(back, there);
}

TEST(CudaDriverTest, a_function_that_cannot_be_given_is_let_go) {
  const auto stream = fake_device()->create_stream().value();
  const auto held = std::make_shared<int>(1);
  testing::FakeCuda().fail_next("cuLaunchHostFunc", cuda::kNotPermitted);
  EXPECT_EQ(stream->run([held] {}).code(), Code::denied);
  EXPECT_EQ(held.use_count(), 1);
}

TEST(CudaDriverTest, a_kernel_that_the_driver_does_not_take_is_reported_and_not_tried_again) {
  const auto device = fake_device();
  testing::FakeCuda().fail_next("cuModuleLoadData", cuda::kNotSupported);
  const Status refused = device->has_box_kernel();
  EXPECT_EQ(refused.code(), Code::unsupported);
  if (*kernel::box_kernel_ptx() == '\0') {
    EXPECT_THAT(refused.to_string(), HasSubstr("not_built"));
    testing::FakeCuda().fail_next("cuModuleLoadData", cuda::kSuccess);  // nobody calls it
  } else {
    EXPECT_THAT(refused.to_string(), HasSubstr("compute capability"));
  }
  const std::vector<BoxCopy> boxes{{.target = 64, .source = 128, .length = 1}};
  EXPECT_EQ(device->create_stream().value()->copy_boxes(boxes).code(), Code::unsupported);
}

TEST(CudaDriverTest, events_and_streams_of_another_driver_are_refused) {
  const sys::SystemClock clock;
  HostDriver host(clock);
  const auto theirs = host.open(0).value();
  const auto ours = fake_device();
  const auto stream = ours->create_stream().value();
  const auto event = theirs->create_event().value();
  EXPECT_EQ(stream->record(*event).code(), Code::invalid_argument);
  EXPECT_EQ(stream->wait(*event).code(), Code::invalid_argument);
  EXPECT_EQ(theirs->create_stream().value()->record(*ours->create_event().value()).code(),
            Code::invalid_argument);
  EXPECT_FALSE(ours->can_reach(*theirs).value());
  EXPECT_EQ(ours->enable_peer(*theirs).code(), Code::unsupported);
  const auto pool = ours->create_pool().value();
  EXPECT_EQ(pool->allocate(1, *theirs->create_stream().value()).code(), Code::invalid_argument);
}

TEST(CudaDriverTest, the_numa_node_is_that_of_the_pci_address_and_never_a_guess) {
  const auto directory = sys::TemporaryDirectory::create().value();
  sys::SystemFileSystem files;
  const std::string place = directory.file("bus/pci/devices/0000:3b:00.0");
  ASSERT_TRUE(files.make_directories(place).ok());
  auto file = files.open(place + "/numa_node", {.writable = true, .create = true}).value();
  ASSERT_TRUE(sys::write_exactly(*file, as_bytes("1\n"), 0).ok());
  const auto driver =
      CudaDriver::open({.library = testing::FakeCuda::path(), .sys = directory.path()}).value();
  EXPECT_EQ(driver->describe(0)->numa_node, 1u);
  EXPECT_EQ(driver->describe(1)->numa_node, std::nullopt);
  EXPECT_EQ(driver->describe(0)->compute_major, 9);
}

ProbeOptions fakes() { return {.driver = fake(), .management = testing::FakeNvml::path()}; }

/// The only one whose question contains `words`.
Finding about(const std::string& words, const ProbeOptions& options = fakes()) {
  std::vector<Finding> found;
  for (Finding& finding : probe_devices(options))
    if (finding.question.find(words) != std::string::npos) found.push_back(std::move(finding));
  EXPECT_EQ(found.size(), 1U) << words;
  return found.empty() ? Finding() : found.front();
}

TEST(ProbeDevicesTest, findings_report_what_is_there) {
  const auto findings = probe_devices(fakes());
  ASSERT_EQ(findings.size(), 9U) << "the driver, three of each GPU, two of the first one's memory";
  EXPECT_EQ(findings[0].verdict, Verdict::yes);
  EXPECT_THAT(findings[0].reason, HasSubstr("CUDA 12.9, 2 GPUs"));
  EXPECT_THAT(about("What is GPU 0").reason, HasSubstr("fake CUDA (no GPU)"));
  EXPECT_EQ(about("pinned").verdict, Verdict::yes);
  EXPECT_EQ(about("kernels").verdict,
            *kernel::box_kernel_ptx() != '\0' ? Verdict::yes : Verdict::no);
}

TEST(ProbeDevicesTest, and_what_is_not) {
  const auto none = probe_devices({.driver = {.library = "libcuda-not-here.so.1"}});
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].verdict, Verdict::no);
  EXPECT_THAT(none[0].reason, HasSubstr("libcuda-not-here.so.1"));
  EXPECT_THAT(none[0].hint, HasSubstr("install NVIDIA's driver"));
  testing::FakeCuda().fail_next("cuMemHostAlloc", cuda::kOperatingSystem);
  const Finding pinned = about("pinned");
  EXPECT_EQ(pinned.verdict, Verdict::no);
  EXPECT_THAT(pinned.hint, HasSubstr("ulimit -l"));
}

TEST(ProbeDevicesTest, dma_buf_is_there_or_not_or_the_driver_is_too_old_to_report) {
  const Finding there = about("GPU 0 as dma-buf");
  EXPECT_EQ(there.verdict, Verdict::yes);
  EXPECT_TRUE(there.hint.empty());
  const Finding missing = about("GPU 1 as dma-buf");
  EXPECT_EQ(missing.verdict, Verdict::no);
  EXPECT_THAT(missing.hint, HasSubstr("nvidia_peermem"));
  testing::FakeCuda().fail_next("dma_buf", cuda::kInvalidValue);
  const Finding unreported = about("GPU 0 as dma-buf");
  EXPECT_EQ(unreported.verdict, Verdict::unknown);
  EXPECT_THAT(unreported.hint, HasSubstr("CUDA 11.7"));
}

TEST(ProbeDevicesTest, persistence_mode_is_on_or_off) {
  const Finding on = about("GPU 0 stay ready");
  EXPECT_EQ(on.verdict, Verdict::yes);
  EXPECT_TRUE(on.hint.empty());
  const Finding off = about("GPU 1 stay ready");
  EXPECT_EQ(off.verdict, Verdict::degraded);
  EXPECT_THAT(off.hint, HasSubstr("nvidia-persistenced"));
}

TEST(ProbeDevicesTest, persistence_mode_is_not_known_where_nobody_reports_it) {
  const testing::FakeNvml nvml;
  const auto expect_unknown = [](const std::string& why, const ProbeOptions& options = fakes()) {
    const Finding finding = about("GPU 0 stay ready", options);
    EXPECT_EQ(finding.verdict, Verdict::unknown) << why;
    EXPECT_THAT(finding.reason, HasSubstr(why));
  };
  expect_unknown("libnvidia-ml-not-here",
                 {.driver = fake(), .management = "libnvidia-ml-not-here.so"});
  expect_unknown("has no nvmlInit_v2", {.driver = fake(), .management = testing::FakeCuda::path()});
  nvml.fail_next("nvmlInit_v2", 9);
  expect_unknown("an error of the fake (9)");
  nvml.fail_next("nvmlDeviceGetHandleByPciBusId_v2", 6);
  expect_unknown("cannot find the GPU at 00000000:3B:00.0");
  nvml.fail_next("nvmlDeviceGetPersistenceMode", 3);
  expect_unknown("Not Supported (3)");
  nvml.fail_next("nvmlDeviceGetPersistenceMode", 12345);
  expect_unknown("no word for it (12345)");
}

}  // namespace
}  // namespace towpath::device
