#include <cerrno>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <towpath/sys/direct_storage_parts.h>
#include <towpath/sys/judged.h>
#include <towpath/sys/os_error.h>

namespace towpath::sys {
namespace {

std::vector<Finding> ask_directory(const std::string& directory, const MachineRoot& root) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) == 0) {
    const std::string device = cat(major(info.st_dev), ":", minor(info.st_dev));
    return probe_storage_device(directory, device, root);
  }
  const Status why = os_error(errno, cat("cannot look at '", printable(directory, 256), "'"));
  return {{.question = cat("Can files of ", printable(directory, 256), " go direct?"),
           .signal = "stat(2)",
           .source = directory,
           .verdict = Verdict::unknown,
           .reason = std::string(why.message()),
           .hint = std::string(why.hint())}};
}

#ifdef TOWPATH_WITHOUT_GDS
constexpr bool kIsBuilt = false;
#else
constexpr bool kIsBuilt = true;
#endif

/// The best way that all three questions allow, and why no better one.
void conclude(DirectStorage& storage, const internal::LibraryAnswers& library,
              const internal::GpuAnswers& gpu) {
  const std::string files = internal::reasons_against(storage.files);
  const bool direct = library.is_there && library.allows_direct && files.empty();
  if (direct && gpu.p2pdma && library.allows_p2pdma) {
    storage.direct_path = DirectPath::p2pdma;
  } else if (direct && gpu.nvidia_fs) {
    storage.direct_path = DirectPath::nvidia_fs;
  } else {
    storage.direct_path = library.is_there ? DirectPath::compat : DirectPath::unavailable;
    for (const std::string& reason : {internal::reasons_against(storage.library),
                                      internal::reasons_against(storage.gpu), files}) {
      if (!reason.empty()) storage.why.append(storage.why.empty() ? "" : "; ").append(reason);
    }
  }
}

Verdict verdict_of(DirectPath direct_path) {
  switch (direct_path) {
    case DirectPath::p2pdma:
    case DirectPath::nvidia_fs: return Verdict::yes;
    case DirectPath::compat: return Verdict::degraded;
    case DirectPath::unavailable:
    case DirectPath::not_built: return Verdict::no;
  }
  return Verdict::unknown;
}

}  // namespace

std::string_view name_of(DirectPath direct_path) noexcept {
  switch (direct_path) {
    case DirectPath::p2pdma: return "direct (P2PDMA)";
    case DirectPath::nvidia_fs: return "direct (nvidia-fs)";
    case DirectPath::compat: return "compat";
    case DirectPath::unavailable: return "unavailable";
    case DirectPath::not_built: return "not built";
  }
  return "unknown";
}

std::string internal::reasons_against(const std::vector<Finding>& findings) {
  std::string reasons;
  for (const Finding& finding : findings) {
    if (finding.verdict == Verdict::yes || finding.verdict == Verdict::degraded) continue;
    reasons.append(reasons.empty() ? "" : "; ").append(finding.reason);
  }
  return reasons;
}

DirectStorage probe_direct_storage(const DirectStorageOptions& options) {
  if (!kIsBuilt)
    return {.direct_path = DirectPath::not_built, .why = "this build has no GPUDirect Storage"};
  const internal::LibraryAnswers library = internal::ask_library(options);
  const internal::GpuAnswers gpu = internal::ask_gpu(options);
  DirectStorage storage{.library = library.findings, .gpu = gpu.findings};
  for (const std::string& directory : options.directories) {
    for (Finding& finding : ask_directory(directory, options.root))
      storage.files.push_back(std::move(finding));
  }
  conclude(storage, library, gpu);
  return storage;
}

std::vector<Finding> findings_of(const DirectStorage& storage) {
  std::vector<Finding> all = storage.library;
  all.insert(all.end(), storage.gpu.begin(), storage.gpu.end());
  all.insert(all.end(), storage.files.begin(), storage.files.end());
  all.push_back(
      {.question = "Which way do bytes take between a drive and a GPU?",
       .signal = "the answers above",
       .source = "libcufile, the GPU, the file",
       .verdict = verdict_of(storage.direct_path),
       .reason = cat(name_of(storage.direct_path), storage.why.empty() ? "" : ": ", storage.why),
       .hint = ""});
  return all;
}

}  // namespace towpath::sys
