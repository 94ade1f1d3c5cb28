// What a UCX that was built with CUDA calls of libcuda and we do not: the fake libcuda.so.1 that
// such a UCX is tested with has it too (see fake_cuda.cc). Contexts and pointers are reported as
// they are; memory that is mapped by hand, managed, or shared between processes by handles, is
// refused.
#include <array>

#include <towpath/device/testing/fake_cuda_state.h>

using namespace towpath::device;             // NOLINT: the whole file speaks of it
using namespace towpath::device::cuda;       // NOLINT
using namespace towpath::device::fake_cuda;  // NOLINT

namespace {

// CUpointer_attribute, besides those of cuda_abi.h.
constexpr int kContext = 1;
constexpr int kBufferId = 7;

[[maybe_unused]] const bool kOthersAsk = fake().others_ask = true;

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.
extern "C" {

CuResult cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** values,
                                CuAddress address);  // of fake_cuda.cc

// Contexts ----------------------------------------------------------------------------------------

CuResult cuCtxGetCurrent(CuContext* context) {
  *context = current.empty() ? nullptr : current.back();
  return kSuccess;
}
CuResult cuCtxGetDevice(CuDevice* ordinal) {
  if (current.empty())
    return kInvalidContext;  // asked, not complained of: UCX looks whether one is
  *ordinal = current.back()->device;
  return kSuccess;
}
CuResult cuCtxGetId(CuContext context, unsigned long long* id) {  // NOLINT(google-runtime-int)
  if (context == nullptr && current.empty()) return kInvalidContext;
  *id = static_cast<unsigned>((context != nullptr ? context : current.back())->device) + 1U;
  return kSuccess;
}
CuResult cuDevicePrimaryCtxGetState(CuDevice ordinal, unsigned* flags, int* is_active) {
  const std::lock_guard lock(fake().mutex);
  *flags = 0;
  *is_active = fake().retained[ordinal] > 0 ? 1 : 0;
  return kSuccess;
}
CuResult cuDeviceGetUuid(std::array<char, 16>* uuid, CuDevice ordinal) {
  uuid->fill(static_cast<char>(ordinal + 1));
  return kSuccess;
}

// Pointers and copies -----------------------------------------------------------------------------

CuResult cuPointerGetAttribute(void* value, int attribute, CuAddress address) {
  const PointerFacts facts = fake().driver.facts_of(address).value();
  if (facts.kind == towpath::MemoryKind::system) return kInvalidValue;
  if (attribute == kContext) {
    *static_cast<CuContext*>(value) = &fake().contexts[facts.device];
  } else if (attribute == kBufferId) {
    *static_cast<CuAddress*>(value) = address;
  } else {
    auto same = static_cast<PointerAttribute>(attribute);
    return cuPointerGetAttributes(1, &same, &value, address);
  }
  return kSuccess;
}
CuResult cuPointerSetAttribute(const void*, int, CuAddress) { return kSuccess; }
CuResult cuMemcpyHtoD_v2(CuAddress target, const void* source, std::size_t size) {
  TOWPATH_FAKE("cuMemcpyHtoD_v2", true);
  return result_of(device()->copy({target, number(source), size}));
}
CuResult cuMemcpyDtoDAsync_v2(CuAddress target, CuAddress source, std::size_t size,
                              CuStream stream) {
  TOWPATH_FAKE("cuMemcpyDtoDAsync_v2", true);
  return result_of(stream->stream->copy({.target = target, .source = source, .length = size}));
}

// What it looks for and may be missing ------------------------------------------------------------

CuResult cuGetProcAddress_v2(const char*, void** function, int,
                             unsigned long long,  // NOLINT(google-runtime-int)
                             int* found) {
  *function = nullptr;
  if (found != nullptr) *found = 1;  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
  return kNotFound;
}

#define TOWPATH_FAKE_REFUSES(symbol) \
  CuResult symbol() { return kNotSupported; }
TOWPATH_FAKE_REFUSES(cuMemAddressFree)
TOWPATH_FAKE_REFUSES(cuMemAddressReserve)
TOWPATH_FAKE_REFUSES(cuMemAllocManaged)
TOWPATH_FAKE_REFUSES(cuMemCreate)
TOWPATH_FAKE_REFUSES(cuMemExportToShareableHandle)
TOWPATH_FAKE_REFUSES(cuMemGetAllocationGranularity)
TOWPATH_FAKE_REFUSES(cuMemGetAllocationPropertiesFromHandle)
TOWPATH_FAKE_REFUSES(cuMemImportFromShareableHandle)
TOWPATH_FAKE_REFUSES(cuMemMap)
TOWPATH_FAKE_REFUSES(cuMemPoolExportPointer)
TOWPATH_FAKE_REFUSES(cuMemPoolExportToShareableHandle)
TOWPATH_FAKE_REFUSES(cuMemPoolImportFromShareableHandle)
TOWPATH_FAKE_REFUSES(cuMemPoolImportPointer)
TOWPATH_FAKE_REFUSES(cuMemPoolSetAccess)
TOWPATH_FAKE_REFUSES(cuMemRangeGetAttribute)
TOWPATH_FAKE_REFUSES(cuMemRelease)
TOWPATH_FAKE_REFUSES(cuMemRetainAllocationHandle)
TOWPATH_FAKE_REFUSES(cuMemSetAccess)
TOWPATH_FAKE_REFUSES(cuMemUnmap)
TOWPATH_FAKE_REFUSES(cuStreamAddCallback)
#undef TOWPATH_FAKE_REFUSES

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
