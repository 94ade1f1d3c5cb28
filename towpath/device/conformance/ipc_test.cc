// What every driver keeps of memory and events that another process uses. The other process is this
// program, started anew: a driver must not be used in a fork.
#include <array>
#include <cstring>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/device/conformance/candidate.h>
#include <towpath/sys/testing/kernel_calls.h>

namespace towpath::device::conformance {
namespace {

constexpr std::size_t kBytes = 65536;

std::string to_hex(const IpcHandle& handle) {
  std::string text;
  for (const std::byte byte : handle.bytes) {
    const auto value = static_cast<unsigned>(byte);
    text += "0123456789abcdef"[value >> 4U];
    text += "0123456789abcdef"[value & 15U];
  }
  return text;
}

IpcHandle from_hex(const char* text) {
  IpcHandle handle;
  const auto digit = [](char letter) { return letter <= '9' ? letter - '0' : letter - 'a' + 10; };
  for (std::size_t i = 0; i < handle.bytes.size(); ++i)
    handle.bytes[i] = static_cast<std::byte>(digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
  return handle;
}

/// The exit status of this program, asked to be the other process.
int run_other(const std::string& driver, const IpcHandle& memory, const IpcHandle& event) {
  std::array<char, 4096> self{};
  if (::readlink("/proc/self/exe", self.data(), self.size() - 1) < 0) return -1;
  std::string mode = "--use-from-outside", name = driver;
  std::string memory_hex = to_hex(memory), event_hex = to_hex(event);
  char* const words[] = {self.data(),       mode.data(),      name.data(),
                         memory_hex.data(), event_hex.data(), nullptr};
  pid_t child = -1;
  if (::posix_spawn(&child, self.data(), nullptr, nullptr, words, environ) != 0) return -1;
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

TEST_P(DeviceConformance, another_process_waits_reads_and_writes) {
  if (const auto why = sys::testing::why_no_program_of_its_own(); !why.empty()) GTEST_SKIP() << why;
  auto memory = device_->allocate(kBytes).value();
  const auto there = random_bytes(8, kBytes);
  const auto stream = device_->create_stream().value();
  const auto event = device_->create_event({.interprocess = true}).value();
  ASSERT_TRUE(stream->copy({memory.address(), address_of(there.data()), kBytes}).ok());
  ASSERT_TRUE(stream->record(*event).ok());
  const auto memory_handle = device_->export_memory(memory);
  const auto event_handle = device_->export_event(*event);
  ASSERT_TRUE(memory_handle.ok()) << memory_handle.status().to_string();
  ASSERT_TRUE(event_handle.ok()) << event_handle.status().to_string();
  ASSERT_EQ(run_other(GetParam(), *memory_handle, *event_handle), 0);
  ASSERT_TRUE(stream->synchronize().ok());  // done long since, as the other saw; sanitizers did not
  std::vector<std::byte> back(kBytes);
  ASSERT_TRUE(device_->copy({address_of(back.data()), memory.address(), kBytes}).ok());
  EXPECT_EQ(back, random_bytes(9, kBytes));
}

TEST_P(DeviceConformance, an_address_in_memory_exports_all_of_it) {
  auto memory = device_->allocate(kBytes).value();
  const auto exported = device_->export_at(memory.address() + 100);
  ASSERT_TRUE(exported.ok()) << exported.status().to_string();
  EXPECT_EQ(exported->offset, 100u);
  EXPECT_GE(exported->size_bytes, kBytes);
  EXPECT_EQ(exported->handle, device_->export_memory(memory).value());
  EXPECT_FALSE(device_->export_at(8).ok());
}

TEST_P(DeviceConformance, only_device_memory_and_events_for_it_are_exported) {
  auto pinned = device_->allocate_pinned(4096).value();
  EXPECT_EQ(device_->export_memory(pinned).code(), Code::invalid_argument);
  EXPECT_EQ(device_->export_memory(Memory()).code(), Code::invalid_argument);
  const auto event = device_->create_event().value();
  EXPECT_FALSE(device_->export_event(*event).ok());
  EXPECT_FALSE(device_->import_memory(IpcHandle{}, 4096).ok()) << "zeros are no handle";
}

}  // namespace

int use_from_outside(const char* driver_name, const char* memory_hex, const char* event_hex) {
  auto driver = open_candidate(driver_name);
  if (!driver.ok()) return 10;
  const auto device = (*driver)->open(0).value();
  auto event = device->import_event(from_hex(event_hex));
  if (!event.ok() || !(*event)->wait().ok()) return 11;
  auto memory = device->import_memory(from_hex(memory_hex), kBytes);
  if (!memory.ok()) return 12;
  std::vector<std::byte> seen(kBytes);
  if (!device->copy({address_of(seen.data()), memory->address(), kBytes}).ok()) return 13;
  if (seen != random_bytes(8, kBytes)) return 14;
  const auto answer = random_bytes(9, kBytes);
  if (!device->copy({memory->address(), address_of(answer.data()), kBytes}).ok()) return 15;
  return memory->release().ok() ? 0 : 16;
}

}  // namespace towpath::device::conformance
