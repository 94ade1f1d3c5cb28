#include <array>
#include <cerrno>

#include <towpath/backends/gds/cufile.h>
#include <towpath/sys/os_error.h>

namespace towpath::backends::gds {
namespace {

constexpr const char* kNoLibrary =
    "install libcufile of the CUDA toolkit (12.8 or newer for the way without nvidia-fs); without, "
    "a backend for host memory moves the bytes through pinned memory";
constexpr const char* kNoCompat =
    "set allow_compat_mode, vanilla_posix_io_mode and gds_fallback_io to false in cufile.json, or "
    "use libcufile of CUDA 12.9 or newer, or say compat=allow: then bytes may be staged through "
    "host memory";
constexpr const char* kDoctor =
    "towpath doctor --dir DIR says which of library, GPU and file it is";

struct Meaning {
  int number;
  const char* text;
  Code code;
  const char* hint;
};

// What a program should act on, and a person do; the texts are ours.
constexpr std::array<Meaning, 27> kMeanings = {{
    {cufile::kNotInitialized, "nvidia-fs is not loaded, and there is no other direct way",
     Code::unsupported, kDoctor},
    {cufile::kVersionMismatch, "nvidia-fs is of another version than libcufile", Code::unsupported,
     "install both from one CUDA release"},
    {cufile::kPlatformNotSupported, "this machine cannot", Code::unsupported, kDoctor},
    {cufile::kFileNotSupported, "this file cannot", Code::unsupported, kDoctor},
    {cufile::kDeviceNotSupported, "this GPU cannot", Code::unsupported, kDoctor},
    {cufile::kDriverFailed, "nvidia-fs failed", Code::io_error, "look at the kernel's log (dmesg)"},
    {cufile::kCudaFailed, "CUDA's driver failed", Code::io_error, "look at nvidia-smi"},
    {cufile::kPointerInvalid, "no pointer of a GPU", Code::invalid_argument,
     "register memory that the GPU's driver gave"},
    {cufile::kMemoryTypeInvalid, "memory of the wrong type", Code::invalid_argument,
     "register memory that the GPU's driver gave"},
    {cufile::kPointerRange, "longer than what was allocated", Code::out_of_range, ""},
    {cufile::kContextMismatch, "the GPU is not current on this thread", Code::internal, ""},
    {cufile::kInvalidFileType, "no file that it takes", Code::invalid_argument,
     "use a regular file, or a block device"},
    {cufile::kInvalidOpenFlag, "the file is open in a way that it does not take",
     Code::invalid_argument, "open it with O_DIRECT and without O_APPEND"},
    {cufile::kNotDirect, "the file is not open with O_DIRECT", Code::invalid_argument,
     "use a file system that takes O_DIRECT"},
    {cufile::kInvalidValue, "a wrong argument", Code::invalid_argument, ""},
    {cufile::kAlreadyRegistered, "the memory is registered already", Code::already_exists,
     "register memory once"},
    {cufile::kNotRegistered, "the memory is not registered", Code::not_found, ""},
    {cufile::kPermissionDenied, "no permission for the driver or the file", Code::denied,
     "look at the rights of the file and of /dev/nvidia-fs*; a container needs these devices"},
    {cufile::kAlreadyOpen, "the driver is open already", Code::already_exists, ""},
    {cufile::kHandleNotRegistered, "the file is not registered", Code::not_found, ""},
    {cufile::kHandleAlreadyRegistered, "the file is registered already", Code::already_exists, ""},
    {cufile::kInternal, "an error of its own", Code::io_error,
     "its log says more: cufile.log, where cufile.json puts it"},
    {cufile::kSetupFailed, "nvidia-fs cannot be started", Code::unsupported, kDoctor},
    {cufile::kDisabled, "its configuration forbids this file", Code::denied,
     "look at cufile.json: the lists of denied file systems and mounts"},
    {cufile::kBatchFailed, "a batch was not taken", Code::io_error, "use engine=threads"},
    {cufile::kPinningFailed, "the GPU has no memory left that can be pinned", Code::exhausted,
     "register less, or raise max_device_pinned_mem_size_kb"},
    {cufile::kBatchFull, "the batch is full", Code::exhausted, "use a smaller batch"},
}};

Meaning meaning_of(int code) {
  for (const Meaning& known : kMeanings) {
    if (known.number == code) return known;
  }
  return {code, "an error that we do not know", Code::io_error,
          "its log says more: cufile.log, where cufile.json puts it"};
}

}  // namespace

Result<std::shared_ptr<const CuFile>> CuFile::open(const CuFileOptions& options) {
  Status missing = error(Code::not_found, "no name of libcufile was given");
  for (const std::string& name : options.libraries) {
    auto library = sys::DynamicLibrary::open(name);
    if (!library.ok()) {
      missing =
          error(Code::not_found, "libcufile is not here", kNoLibrary).because(library.status());
      continue;
    }
    auto cufile = std::make_shared<CuFile>(*std::move(library), options.compat);
    TOWPATH_TRY(cufile->find_functions());
    TOWPATH_TRY(cufile->start());
    return std::shared_ptr<const CuFile>(std::move(cufile));
  }
  return missing;
}

CuFile::~CuFile() {
  if (is_ours_ && functions_.driver_close != nullptr) (void)functions_.driver_close();
}

Status CuFile::find_functions() {
#define TOWPATH_CUFILE_FIND(member, symbol, result, parameters) \
  functions_.member = reinterpret_cast<decltype(functions_.member)>(library_.find(#symbol));
  TOWPATH_CUFILE_FUNCTIONS(TOWPATH_CUFILE_FIND)
  TOWPATH_CUFILE_OPTIONAL_FUNCTIONS(TOWPATH_CUFILE_FIND)
#undef TOWPATH_CUFILE_FIND
  const char* missing = nullptr;
#define TOWPATH_CUFILE_MISSING(member, symbol, result, parameters) \
  if (functions_.member == nullptr) missing = #symbol;
  TOWPATH_CUFILE_FUNCTIONS(TOWPATH_CUFILE_MISSING)
#undef TOWPATH_CUFILE_MISSING
  if (missing == nullptr) return {};
  return error(Code::unsupported, cat(printable(library_.path(), 256), " has no ", missing),
               "install libcufile of CUDA 11.4 or newer");
}

// The switches hold from the next start of the driver on; one that runs already keeps its own.
Status CuFile::start() {
  if (compat_ == Compat::refuse && functions_.set_switch != nullptr) {
    using cufile::Switch;
    for (const Switch stages :
         {Switch::force_compat, Switch::allow_compat, Switch::posix_alone, Switch::fall_back})
      (void)functions_.set_switch(stages, false);
  }
  if (functions_.version == nullptr || functions_.version(&version_).code != 0) version_ = 0;
  const bool are_known = version_ >= cufile::kVersion115 && version_ < cufile::kVersion121;
  is_counting_ = are_known && functions_.stats != nullptr &&
                 functions_.set_stats_level != nullptr && functions_.start_stats != nullptr &&
                 functions_.set_stats_level(cufile::kCountPerGpu).code == 0;
  const cufile::Answer opened = functions_.driver_open();
  if (opened.code != cufile::kAlreadyOpen)
    TOWPATH_TRY(check(opened, "cannot start GPUDirect Storage"));
  is_ours_ = opened.code == 0;
  if (is_counting_) is_counting_ = functions_.start_stats().code == 0;
  TOWPATH_TRY(check(functions_.properties(&properties_), "cannot ask libcufile what it can do"));
  return compat_ == Compat::refuse ? forbid_compat() : Status();
}

Status CuFile::forbid_compat() const {
  constexpr unsigned kStages = cufile::kCompatAllowed | cufile::kPosixAlone | cufile::kFallsBack;
  if ((properties_.control_flags & kStages) == 0) return {};
  const char* why = (properties_.control_flags & cufile::kCompatAllowed) == 0
                        ? "its configuration asks for POSIX I/O, or to fall back to it"
                    : functions_.set_switch == nullptr ? "it is too old for that switch"
                                                       : "it was started before, with compat mode";
  return error(Code::unsupported, cat(describe(), ": compat mode cannot be refused (", why, ")"),
               kNoCompat);
}

bool CuFile::has_batches() const noexcept {
  return functions_.batch_set_up != nullptr && functions_.batch_submit != nullptr &&
         functions_.batch_status != nullptr && functions_.batch_cancel != nullptr &&
         functions_.batch_destroy != nullptr &&
         (properties_.feature_flags & cufile::kBatchWorks) != 0;
}

bool CuFile::has_streams() const noexcept {
  return functions_.stream_register != nullptr && functions_.stream_deregister != nullptr &&
         functions_.stream_read != nullptr && functions_.stream_write != nullptr &&
         (properties_.feature_flags & cufile::kStreamsWork) != 0;
}

std::string CuFile::describe() const {
  return cat("libcufile", version_ != 0 ? cat(" ", version_ / 1000, ".", version_ % 1000 / 10) : "",
             " (", printable(library_.path(), 256), "), ",
             may_stage() ? "compat mode allowed: it may stage through host memory without a report"
                         : "compat mode refused");
}

std::optional<cufile::GpuCounters> CuFile::counters() const {
  if (!is_counting_) return std::nullopt;
  return version_ < cufile::kVersion119 ? counted<cufile::CountersOf115>()
                                        : counted<cufile::CountersOf119>();
}

template <typename Counters>
std::optional<cufile::GpuCounters> CuFile::counted() const {
  const auto all = std::make_unique<Counters>();
  if (functions_.stats(all.get()).code != 0) return std::nullopt;
  cufile::GpuCounters sum;
  for (const cufile::GpuCounters& gpu : all->gpu) {
    sum.p2p_reads += gpu.p2p_reads;
    sum.nvfs_reads += gpu.nvfs_reads;
    sum.posix_reads += gpu.posix_reads;
    sum.p2p_writes += gpu.p2p_writes;
    sum.nvfs_writes += gpu.nvfs_writes;
    sum.posix_writes += gpu.posix_writes;
  }
  return sum;
}

std::int32_t CuFile::result_of(ssize_t answer) noexcept {
  return static_cast<std::int32_t>(answer == -1 ? -errno : answer);
}

std::int32_t CuFile::result_of_stream(ssize_t moved) noexcept {
  return static_cast<std::int32_t>(moved == -1 ? -EIO : moved);
}

Status CuFile::failure_of(std::int32_t result, const std::string& what) const {
  if (-result <= cufile::kFirstError) return sys::os_error(-result, what);
  return failure({.code = -result}, what);
}

Status CuFile::failure(cufile::Answer answer, std::string what) const {
  const Meaning meaning = meaning_of(answer.code);
  std::string text = cat(what, ": ", meaning.text, " (libcufile ", answer.code);
  if (answer.code == cufile::kCudaFailed) text += cat(", CUDA ", answer.cuda);
  return error(meaning.code, text + ")", meaning.hint);
}

}  // namespace towpath::backends::gds
