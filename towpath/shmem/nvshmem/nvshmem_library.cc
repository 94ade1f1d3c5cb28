#include <cstring>

#include <towpath/core/format.h>
#include <towpath/shmem/nvshmem/nvshmem_library.h>

namespace towpath::shmem {
namespace nvshmem {
namespace {

constexpr const char* kHint =
    "install NVIDIA's NVSHMEM 3 (the package nvidia-nvshmem-cu12 or -cu13, or "
    "libnvshmem3-cuda-12), and "
    "put the folder of libnvshmem_host.so.3 into LD_LIBRARY_PATH; or use the host engine";
constexpr const char* kOurMark = "nvshmemx_towpath_version";

/// Looks functions up, and keeps the names of those that are missing.
class Finder {
 public:
  explicit Finder(const sys::DynamicLibrary& library) : library_(library) {}

  template <typename Function>
  void need(Function& function, const char* name) {
    take(function, name);
    if (function == nullptr) missing_ += cat(missing_.empty() ? "" : ", ", name);
  }
  template <typename Function>
  void take(Function& function, const char* name) {
    function = reinterpret_cast<Function>(library_.find(name));
  }
  const std::string& missing() const noexcept { return missing_; }

 private:
  const sys::DynamicLibrary& library_;
  std::string missing_;
};

}  // namespace

Status Library::find_functions() {
  Finder find(library_);
  find.need(functions_.init, "nvshmemx_hostlib_init_attr");
  find.need(functions_.finalize, "nvshmemx_hostlib_finalize");
  find.need(functions_.status, "nvshmemx_init_status");
  find.need(functions_.get_id, "nvshmemx_get_uniqueid");
  find.need(functions_.version, "nvshmemx_vendor_get_version_info");
  find.need(functions_.my_pe, "nvshmem_my_pe");
  find.need(functions_.n_pes, "nvshmem_n_pes");
  find.need(functions_.allocate, "nvshmem_malloc");
  find.need(functions_.free, "nvshmem_free");
  find.need(functions_.put, "nvshmem_putmem");
  find.need(functions_.get, "nvshmem_getmem");
  find.need(functions_.quiet, "nvshmem_quiet");
  find.need(functions_.fence, "nvshmem_fence");
  find.need(functions_.barrier, "nvshmem_barrier_all");
  find.need(functions_.sync, "nvshmem_sync_all");
  find.need(functions_.split, "nvshmem_team_split_strided");
  find.need(functions_.destroy, "nvshmem_team_destroy");
  find.need(functions_.team_my_pe, "nvshmem_team_my_pe");
  find.need(functions_.team_n_pes, "nvshmem_team_n_pes");
  find.need(functions_.translate, "nvshmem_team_translate_pe");
  find.take(functions_.pointer, "nvshmem_ptr");
  find.take(functions_.put_on_stream, "nvshmemx_putmem_on_stream");
  find.take(functions_.get_on_stream, "nvshmemx_getmem_on_stream");
  find.take(functions_.barrier_on_stream, "nvshmemx_barrier_all_on_stream");
  if (find.missing().empty()) return {};
  return error(Code::unsupported, cat(path(), " has no ", find.missing()), kHint);
}

Status Library::check(const NvshmemOptions& options) {
  is_stand_in_ = library_.find(kOurMark) != nullptr;
  if (is_stand_in_ && !options.accept_stand_in)
    return error(Code::unsupported, cat(path(), " is Towpath's own, which needs no GPU"), kHint);
  TOWPATH_TRY(find_functions());
  int major = 0, minor = 0, patch = 0;
  functions_.version(&major, &minor, &patch);
  version_ = cat(major, ".", minor, ".", patch);
  if (major == kMajor) return {};
  return error(Code::unsupported, cat(path(), " is NVSHMEM ", version_, ", not ", kMajor), kHint);
}

Result<NvshmemLibrary::Id> Library::create_id() const {
  Id id{};
  // The version that its initialiser in the header would put there.
  const int version = versioned(1, sizeof id);
  std::memcpy(id.data(), &version, sizeof version);
  if (const int status = functions_.get_id(id.data()); status != 0)
    return error(Code::unavailable, cat("NVSHMEM gives no identifier: status ", status),
                 "NVSHMEM_DEBUG=INFO reports more");
  return id;
}

}  // namespace nvshmem

Result<std::shared_ptr<const NvshmemLibrary>> NvshmemLibrary::open(const NvshmemOptions& options) {
  std::string tried;
  for (const std::string& name : options.names) {
    auto found = sys::DynamicLibrary::open(name);
    Status wrong = found.status();
    if (found.ok()) {
      auto library = std::make_shared<nvshmem::Library>(*std::move(found));
      wrong = library->check(options);
      if (wrong.ok()) return std::shared_ptr<const NvshmemLibrary>(std::move(library));
    }
    tried += cat(tried.empty() ? "" : "; ", wrong.message());
  }
  return error(Code::unsupported, cat("NVSHMEM is not here: ", tried), nvshmem::kHint);
}

Finding probe_nvshmem(const NvshmemOptions& options) {
  Finding finding{.question = "Can symmetric memory be that of GPUs, by NVSHMEM?",
                  .signal = "the library's functions and version",
                  .source = options.names.empty() ? "" : options.names.front()};
  const auto library = NvshmemLibrary::open(options);
  finding.verdict = library.ok() ? Verdict::yes : Verdict::no;
  if (library.ok()) {
    finding.source = (*library)->path();
    finding.reason = cat("NVSHMEM ", (*library)->version(),
                         (*library)->is_stand_in() ? ", Towpath's own: host memory" : "");
  } else {
    finding.reason = library.status().message();
    finding.hint = library.status().hint();
  }
  return finding;
}

Result<Engine> choose_engine(const EngineWish& wish, const Finding& nvshmem) {
  if (wish.engine == Engine::host || nvshmem.verdict == Verdict::yes) return wish.engine;
  if (wish.may_fall_back_to_host) return Engine::host;
  return error(Code::unsupported, nvshmem.reason, nvshmem.hint);
}

}  // namespace towpath::shmem
