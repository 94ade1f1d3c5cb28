// The little of CUDA's driver interface that we call, in our own words: numbers, structs and the
// types of functions. No header of CUDA is needed to build.
//
// The names before each group are CUDA's; what is not named is not used. Sizes and places within
// structs are asserted here against those of CUDA 12.9, and none of them has changed since they
// came. Only files of this folder, and the fake library of the tests, include this.
// Thread: immutable.
#pragma once

#include <cstddef>
#include <cstdint>

namespace towpath::device::cuda {

using CuResult = int;                  // CUresult; 0 is success
using CuDevice = int;                  // CUdevice
using CuAddress = unsigned long long;  // CUdeviceptr_v2 NOLINT(google-runtime-int): the ABI's
struct CuContextTag;
struct CuStreamTag;
struct CuEventTag;
struct CuPoolTag;
struct CuModuleTag;
struct CuFunctionTag;
using CuContext = CuContextTag*;         // CUcontext
using CuStream = CuStreamTag*;           // CUstream
using CuEvent = CuEventTag*;             // CUevent
using CuPool = CuPoolTag*;               // CUmemoryPool
using CuModule = CuModuleTag*;           // CUmodule
using CuFunction = CuFunctionTag*;       // CUfunction
using CuHostFunction = void (*)(void*);  // CUhostFn
static_assert(sizeof(CuAddress) == 8 && sizeof(void*) == 8, "the interface is for 64-bit machines");

// CUresult: those that we distinguish.
inline constexpr CuResult kSuccess = 0;
inline constexpr CuResult kInvalidValue = 1;
inline constexpr CuResult kOutOfMemory = 2;
inline constexpr CuResult kNotInitialized = 3;
inline constexpr CuResult kDeinitialized = 4;
inline constexpr CuResult kStubLibrary = 34;
inline constexpr CuResult kDeviceUnavailable = 46;
inline constexpr CuResult kNoDevice = 100;
inline constexpr CuResult kInvalidDevice = 101;
inline constexpr CuResult kInvalidContext = 201;
inline constexpr CuResult kMapFailed = 205;
inline constexpr CuResult kAlreadyMapped = 208;
inline constexpr CuResult kPeerAccessUnsupported = 217;
inline constexpr CuResult kOperatingSystem = 304;
inline constexpr CuResult kInvalidHandle = 400;
inline constexpr CuResult kNotFound = 500;
inline constexpr CuResult kNotReady = 600;
inline constexpr CuResult kPeerAccessAlreadyEnabled = 704;
inline constexpr CuResult kPeerAccessNotEnabled = 705;
inline constexpr CuResult kHostMemoryAlreadyRegistered = 712;
inline constexpr CuResult kHostMemoryNotRegistered = 713;
inline constexpr CuResult kNotPermitted = 800;
inline constexpr CuResult kNotSupported = 801;
inline constexpr CuResult kSystemNotReady = 802;
inline constexpr CuResult kSystemDriverMismatch = 803;
inline constexpr CuResult kCompatNotSupportedOnDevice = 804;
inline constexpr CuResult kMpsConnectionFailed = 805;
inline constexpr CuResult kMpsMaxConnectionsReached = 809;
inline constexpr CuResult kStreamCaptureUnsupported = 900;
inline constexpr CuResult kTimeout = 909;

// CUdevice_attribute
enum class DeviceAttribute : int {
  max_pitch = 11,
  multiprocessors = 16,
  compute_major = 75,
  compute_minor = 76,
  host_addresses = 91,  // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
  memory_pools = 115,
  dma_buf = 124,
  host_numa_id = 134,
};

// CUpointer_attribute
enum class PointerAttribute : int { memory_type = 2, is_managed = 8, device_ordinal = 9 };

// CUmemorytype
enum class MemoryType : int { none = 0, host = 1, device = 2, array = 3, unified = 4 };

// CU_MEMHOSTALLOC_*, CU_MEMHOSTREGISTER_*: the same numbers
inline constexpr unsigned kPortable = 0x1;   // pinned for all contexts, not only the current one
inline constexpr unsigned kDeviceMap = 0x2;  // reachable from the device

// CUstream_flags, CUevent_flags, CUipcMem_flags
inline constexpr unsigned kStreamNonBlocking = 0x1;
inline constexpr unsigned kEventBlockingSync = 0x1;
inline constexpr unsigned kEventDisableTiming = 0x2;
inline constexpr unsigned kEventInterprocess = 0x4;
inline constexpr unsigned kIpcLazyEnablePeerAccess = 0x1;

// CUstreamCaptureMode
inline constexpr int kCaptureGlobal = 0;  // of each thread at first
inline constexpr int kCaptureRelaxed = 2;

// CUmemLocation
struct Location {
  int type = 0;
  int id = 0;
};
inline constexpr int kLocationDevice = 1;  // CU_MEM_LOCATION_TYPE_DEVICE

// CUmemPoolProps
struct PoolProperties {
  int allocation_type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED, the only one
  int handle_types = 0;     // none is exported
  Location location;
  void* windows_only = nullptr;
  std::size_t max_size = 0;  // the driver's own bound
  unsigned short usage = 0;  // NOLINT(google-runtime-int)
  unsigned char reserved[54] = {};
};
static_assert(sizeof(PoolProperties) == 88 && offsetof(PoolProperties, location) == 8 &&
              offsetof(PoolProperties, max_size) == 24 && offsetof(PoolProperties, reserved) == 34);

// CUmemPool_attribute
enum class PoolAttribute : int { release_threshold = 4, reserved_current = 5, used_current = 7 };

// CUDA_MEMCPY2D_v2
struct Memcpy2d {
  std::size_t source_x = 0;
  std::size_t source_y = 0;
  MemoryType source_type = MemoryType::unified;
  const void* source_host = nullptr;
  CuAddress source_device = 0;
  void* source_array = nullptr;
  std::size_t source_pitch = 0;
  std::size_t target_x = 0;
  std::size_t target_y = 0;
  MemoryType target_type = MemoryType::unified;
  void* target_host = nullptr;
  CuAddress target_device = 0;
  void* target_array = nullptr;
  std::size_t target_pitch = 0;
  std::size_t width = 0;  // bytes
  std::size_t height = 0;
};
static_assert(sizeof(Memcpy2d) == 128 && offsetof(Memcpy2d, source_device) == 32 &&
              offsetof(Memcpy2d, target_x) == 56 && offsetof(Memcpy2d, target_device) == 88 &&
              offsetof(Memcpy2d, width) == 112);

// CUmemcpyAttributes
struct CopyAttributes {
  int source_access = 1;  // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: read in the stream's order
  Location source_hint;
  Location target_hint;
  unsigned flags = 0;
};
static_assert(sizeof(CopyAttributes) == 24 && offsetof(CopyAttributes, flags) == 20);

// CUipcMemHandle, CUipcEventHandle: passed by value
struct CuIpcHandle {
  char reserved[64] = {};
};
static_assert(sizeof(CuIpcHandle) == 64);

// X(member, symbol, parameters): functions that every driver since CUDA 11.3 has. The symbols bear
// the version whose parameters stand here; without one CUDA's header would choose it.
#define TOWPATH_CUDA_FUNCTIONS(X)                                                                 \
  X(init, cuInit, (unsigned flags))                                                               \
  X(driver_version, cuDriverGetVersion, (int* version))                                           \
  X(error_name, cuGetErrorName, (CuResult error, const char** name))                              \
  X(error_string, cuGetErrorString, (CuResult error, const char** text))                          \
  X(device_count, cuDeviceGetCount, (int* count))                                                 \
  X(device_get, cuDeviceGet, (CuDevice * device, int ordinal))                                    \
  X(device_name, cuDeviceGetName, (char* name, int size, CuDevice device))                        \
  X(device_memory, cuDeviceTotalMem_v2, (std::size_t * bytes, CuDevice device))                   \
  X(device_attribute, cuDeviceGetAttribute,                                                       \
    (int* value, DeviceAttribute attribute, CuDevice device))                                     \
  X(device_pci, cuDeviceGetPCIBusId, (char* address, int size, CuDevice device))                  \
  X(context_retain, cuDevicePrimaryCtxRetain, (CuContext * context, CuDevice device))             \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (CuDevice device))                             \
  X(context_push, cuCtxPushCurrent_v2, (CuContext context))                                       \
  X(context_pop, cuCtxPopCurrent_v2, (CuContext * context))                                       \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int* mode))                        \
  X(memory_info, cuMemGetInfo_v2, (std::size_t * free, std::size_t * total))                      \
  X(allocate, cuMemAlloc_v2, (CuAddress * address, std::size_t size))                             \
  X(free, cuMemFree_v2, (CuAddress address))                                                      \
  X(allocate_host, cuMemHostAlloc, (void** address, std::size_t size, unsigned flags))            \
  X(free_host, cuMemFreeHost, (void* address))                                                    \
  X(register_host, cuMemHostRegister_v2, (void* address, std::size_t size, unsigned flags))       \
  X(unregister_host, cuMemHostUnregister, (void* address))                                        \
  X(host_to_device, cuMemHostGetDevicePointer_v2,                                                 \
    (CuAddress * address, void* host, unsigned flags))                                            \
  X(pool_create, cuMemPoolCreate, (CuPool * pool, const PoolProperties* properties))              \
  X(pool_destroy, cuMemPoolDestroy, (CuPool pool))                                                \
  X(pool_trim, cuMemPoolTrimTo, (CuPool pool, std::size_t keep))                                  \
  X(pool_set, cuMemPoolSetAttribute, (CuPool pool, PoolAttribute attribute, void* value))         \
  X(pool_get, cuMemPoolGetAttribute, (CuPool pool, PoolAttribute attribute, void* value))         \
  X(pool_allocate, cuMemAllocFromPoolAsync,                                                       \
    (CuAddress * address, std::size_t size, CuPool pool, CuStream stream))                        \
  X(pool_free, cuMemFreeAsync, (CuAddress address, CuStream stream))                              \
  X(stream_create, cuStreamCreate, (CuStream * stream, unsigned flags))                           \
  X(stream_destroy, cuStreamDestroy_v2, (CuStream stream))                                        \
  X(stream_query, cuStreamQuery, (CuStream stream))                                               \
  X(stream_synchronize, cuStreamSynchronize, (CuStream stream))                                   \
  X(stream_wait, cuStreamWaitEvent, (CuStream stream, CuEvent event, unsigned flags))             \
  X(stream_run, cuLaunchHostFunc, (CuStream stream, CuHostFunction function, void* argument))     \
  X(module_load, cuModuleLoadData, (CuModule * module, const void* image))                        \
  X(module_unload, cuModuleUnload, (CuModule module))                                             \
  X(module_function, cuModuleGetFunction,                                                         \
    (CuFunction * function, CuModule module, const char* name))                                   \
  X(launch, cuLaunchKernel,                                                                       \
    (CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,    \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, CuStream stream,                  \
     void** parameters, void** extra))                                                            \
  X(copy, cuMemcpyAsync, (CuAddress target, CuAddress source, std::size_t size, CuStream stream)) \
  X(copy_2d, cuMemcpy2DAsync_v2, (const Memcpy2d* what, CuStream stream))                         \
  X(fill, cuMemsetD8Async,                                                                        \
    (CuAddress address, unsigned char value, std::size_t size, CuStream stream))                  \
  X(event_create, cuEventCreate, (CuEvent * event, unsigned flags))                               \
  X(event_destroy, cuEventDestroy_v2, (CuEvent event))                                            \
  X(event_record, cuEventRecord, (CuEvent event, CuStream stream))                                \
  X(event_query, cuEventQuery, (CuEvent event))                                                   \
  X(event_synchronize, cuEventSynchronize, (CuEvent event))                                       \
  X(event_elapsed, cuEventElapsedTime, (float* milliseconds, CuEvent start, CuEvent end))         \
  X(peer_can, cuDeviceCanAccessPeer, (int* can, CuDevice device, CuDevice peer))                  \
  X(peer_enable, cuCtxEnablePeerAccess, (CuContext peer, unsigned flags))                         \
  X(allocation_of, cuMemGetAddressRange_v2,                                                       \
    (CuAddress * begin, std::size_t * size, CuAddress address))                                   \
  X(ipc_export, cuIpcGetMemHandle, (CuIpcHandle * handle, CuAddress address))                     \
  X(ipc_import, cuIpcOpenMemHandle_v2, (CuAddress * address, CuIpcHandle handle, unsigned flags)) \
  X(ipc_close, cuIpcCloseMemHandle, (CuAddress address))                                          \
  X(ipc_export_event, cuIpcGetEventHandle, (CuIpcHandle * handle, CuEvent event))                 \
  X(ipc_import_event, cuIpcOpenEventHandle, (CuEvent * event, CuIpcHandle handle))                \
  X(pointer_facts, cuPointerGetAttributes,                                                        \
    (unsigned count, PointerAttribute* attributes, void** values, CuAddress address))

// The batch: since CUDA 12.8 (drivers from 570 on); without it, copies are given one by one. CUDA
// 13's header names a later version of it under the same name; this symbol keeps the parameters of
// 12.8. The write: since CUDA 11.7; the one before asks for an option of the kernel's module.
#define TOWPATH_CUDA_OPTIONAL_FUNCTIONS(X)                                                       \
  X(copy_batch, cuMemcpyBatchAsync,                                                              \
    (CuAddress * targets, CuAddress * sources, std::size_t * sizes, std::size_t count,           \
     CopyAttributes * attributes, std::size_t * first_of_attribute, std::size_t attribute_count, \
     std::size_t * failed, CuStream stream))                                                     \
  X(write_word, cuStreamWriteValue64_v2,                                                         \
    (CuStream stream, CuAddress address, std::uint64_t value, unsigned flags))

static_assert(sizeof(void (*)()) == sizeof(void*), "functions are found as pointers");

/// The functions, found in a library.
struct Functions {
#define TOWPATH_CUDA_MEMBER(member, symbol, parameters) CuResult(*member) parameters = nullptr;
  TOWPATH_CUDA_FUNCTIONS(TOWPATH_CUDA_MEMBER)
  TOWPATH_CUDA_OPTIONAL_FUNCTIONS(TOWPATH_CUDA_MEMBER)
#undef TOWPATH_CUDA_MEMBER
};

}  // namespace towpath::device::cuda
