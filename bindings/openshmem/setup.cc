// Beginning and ending.
#include <cstdio>
#include <cstdlib>

#include <towpath/core/format.h>
#include <towpath/standard/shmem_start.h>

#include "bindings/openshmem/process.h"

using namespace towpath;
using namespace towpath::openshmem;

const char* const openshmem::kDoor = "openshmem";

namespace {

constexpr std::string_view kLibrary = SHMEM_VENDOR_STRING " " TOWPATH_VERSION ", OpenSHMEM 1.6";
static_assert(SHMEM_MAJOR_VERSION == 1 && SHMEM_MINOR_VERSION == 6);

bool has_ended = false;
int begun = 0;
int thread_level = SHMEM_THREAD_SINGLE;

void end() {
  has_ended = true;
  if (the_process != nullptr) must(the_process->context().finalize());
}

/// A program may end without shmem_finalize(). One that fails waits for nobody, and neither way
/// does a thread of the library live on while the program's libraries end. In a forked child, which
/// is no PE, all of this does nothing.
void at_exit(int status, void*) {
  if (!has_ended && status == 0) end();
  process().world().leave();  // nothing after shmem_finalize()
}

Status begin() {
  const standard::Environment environment = standard::read_environment();
  TOWPATH_TRY(auto bootstrap, standard::bootstrap_shmem(environment, shmem::Timeouts().to_start));
  TOWPATH_TRY(shmem::Context context, shmem::Context::open(std::move(bootstrap)));
  TOWPATH_TRY(Statics statics, Statics::share(context));
  the_process = new Process(std::move(context), std::move(statics));
  const std::string greeting =
      standard::shmem_greeting(environment, "SHMEM", kLibrary, the_process->context());
  std::fputs(greeting.c_str(), stderr);
  (void)::on_exit(at_exit, nullptr);
  return {};
}

}  // namespace

extern "C" {

void shmem_init(void) { (void)shmem_init_thread(SHMEM_THREAD_SINGLE, nullptr); }

int shmem_init_thread(int requested, int* provided) {
  if (the_process == nullptr) must(begin());
  if (begun++ == 0)
    thread_level = std::min(std::max(requested, SHMEM_THREAD_SINGLE), SHMEM_THREAD_MULTIPLE);
  if (provided != nullptr) *provided = thread_level;
  return 0;
}

void shmem_query_thread(int* provided) { *provided = thread_level; }
void shmem_query_initialized(int* initialized) {
  *initialized = the_process != nullptr && !has_ended ? 1 : 0;
}
void shmem_query_finalized(int* finalized) { *finalized = has_ended ? 1 : 0; }

void shmem_finalize(void) {
  (void)process();  // or else the end of what has not begun would be remembered
  if (begun <= 1 || has_ended) return end();  // by an exit handler, behind at_exit()
  --begun;
  shmem_barrier_all();
}

void shmem_global_exit(int status) {
  has_ended = true;
  process().world().end_all(status);
  std::exit(status);
}

void shmem_info_get_version(int* major, int* minor) {
  *major = SHMEM_MAJOR_VERSION;
  *minor = SHMEM_MINOR_VERSION;
}

void shmem_info_get_name(char* name) {
  (void)std::snprintf(name, SHMEM_MAX_NAME_LEN, "%s", SHMEM_VENDOR_STRING);
}

void shmem_pcontrol(int, ...) {}

}  // extern "C"
