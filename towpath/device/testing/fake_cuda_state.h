// The state of the fake libcuda: its devices, what is current on a thread, failures that a test
// arranged. Only for fake_cuda*.cc.
// Thread: any.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/device/cuda/cuda_abi.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/sys/clock.h>

namespace towpath::device::cuda {
struct CuContextTag {
  CuDevice device;
};
struct CuStreamTag {
  std::shared_ptr<Stream> stream;
};
struct CuEventTag {
  std::shared_ptr<Event> event;
  unsigned flags;
};
struct CuModuleTag {};
struct CuFunctionTag {};
struct CuPoolTag {
  std::shared_ptr<Pool> pool;
  std::uint64_t threshold = 0;
};
}  // namespace towpath::device::cuda

namespace towpath::device::fake_cuda {

using cuda::CuContext;
using cuda::CuResult;

/// Of a copy in two dimensions: a GPU has 2^31 - 1, and tests have less memory.
inline constexpr int kMaxPitch = 1 << 20;

struct Fake {
  sys::SystemClock clock;
  HostDriver driver{clock, {.devices = 2}};
  std::mutex mutex;
  std::map<std::string, std::pair<int, int>> failures;    // symbol -> result, calls to skip
  std::map<std::uint64_t, Memory> held;                   // by address
  std::map<std::uint64_t, std::shared_ptr<Pool>> pooled;  // whose pool an address is of
  std::map<cuda::CuStream, cuda::CuDevice> streams;       // of which device
  cuda::CuContextTag contexts[2] = {{0}, {1}};
  int retained[2] = {0, 0};
  std::string complaints;
  bool is_capturing = false;  ///< a graph, by another thread, in the mode that minds all threads
  bool others_ask = false;    ///< not only we, who know what we should ask
};

inline Fake& fake() {
  static auto* const kOne = new Fake;  // never destroyed: a driver outlives what uses it
  return *kOne;
}

inline thread_local std::vector<CuContext> current;
inline thread_local int capture_mode = cuda::kCaptureGlobal;

inline std::shared_ptr<Device> device() {
  return fake().driver.open(static_cast<unsigned>(current.back()->device)).value();
}

inline CuResult complain(const char* symbol, const char* why) {
  const std::lock_guard lock(fake().mutex);
  fake().complaints += cat(symbol, ": ", why, "; ");
  return cuda::kInvalidValue;
}

/// What a call answers without being made: an arranged failure, or that no context is current.
inline CuResult before(const char* symbol, bool needs_context) {
  {
    const std::lock_guard lock(fake().mutex);
    const auto found = fake().failures.find(symbol);
    if (found != fake().failures.end() && found->second.second-- == 0) {
      const int result = found->second.first;
      fake().failures.erase(found);
      return result;
    }
    if (needs_context && fake().is_capturing && capture_mode != cuda::kCaptureRelaxed)
      return cuda::kStreamCaptureUnsupported;
  }
  if (!needs_context || !current.empty()) return cuda::kSuccess;
  (void)complain(symbol, "no context is current");
  return cuda::kInvalidContext;
}

inline CuResult result_of(const Status& status) {
  switch (status.code()) {
    case Code::ok: return cuda::kSuccess;
    case Code::exhausted: return cuda::kOutOfMemory;
    case Code::already_exists: return cuda::kHostMemoryAlreadyRegistered;
    case Code::not_found: return cuda::kNotFound;
    case Code::not_ready: return cuda::kNotReady;
    default: return cuda::kInvalidValue;
  }
}

inline CuResult keep(Result<Memory> memory, std::uint64_t* address) {
  if (!memory.ok()) return result_of(memory.status());
  *address = memory->address();
  const std::lock_guard lock(fake().mutex);
  fake().held.emplace(*address, *std::move(memory));
  return cuda::kSuccess;
}

inline CuResult let_go(std::uint64_t address, Origin origin, CuResult unknown) {
  Memory memory;
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().held.find(address);
  if (found == fake().held.end() || found->second.origin() != origin) return unknown;
  memory = std::move(found->second);
  fake().held.erase(found);
  return cuda::kSuccess;
}

/// What CUDA waits for where it frees memory. False: the device has work that does not end, such as
/// a function that the caller itself holds up.
inline bool device_gets_idle() {
  std::vector<std::shared_ptr<Stream>> busy;
  {
    const std::lock_guard lock(fake().mutex);
    for (const auto& [stream, of] : fake().streams)
      if (of == current.back()->device) busy.push_back(stream->stream);
  }
  const Instant until = fake().clock.now() + std::chrono::seconds(1);
  for (const auto& stream : busy)
    for (auto idle = stream->is_idle(); idle.ok() && !*idle; idle = stream->is_idle()) {
      if (fake().clock.now() > until) return false;
      std::this_thread::yield();
    }
  return true;
}

inline std::uint64_t number(const void* pointer) { return address_of(pointer); }

}  // namespace towpath::device::fake_cuda

#define TOWPATH_FAKE(symbol, needs_context) \
  if (const CuResult early = before(symbol, needs_context); early != 0) return early
