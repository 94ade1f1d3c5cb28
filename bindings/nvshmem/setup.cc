// Beginning and ending, counted: several users of one process may each begin and end.
//
// The last end waits for all PEs and keeps the memory mapped, so that it can begin anew in a job
// that a launcher made, and so that no thread loses memory that it still looks at. The job of an
// identifier ends with it: what it held is let go of when another one begins.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <towpath/core/format.h>
#include <towpath/run/mutex.h>
#include <towpath/standard/shmem_start.h>

#include "bindings/nvshmem/nvshmem_host.h"
#include "bindings/nvshmem/rendezvous.h"
#include "bindings/openshmem/process.h"

using namespace towpath;
using namespace towpath::openshmem;

const char* const openshmem::kDoor = "nvshmem (towpath)";

namespace {

constexpr int kMajor = 3, kMinor = 0, kPatch = 0;
constexpr int kUidArgsVersion = 65'560, kArgsVersion = 131'200, kAttrVersion = 131'216;
static_assert(sizeof(nvshmemx_uniqueid_t) == 128 && sizeof(nvshmemx_uniqueid_args_t) == 24 &&
              sizeof(nvshmemx_init_args_t) == 128 && sizeof(nvshmemx_init_attr_t) == 144 &&
              sizeof(nvshmem_team_config_t) == 64);

std::string name_of_library() {
  return cat("NVSHMEM v", kMajor, ".", kMinor, ".", kPatch, " (Towpath, without a GPU)");
}

run::Mutex begin_mutex;
int begun TOWPATH_GUARDED_BY(begin_mutex) = 0;
bool is_by_id TOWPATH_GUARDED_BY(begin_mutex) = false;

/// With NVSHMEM's own name for the size of a heap, before OpenSHMEM's; the units are the same.
standard::Environment read_environment() {
  standard::Environment all = standard::read_environment();
  if (const auto size = all.find("NVSHMEM_SYMMETRIC_SIZE"); size != all.end())
    all.insert_or_assign("SHMEM_SYMMETRIC_SIZE", size->second);
  return all;
}

Result<shmem::Bootstrap> bootstrap_by_id(const nvshmemx_uniqueid_args_t& who) {
  shmem::UniqueId::Raw raw;
  static_assert(sizeof raw == sizeof *who.id);
  std::memcpy(raw.data(), who.id, sizeof raw);
  shmem::Bootstrap bootstrap{.my_pe = who.myrank, .pes = who.nranks};
  TOWPATH_TRY(bootstrap.unique_id, shmem::UniqueId::from_raw(raw));
  const standard::Environment environment = read_environment();
  TOWPATH_TRY(bootstrap.heap_bytes, standard::shmem_heap_bytes(environment));
  TOWPATH_TRY(bootstrap.pages, standard::shmem_heap_pages(environment));
  TOWPATH_TRY(bootstrap.network, standard::shmem_network(environment));
  return bootstrap;
}

/// No thread of the library lives on while the program's libraries end.
void at_exit() {
  if (the_process == nullptr) return;            // another job could not begin
  if (process().world().is_inherited()) return;  // nor the lock: a thread of the PE may hold it
  const run::MutexLock lock(begin_mutex);
  begun > 0 ? process().world().leave() : process().world().finish();
}

Status begin(const nvshmemx_uniqueid_args_t* who) TOWPATH_REQUIRES(begin_mutex) {
  auto bootstrap = who != nullptr
                       ? bootstrap_by_id(*who)
                       : standard::bootstrap_shmem(read_environment(), shmem::Timeouts().to_start);
  TOWPATH_TRY(bootstrap);
  // Before the new one, whose heap is to lie at the same address.
  delete std::exchange(the_process, nullptr);
  TOWPATH_TRY(auto context, shmem::Context::open(*std::move(bootstrap)));
  static const int kRegistered = std::atexit(at_exit);  // once
  (void)kRegistered;
  is_by_id = who != nullptr;
  the_process = new Process(std::move(context), Statics());
  const std::string greeting = standard::shmem_greeting(standard::read_environment(), "NVSHMEM",
                                                        name_of_library(), the_process->context());
  std::fputs(greeting.c_str(), stderr);
  nvshmem::prepare_rendezvous();
  return {};
}

int begin_counted(const nvshmemx_uniqueid_args_t* who) {
  const run::MutexLock lock(begin_mutex);
  const bool is_another = begun == 0 && (who != nullptr || is_by_id);
  if (the_process == nullptr || is_another)
    if (answer(begin(who)) != 0) return NVSHMEMX_ERROR_INTERNAL;
  ++begun;
  return 0;
}

}  // namespace

extern "C" {

void nvshmem_init(void) {
  if (begin_counted(nullptr) != 0) std::exit(1);
}

int nvshmem_init_thread(int, int* provided) {
  nvshmem_query_thread(provided);
  return begin_counted(nullptr);
}

int nvshmemx_hostlib_init_attr(unsigned int flags, nvshmemx_init_attr_t* attributes) {
  if ((flags & (NVSHMEMX_INIT_WITH_MPI_COMM | NVSHMEMX_INIT_WITH_SHMEM)) != 0) {
    (void)answer(error(Code::unsupported, "initialisation by MPI or another SHMEM",
                       "start the PEs with `towpath run`, or pass them a unique identifier"));
    return NVSHMEMX_ERROR_NOT_SUPPORTED;
  }
  if ((flags & NVSHMEMX_INIT_WITH_UNIQUEID) == 0) return begin_counted(nullptr);
  if (attributes == nullptr || attributes->args.uid_args.id == nullptr)
    return NVSHMEMX_ERROR_INVALID_VALUE;
  return begin_counted(&attributes->args.uid_args);
}

int nvshmemx_init_attr(unsigned int flags, nvshmemx_init_attr_t* attributes) {
  return nvshmemx_hostlib_init_attr(flags, attributes);
}

void nvshmemx_hostlib_finalize(void) {
  const run::MutexLock lock(begin_mutex);
  if (begun == 0 || --begun > 0) return;
  shmem::Context& context = the_process->context();
  (void)answer(is_by_id ? context.finalize() : context.barrier());
}

int nvshmemx_set_attr_mpi_comm_args(void* comm, nvshmemx_init_attr_t* attributes) {
  if (attributes == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  attributes->version = kAttrVersion;
  attributes->mpi_comm = comm;
  return 0;
}

int nvshmemid_hostlib_init_attr(int, int* provided, unsigned int flags,
                                nvshmemx_init_attr_t* attributes, nvshmemi_version_t,
                                int (*)(void**, void**)) {
  if (provided != nullptr) nvshmem_query_thread(provided);
  return nvshmemx_hostlib_init_attr(flags, attributes);
}

// NVIDIA's header begins and ends by these, of C++: by whichever version of the attributes it has.
int nvshmemi_init_thread(int requested, int* provided, unsigned int flags, nvshmemx_init_attr_t* attributes, nvshmemi_version_t version) __asm__(
    "_Z20nvshmemi_init_threadiPijP21nvshmemx_init_attr_v218nvshmemi_version_t");
int nvshmemi_init_thread(int requested, int* provided, unsigned int flags,
                         nvshmemx_init_attr_t* attributes, nvshmemi_version_t version) {
  return nvshmemid_hostlib_init_attr(requested, provided, flags, attributes, version, nullptr);
}
int nvshmemi_init_thread_v1(int requested, int* provided, unsigned int flags, nvshmemx_init_attr_t* attributes, nvshmemi_version_t version) __asm__(
    "_Z20nvshmemi_init_threadiPijP21nvshmemx_init_attr_v118nvshmemi_version_t");
int nvshmemi_init_thread_v1(int requested, int* provided, unsigned int flags,
                            nvshmemx_init_attr_t* attributes, nvshmemi_version_t version) {
  return nvshmemid_hostlib_init_attr(requested, provided, flags, attributes, version, nullptr);
}

void nvshmemi_finalize(void) { nvshmemx_hostlib_finalize(); }
void nvshmemid_hostlib_finalize(void*, void*) { nvshmemx_hostlib_finalize(); }
int nvshmemid_init_status(void) { return nvshmemx_init_status(); }

void nvshmem_finalize(void) { nvshmemx_hostlib_finalize(); }

int nvshmemx_init_status(void) {
  const run::MutexLock lock(begin_mutex);
  return begun > 0 ? NVSHMEM_STATUS_IS_INITIALIZED : NVSHMEM_STATUS_NOT_INITIALIZED;
}

void nvshmem_query_thread(int* provided) { *provided = NVSHMEM_THREAD_SERIALIZED; }

void nvshmem_global_exit(int status) {
  process().world().end_all(status);
  std::exit(status);
}

int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t* id) {
  if (id == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  std::memcpy(id, shmem::UniqueId::create().raw().data(), sizeof *id);
  return 0;
}

int nvshmemx_set_attr_uniqueid_args(int rank, int nranks, const nvshmemx_uniqueid_t* id,
                                    nvshmemx_init_attr_t* attributes) {
  if (id == nullptr || attributes == nullptr) return NVSHMEMX_ERROR_INVALID_VALUE;
  attributes->version = kAttrVersion;
  attributes->args.version = kArgsVersion;
  attributes->args.uid_args = {
      .version = kUidArgsVersion, .id = id, .myrank = rank, .nranks = nranks};
  return 0;
}

void nvshmem_info_get_version(int* major, int* minor) {
  *major = kMajor;
  *minor = kMinor;
}

void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  nvshmem_info_get_version(major, minor);
  *patch = kPatch;
}

void nvshmem_info_get_name(char* name) {
  (void)std::snprintf(name, SHMEM_MAX_NAME_LEN, "%s", name_of_library().c_str());
}

const char* nvshmemx_towpath_version(void) { return TOWPATH_VERSION; }

}  // extern "C"
