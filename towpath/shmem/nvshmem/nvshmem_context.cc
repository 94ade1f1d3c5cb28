#include <towpath/core/format.h>
#include <towpath/shmem/nvshmem/nvshmem_library.h>

namespace towpath::shmem {

struct NvshmemContext::Opened {
  std::shared_ptr<const nvshmem::Library> library;
  int my_pe = -1;
  int pes = 0;  // 0 once finalized

  const nvshmem::Functions& call() const noexcept { return library->call(); }
};

namespace {

Status not_there(const char* what) {
  return error(Code::unsupported, cat("this NVSHMEM has no ", what), "install a newer one");
}

}  // namespace

Result<NvshmemContext> NvshmemContext::open(std::shared_ptr<const NvshmemLibrary> library,
                                            const NvshmemJob& job) {
  auto opened = std::make_shared<Opened>();
  opened->library = std::static_pointer_cast<const nvshmem::Library>(std::move(library));
  nvshmem::InitAttributes attributes;
  attributes.version = nvshmem::kInitAttributesVersion;
  attributes.args.version = nvshmem::kInitArgsVersion;
  attributes.args.uid.version = nvshmem::kUidArgsVersion;
  if (job.id) {
    attributes.args.uid.id = job.id->data();
    attributes.args.uid.rank = job.my_pe;
    attributes.args.uid.ranks = job.pes;
  }
  const nvshmem::Functions& call = opened->call();
  const int answer = call.init(job.id ? nvshmem::kInitWithUniqueId : 0, &attributes);
  const int status = answer == 0 ? call.status() : 0;
  if (answer == 0 && status < nvshmem::kUsable) call.finalize();
  if (answer != 0 || status < nvshmem::kUsable)
    return error(Code::unavailable,
                 cat("NVSHMEM does not begin: it answers ", answer, ", and its status is ", status),
                 "choose a GPU before, and look at NVSHMEM_DEBUG=INFO");
  opened->my_pe = call.my_pe();
  opened->pes = call.n_pes();
  return NvshmemContext(std::move(opened));
}

int NvshmemContext::my_pe() const { return opened_->my_pe; }
int NvshmemContext::n_pes() const { return opened_->pes; }

Status NvshmemContext::check_open() const {
  return opened_->pes != 0 ? Status() : error(Code::not_ready, "NVSHMEM was finalized");
}

Status NvshmemContext::check(int pe) const {
  TOWPATH_TRY(check_open());
  if (pe >= 0 && pe < opened_->pes) return {};
  return error(Code::out_of_range, cat("PE ", pe, " of ", opened_->pes));
}

Result<void*> NvshmemContext::allocate(std::size_t size_bytes) const {
  TOWPATH_TRY(check_open());
  void* const at = opened_->call().allocate(size_bytes);
  if (at == nullptr && size_bytes != 0)
    return error(Code::exhausted, cat("NVSHMEM has no ", size_bytes, " bytes"),
                 "free memory, or start with a larger NVSHMEM_SYMMETRIC_SIZE");
  return at;
}

Status NvshmemContext::free(void* at) const {
  TOWPATH_TRY(check_open());
  if (at != nullptr) opened_->call().free(at);
  return {};
}

Result<void*> NvshmemContext::ptr(const void* at, int pe) const {
  TOWPATH_TRY(check(pe));
  if (opened_->call().pointer == nullptr) return not_there("nvshmem_ptr");
  return opened_->call().pointer(at, pe);
}

Status NvshmemContext::put(const NvshmemCopy& what) const {
  TOWPATH_TRY(check(what.pe));
  opened_->call().put(what.target, what.source, what.size_bytes, what.pe);
  return {};
}

Status NvshmemContext::get(const NvshmemCopy& what) const {
  TOWPATH_TRY(check(what.pe));
  opened_->call().get(what.target, what.source, what.size_bytes, what.pe);
  return {};
}

Status NvshmemContext::quiet() const {
  TOWPATH_TRY(check_open());
  opened_->call().quiet();
  return {};
}

Status NvshmemContext::fence() const {
  TOWPATH_TRY(check_open());
  opened_->call().fence();
  return {};
}

Status NvshmemContext::barrier() const {
  TOWPATH_TRY(check_open());
  opened_->call().barrier();
  return {};
}

Status NvshmemContext::sync() const {
  TOWPATH_TRY(check_open());
  opened_->call().sync();
  return {};
}

Status NvshmemContext::put_on_stream(const NvshmemCopy& what, void* stream) const {
  TOWPATH_TRY(check(what.pe));
  if (opened_->call().put_on_stream == nullptr) return not_there("puts on streams");
  opened_->call().put_on_stream(what.target, what.source, what.size_bytes, what.pe, stream);
  return {};
}

Status NvshmemContext::get_on_stream(const NvshmemCopy& what, void* stream) const {
  TOWPATH_TRY(check(what.pe));
  if (opened_->call().get_on_stream == nullptr) return not_there("gets on streams");
  opened_->call().get_on_stream(what.target, what.source, what.size_bytes, what.pe, stream);
  return {};
}

Status NvshmemContext::barrier_on_stream(void* stream) const {
  TOWPATH_TRY(check_open());
  if (opened_->call().barrier_on_stream == nullptr) return not_there("barriers on streams");
  opened_->call().barrier_on_stream(stream);
  return {};
}

Result<std::int32_t> NvshmemContext::split_strided(std::int32_t parent,
                                                   const Strided& which) const {
  TOWPATH_TRY(check_open());
  std::int32_t made = Team::kInvalid;
  const int answer =
      opened_->call().split(parent, which.start, which.stride, which.size, nullptr, 0, &made);
  // 0 for members; others have no team either way.
  if (answer != 0 && made == Team::kInvalid)
    return error(Code::invalid_argument,
                 cat("NVSHMEM splits no team with start ", which.start, ", stride ", which.stride,
                     ", size ", which.size, ": it answers ", answer));
  return made;
}

Result<int> NvshmemContext::my_pe_in(std::int32_t team) const {
  TOWPATH_TRY(check_open());
  return opened_->call().team_my_pe(team);
}

Result<int> NvshmemContext::n_pes_of(std::int32_t team) const {
  TOWPATH_TRY(check_open());
  return opened_->call().team_n_pes(team);
}

Result<int> NvshmemContext::translate(std::int32_t team, int pe, std::int32_t other) const {
  TOWPATH_TRY(check_open());
  return opened_->call().translate(team, pe, other);
}

Status NvshmemContext::destroy(std::int32_t team) const {
  TOWPATH_TRY(check_open());
  constexpr std::int32_t kFirstOfUsers = 6;
  if (team >= kFirstOfUsers) opened_->call().destroy(team);
  return {};
}

Status NvshmemContext::finalize() {
  if (opened_->pes == 0) return {};
  opened_->pes = 0;
  opened_->call().finalize();
  return {};
}

}  // namespace towpath::shmem
