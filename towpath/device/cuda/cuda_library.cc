#include <thread>

#include <towpath/device/cuda/cuda_library.h>

namespace towpath::device::cuda {
namespace {

constexpr const char* kNoLibrary =
    "install NVIDIA's driver, which brings libcuda.so.1; in a container, give it the GPU (docker "
    "run --gpus all)";
constexpr const char* kNoGpu =
    "look at nvidia-smi and CUDA_VISIBLE_DEVICES; in a container, give it the GPU (docker run "
    "--gpus all)";
constexpr const char* kMismatch =
    "the driver's library and kernel module are of different versions: reboot, or install both "
    "anew";
constexpr const char* kBroken =
    "the GPU's context is lost: end this process; the kernel's log (dmesg, Xid) says more";

struct Meaning {
  Code code = Code::io_error;
  const char* hint = kBroken;
};

/// What a program should act on, and a person do.
Meaning meaning_of(CuResult result) {
  switch (result) {
    case kInvalidValue:
    case kInvalidDevice:
    case kInvalidHandle: return {Code::invalid_argument, "check the values in this message"};
    case kInvalidContext:
    case kMapFailed:
    case kAlreadyMapped:
      return {Code::invalid_argument, "handles are for other processes, and open once in each"};
    case kOutOfMemory: return {Code::exhausted, "free memory of that kind, or ask for less"};
    case kNotInitialized:
    case kDeinitialized: return {Code::not_ready, "the driver is not running any more"};
    case kStubLibrary:
      return {Code::unsupported,
              "a stub for linking was loaded: put the real one before it in the loader's path"};
    case kNoDevice: return {Code::unsupported, kNoGpu};
    case kSystemDriverMismatch:
    case kCompatNotSupportedOnDevice: return {Code::unsupported, kMismatch};
    case kDeviceUnavailable:
    case kSystemNotReady:
      return {Code::unavailable,
              "another process may hold the GPU alone, or its services still start (nvidia-smi, "
              "fabric manager)"};
    case kPeerAccessUnsupported:
    case kNotSupported: return {Code::unsupported, "this GPU or its driver cannot do it"};
    case kNotPermitted: return {Code::denied, "check the container's and the driver's permissions"};
    case kOperatingSystem:
      return {Code::denied,
              "the kernel refused: look at its log and the limits of locked memory (ulimit -l)"};
    case kNotFound:
    case kPeerAccessNotEnabled:
    case kHostMemoryNotRegistered: return {Code::not_found, ""};
    case kPeerAccessAlreadyEnabled: return {Code::already_exists, ""};
    case kHostMemoryAlreadyRegistered: return {Code::already_exists, "register memory once"};
    case kNotReady: return {Code::not_ready, "wait for the work first"};
    case kTimeout: return {Code::timed_out, ""};
    default:
      if (result >= kMpsConnectionFailed && result <= kMpsMaxConnectionsReached)
        return {Code::unavailable, "look at the multi-process service (nvidia-cuda-mps-control)"};
      return {};
  }
}

}  // namespace

Result<std::shared_ptr<const CudaLibrary>> CudaLibrary::open(const std::string& name) {
  auto library = sys::DynamicLibrary::open(name);
  if (!library.ok())
    return error(Code::unsupported, "CUDA's driver is not here", kNoLibrary)
        .because(library.status());
  auto cuda = std::make_shared<CudaLibrary>(*std::move(library));
  TOWPATH_TRY(cuda->find_functions());
  TOWPATH_TRY(cuda->check(cuda->call().init(0), "cannot start CUDA's driver"));
  return std::shared_ptr<const CudaLibrary>(std::move(cuda));
}

Status CudaLibrary::find_functions() {
#define TOWPATH_CUDA_FIND(member, symbol, parameters) \
  functions_.member = reinterpret_cast<decltype(functions_.member)>(library_.find(#symbol));
  TOWPATH_CUDA_FUNCTIONS(TOWPATH_CUDA_FIND)
  TOWPATH_CUDA_OPTIONAL_FUNCTIONS(TOWPATH_CUDA_FIND)
#undef TOWPATH_CUDA_FIND
  const char* missing = nullptr;
#define TOWPATH_CUDA_MISSING(member, symbol, parameters) \
  if (functions_.member == nullptr) missing = #symbol;
  TOWPATH_CUDA_FUNCTIONS(TOWPATH_CUDA_MISSING)
#undef TOWPATH_CUDA_MISSING
  if (missing == nullptr) return {};
  return error(Code::unsupported, cat(printable(library_.path(), 256), " has no ", missing),
               "install a driver of CUDA 11.3 or newer (465 or newer)");
}

Result<std::string> CudaLibrary::version() const {
  int version = 0;
  TOWPATH_TRY(check(functions_.driver_version(&version), "cannot ask for the driver's version"));
  return cat(version / 1000, '.', version % 1000 / 10);
}

CuResult CudaLibrary::wait_for(CuStream stream) const {
  const CuResult waited = functions_.stream_synchronize(stream);
  // A wait that could not wait leaves work under way, and its bytes would land after the error.
  while (waited != kSuccess && functions_.stream_query(stream) == kNotReady)
    std::this_thread::yield();
  return waited;
}

Status CudaLibrary::failure(CuResult result, const std::string& what) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (functions_.error_name(result, &name) != kSuccess || name == nullptr) name = "unknown";
  if (functions_.error_string(result, &text) != kSuccess || text == nullptr) text = "no text";
  const Meaning meaning = meaning_of(result);
  return error(meaning.code, cat(what, ": ", text, " (", name, ", ", result, ")"), meaning.hint);
}

}  // namespace towpath::device::cuda
