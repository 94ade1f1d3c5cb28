// Of NVSHMEM's names, those that need a GPU, or a network device that a GPU drives: they say so.
// And its variables, which programs link with and do not read.
#include <atomic>
#include <cstdarg>
#include <cstdio>

#include <pthread.h>

#include <towpath/core/format.h>

#include "bindings/nvshmem/nvshmem_host.h"
#include "bindings/openshmem/process.h"

using namespace towpath;
using namespace towpath::openshmem;

namespace {

int not_supported(const char* name, const char* why) {
  (void)answer(error(Code::unsupported, cat(name, ": ", why),
                     "NVIDIA's library has it; this one is for machines without a GPU"));
  return NVSHMEMX_ERROR_NOT_SUPPORTED;
}

constexpr const char* kKernels = "kernels are not launched here";
constexpr const char* kModules = "there is no code of a device here";
constexpr const char* kMapped = "memory of one process cannot be given to others afterwards";

std::atomic<std::uint64_t> regions = 0;

}  // namespace

extern "C" {

std::FILE* nvshmem_debug_file = nullptr;
int nvshmem_debug_level = 0;
std::uint64_t nvshmem_debug_mask = 0;
pthread_mutex_t nvshmem_debug_output_lock = PTHREAD_MUTEX_INITIALIZER;
long nvshmem_error = 0;
int nvshmem_nvtx_options = 0, nvshmem_options = 0, nvshmem_selected_device_transport = 0;

/// For NVSHMEM's own parts: what they report is not the program's.
void nvshmem_debug_log(int, unsigned long, const char*, int, const char*, ...) {}

void* nvshmemx_mc_ptr(nvshmem_team_t, const void*) { return nullptr; }

int nvshmemx_region_start(std::uint64_t* handle, const nvshmemx_region_attrs_t*) {
  if (handle == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  *handle = ++regions;
  return 0;
}
int nvshmemx_region_stop(std::uint64_t) { return 0; }
int nvshmemx_region_is_active(std::uint32_t, int* active) {
  if (active == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  *active = 0;
  return 0;
}

void* nvshmemx_buffer_register_symmetric(void*, size_t, int) {
  (void)not_supported(__func__, kMapped);
  return nullptr;
}
void* nvshmemx_buffer_register_symmetric_at_preferred_address(void*, size_t, void*, int) {
  (void)not_supported(__func__, kMapped);
  return nullptr;
}
int nvshmemx_buffer_unregister_symmetric(void*, size_t) { return not_supported(__func__, kMapped); }

int nvshmemx_collective_launch(const void*, nvshmem_dim3_t, nvshmem_dim3_t, void**, size_t,
                               nvshmem_stream_t) {
  return not_supported(__func__, kKernels);
}
int nvshmemx_collective_launch_attr(const void*, const void*, void**) {
  return not_supported(__func__, kKernels);
}
int nvshmemx_collective_launch_query_gridsize(const void*, nvshmem_dim3_t, void**, size_t, int*) {
  return not_supported(__func__, kKernels);
}
int nvshmemx_cumodule_init(void*) { return not_supported(__func__, kModules); }
int nvshmemx_cumodule_finalize(void*) { return not_supported(__func__, kModules); }
int nvshmemx_culibrary_init(void*) { return not_supported(__func__, kModules); }
int nvshmemx_culibrary_finalize(void*) { return not_supported(__func__, kModules); }
int nvshmemx_qp_create(int, int**) {
  return not_supported(__func__, "there are no queues that a device drives");
}

}  // extern "C"
