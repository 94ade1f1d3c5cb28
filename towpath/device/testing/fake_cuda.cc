// A libcuda.so.1 for tests: the symbols that we look up, over the host driver. It has no GPU and
// says so in its devices' name. It proves that the table is plumbed right (which function gets
// which argument, that a context is current, that structs hold what CUDA asks for), and nothing
// about a GPU. What it finds wrong it refuses as CUDA would, and writes down.
#include <algorithm>
#include <cstring>
#include <utility>

#include <towpath/device/testing/fake_cuda_state.h>

using namespace towpath::device;             // NOLINT: the whole file speaks of it
using namespace towpath::device::cuda;       // NOLINT
using namespace towpath::device::fake_cuda;  // NOLINT

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.
extern "C" {

void towpath_fake_cuda_fail(const char* symbol, int result, int skip) {
  const std::lock_guard lock(fake().mutex);
  fake().failures[symbol] = {result, skip};
}
int towpath_fake_cuda_depth() { return static_cast<int>(current.size()); }
int towpath_fake_cuda_capture_mode() { return capture_mode; }
void towpath_fake_cuda_set_capturing(bool capturing) {
  const std::lock_guard lock(fake().mutex);
  fake().is_capturing = capturing;
}
int towpath_fake_cuda_retained() {
  const std::lock_guard lock(fake().mutex);
  return fake().retained[0];
}
const char* towpath_fake_cuda_complaints() { return fake().complaints.c_str(); }

// Driver and devices ------------------------------------------------------------------------------

CuResult cuInit(unsigned flags) {
  TOWPATH_FAKE("cuInit", false);
  return flags == 0 ? kSuccess : complain("cuInit", "flags must be 0");
}
CuResult cuDriverGetVersion(int* version) {
  *version = 12090;
  return kSuccess;
}
CuResult cuGetErrorName(CuResult error, const char** name) {
  if (error == 12345) return kInvalidValue;
  *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_FAKE";
  return kSuccess;
}
CuResult cuGetErrorString(CuResult error, const char** text) {
  if (error == 12345) return kInvalidValue;
  *text = error == kOutOfMemory ? "out of memory" : "an error of the fake";
  return kSuccess;
}
CuResult cuDeviceGetCount(int* count) {
  TOWPATH_FAKE("cuDeviceGetCount", false);
  *count = 2;
  return kSuccess;
}
CuResult cuDeviceGet(CuDevice* out, int ordinal) {
  TOWPATH_FAKE("cuDeviceGet", false);
  if (ordinal < 0 || ordinal > 1) return kInvalidDevice;
  *out = ordinal;
  return kSuccess;
}
CuResult cuDeviceGetName(char* name, int size, CuDevice) {
  std::strncpy(name, "fake CUDA (no GPU)", static_cast<std::size_t>(size) - 1);
  return kSuccess;
}
CuResult cuDeviceTotalMem_v2(std::size_t* bytes, CuDevice ordinal) {
  *bytes = fake().driver.describe(static_cast<unsigned>(ordinal))->memory_bytes;
  return kSuccess;
}
CuResult cuDeviceGetAttribute(int* value, DeviceAttribute attribute, CuDevice ordinal) {
  switch (attribute) {
    case DeviceAttribute::max_pitch: *value = kMaxPitch; return kSuccess;
    case DeviceAttribute::multiprocessors: *value = 2; return kSuccess;
    case DeviceAttribute::compute_major: *value = 9; return kSuccess;
    case DeviceAttribute::compute_minor: *value = 0; return kSuccess;
    case DeviceAttribute::host_addresses:
      *value = before("host_addresses", false) == kSuccess ? 1 : 0;
      return kSuccess;
    case DeviceAttribute::memory_pools: *value = 1; return kSuccess;
    case DeviceAttribute::dma_buf: {
      TOWPATH_FAKE("dma_buf", false);
      *value = ordinal == 0 ? 1 : 0;
      return kSuccess;
    }
    case DeviceAttribute::host_numa_id: return kInvalidValue;  // as an older driver
  }
  if (fake().others_ask) return kInvalidValue;
  return complain("cuDeviceGetAttribute", "an unknown attribute");
}
CuResult cuDeviceGetPCIBusId(char* address, int size, CuDevice ordinal) {
  std::strncpy(address, ordinal == 0 ? "00000000:3B:00.0" : "00000000:86:00.0",
               static_cast<std::size_t>(size) - 1);
  return kSuccess;
}
CuResult cuDevicePrimaryCtxRetain(CuContext* context, CuDevice ordinal) {
  TOWPATH_FAKE("cuDevicePrimaryCtxRetain", false);
  const std::lock_guard lock(fake().mutex);
  ++fake().retained[ordinal];
  *context = &fake().contexts[ordinal];
  return kSuccess;
}
CuResult cuDevicePrimaryCtxRelease_v2(CuDevice ordinal) {
  const std::lock_guard lock(fake().mutex);
  --fake().retained[ordinal];
  return kSuccess;
}
CuResult cuCtxPushCurrent_v2(CuContext context) {
  TOWPATH_FAKE("cuCtxPushCurrent_v2", false);
  if (context == nullptr) return complain("cuCtxPushCurrent_v2", "no context");
  current.push_back(context);
  return kSuccess;
}
CuResult cuCtxPopCurrent_v2(CuContext* context) {
  if (current.empty()) return complain("cuCtxPopCurrent_v2", "none is current");
  if (context != nullptr) *context = current.back();
  current.pop_back();
  return kSuccess;
}
CuResult cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return kSuccess;
}

// Memory ------------------------------------------------------------------------------------------

CuResult cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  TOWPATH_FAKE("cuMemGetInfo_v2", true);
  const MemoryFigures figures = device()->figures().value();
  *free_bytes = figures.free_bytes;
  *total_bytes = figures.total_bytes;
  return kSuccess;
}
CuResult cuMemAlloc_v2(CuAddress* address, std::size_t size) {
  TOWPATH_FAKE("cuMemAlloc_v2", true);
  std::uint64_t at = 0;
  const CuResult result = keep(device()->allocate(size), &at);
  *address = at;
  return result;
}
CuResult cuMemFree_v2(CuAddress address) {
  TOWPATH_FAKE("cuMemFree_v2", true);
  if (!device_gets_idle()) (void)complain("cuMemFree_v2", "it waits for work that does not end");
  return let_go(address, Origin::device, kInvalidValue);
}
CuResult cuMemHostAlloc(void** address, std::size_t size, unsigned flags) {
  TOWPATH_FAKE("cuMemHostAlloc", true);
  if (flags != (kPortable | kDeviceMap)) return complain("cuMemHostAlloc", "other flags");
  std::uint64_t at = 0;
  const CuResult result = keep(device()->allocate_pinned(size), &at);
  *address = towpath::bytes_at(at, size).data();
  return result;
}
CuResult cuMemFreeHost(void* address) {
  TOWPATH_FAKE("cuMemFreeHost", true);
  return let_go(number(address), Origin::pinned, kInvalidValue);
}
CuResult cuMemHostRegister_v2(void* address, std::size_t size, unsigned flags) {
  TOWPATH_FAKE("cuMemHostRegister_v2", true);
  if (flags != (kPortable | kDeviceMap)) return complain("cuMemHostRegister_v2", "other flags");
  std::uint64_t at = 0;
  return keep(device()->register_host({static_cast<std::byte*>(address), size}), &at);
}
CuResult cuMemHostUnregister(void* address) {
  TOWPATH_FAKE("cuMemHostUnregister", true);
  return let_go(number(address), Origin::registered, kHostMemoryNotRegistered);
}
CuResult cuMemHostGetDevicePointer_v2(CuAddress* address, void* host, unsigned flags) {
  TOWPATH_FAKE("cuMemHostGetDevicePointer_v2", true);
  if (flags != 0) return complain("cuMemHostGetDevicePointer_v2", "flags must be 0");
  *address = number(host);
  return kSuccess;
}

// Peers, processes, pointers ----------------------------------------------------------------------

CuResult cuDeviceCanAccessPeer(int* can, CuDevice, CuDevice) {
  TOWPATH_FAKE("cuDeviceCanAccessPeer", false);
  *can = 1;
  return kSuccess;
}
CuResult cuCtxEnablePeerAccess(CuContext peer, unsigned flags) {
  TOWPATH_FAKE("cuCtxEnablePeerAccess", true);
  if (flags != 0) return complain("cuCtxEnablePeerAccess", "flags must be 0");
  if (peer == current.back()) return complain("cuCtxEnablePeerAccess", "its own peer");
  static bool enabled[2] = {false, false};
  const bool before_it = std::exchange(enabled[current.back()->device], true);
  return before_it ? kPeerAccessAlreadyEnabled : kSuccess;
}
CuResult cuMemGetAddressRange_v2(CuAddress* begin, std::size_t* size, CuAddress address) {
  TOWPATH_FAKE("cuMemGetAddressRange_v2", true);
  const std::lock_guard lock(fake().mutex);
  for (const auto& [at, memory] : fake().held) {
    if (address < at || address - at >= memory.size()) continue;
    *begin = at;
    *size = memory.size();
    return kSuccess;
  }
  return kNotFound;
}
CuResult cuIpcGetMemHandle(CuIpcHandle* handle, CuAddress address) {
  TOWPATH_FAKE("cuIpcGetMemHandle", true);
  const std::lock_guard lock(fake().mutex);
  const auto found = fake().held.find(address);
  if (found == fake().held.end()) return kInvalidValue;
  const auto ours = device()->export_memory(found->second);
  if (!ours.ok()) return result_of(ours.status());
  std::memcpy(handle->reserved, ours->bytes.data(), ours->bytes.size());
  // The host driver wants the size beside it, CUDA does not: it goes into the last bytes, unused.
  const std::uint64_t size = found->second.size();
  std::memcpy(handle->reserved + 56, &size, sizeof size);
  return kSuccess;
}
CuResult cuIpcOpenMemHandle_v2(CuAddress* address, CuIpcHandle handle, unsigned flags) {
  TOWPATH_FAKE("cuIpcOpenMemHandle_v2", true);
  if (flags != kIpcLazyEnablePeerAccess) return complain("cuIpcOpenMemHandle_v2", "other flags");
  std::uint64_t size = 0;
  std::memcpy(&size, handle.reserved + 56, sizeof size);
  IpcHandle ours;
  std::memcpy(ours.bytes.data(), handle.reserved, ours.bytes.size());
  std::uint64_t at = 0;
  const CuResult result = keep(device()->import_memory(ours, size), &at);
  *address = at;
  return result;
}
CuResult cuIpcCloseMemHandle(CuAddress address) {
  TOWPATH_FAKE("cuIpcCloseMemHandle", true);
  return let_go(address, Origin::imported, kInvalidValue);
}
CuResult cuIpcGetEventHandle(CuIpcHandle* handle, CuEvent event) {
  TOWPATH_FAKE("cuIpcGetEventHandle", true);
  const auto ours = device()->export_event(*event->event);
  if (!ours.ok()) return result_of(ours.status());
  std::memcpy(handle->reserved, ours->bytes.data(), ours->bytes.size());
  return kSuccess;
}
CuResult cuIpcOpenEventHandle(CuEvent* event, CuIpcHandle handle) {
  TOWPATH_FAKE("cuIpcOpenEventHandle", true);
  IpcHandle ours;
  std::memcpy(ours.bytes.data(), handle.reserved, ours.bytes.size());
  auto imported = device()->import_event(ours);
  if (!imported.ok()) return result_of(imported.status());
  *event = new CuEventTag{*std::move(imported), kEventInterprocess | kEventDisableTiming};
  return kSuccess;
}
CuResult cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** values,
                                CuAddress address) {
  TOWPATH_FAKE("cuPointerGetAttributes", false);
  const PointerFacts facts = fake().driver.facts_of(address).value();
  const bool known = facts.kind != towpath::MemoryKind::system;
  for (unsigned i = 0; i < count; ++i) {
    int value = 0;
    if (attributes[i] == PointerAttribute::memory_type && known)
      value = facts.kind == towpath::MemoryKind::pinned ? 1 : 2;
    if (attributes[i] == PointerAttribute::device_ordinal) value = static_cast<int>(facts.device);
    std::memcpy(values[i], &value, sizeof value);
  }
  return kSuccess;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
