#include <new>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/shmem/job.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/shared_pages.h>

namespace towpath::shmem {
namespace {

constexpr std::uint64_t kMagic = 0x4d45'4853'5057'5400;  // "\0TWPSHEM", read as bytes
constexpr std::uint32_t kJobVersion = 4;
constexpr std::uint64_t kHeapUnit = 4096;

Status check(const JobOptions& options) {
  if (options.pes < 1 || options.pes > static_cast<int>(kMaxPes))
    return error(Code::invalid_argument, cat(options.pes, " PEs"),
                 cat("use 1 to ", kMaxPes, " PEs"));
  if (options.heap_bytes == 0 || options.heap_bytes > (1ULL << 40U))
    return error(Code::invalid_argument, cat("a symmetric heap of ", options.heap_bytes, " bytes"),
                 "use up to 1 TiB");
  return {};
}

}  // namespace

std::uint64_t JobView::bytes_for(std::uint32_t pes) noexcept {
  return kPesOffset + pes * sizeof(PeRecord) + kTeamSlots * team_bytes(pes);
}

Result<JobView> JobView::map(int control_fd) {
  TOWPATH_TRY(sys::check_sealed(control_fd, sizeof(JobHeader)));
  TOWPATH_TRY(sys::Mapping head,
              sys::Mapping::of_file({.fd = control_fd, .size_bytes = sizeof(JobHeader)}));
  const auto* header = reinterpret_cast<const JobHeader*>(head.data());
  constexpr std::string_view kHint = "start the program with the `towpath run` of the same version";
  if (header->magic == kMagic && header->version != kJobVersion)
    return error(Code::unsupported,
                 cat("the job's control segment has version ", header->version,
                     ", this program version ", kJobVersion),
                 std::string(kHint));
  if (header->magic != kMagic || header->pes == 0 || header->pes > kMaxPes)
    return error(Code::corrupt, cat("descriptor ", control_fd, " is no job's control segment"),
                 std::string(kHint));
  JobView view;
  view.pes_ = header->pes;
  TOWPATH_TRY(sys::check_sealed(control_fd, bytes_for(view.pes_)));
  TOWPATH_TRY(view.mapping_,
              sys::Mapping::of_file({.fd = control_fd, .size_bytes = bytes_for(view.pes_)}));
  return view;
}

void JobView::ring_all() const noexcept {
  for (std::uint32_t slot = 0; slot < kTeamSlots; ++slot) team(slot).barrier.event_count().wake();
  for (std::uint32_t index = 0; index < pes_; ++index) pe(index).event_count.wake();
}

void JobView::mark(std::uint32_t index, PeState ended) const noexcept {
  std::atomic<std::uint32_t>& state = pe(index).state;
  for (std::uint32_t was = state.load(); was < static_cast<std::uint32_t>(PeState::finalized);)
    if (state.compare_exchange_weak(was, static_cast<std::uint32_t>(ended))) {
      header().losses.fetch_add(1);
      ring_all();
      return;
    }
}

void JobView::end_with(int status) const noexcept {
  std::uint32_t nobody = 0;
  header().ends_with.compare_exchange_strong(nobody,
                                             1 + (static_cast<std::uint32_t>(status) & 0xffU));
}

std::optional<int> JobView::wanted_end() const noexcept {
  const std::uint32_t word = header().ends_with.load();
  return word != 0 ? std::optional(static_cast<int>(word - 1)) : std::nullopt;
}

Result<JobFiles> create_job(const JobOptions& options) {
  TOWPATH_TRY(check(options));
  const auto pes = static_cast<std::uint32_t>(options.pes);
  JobFiles files;
  TOWPATH_TRY(files.control,
              sys::create_sealed_memfd("towpath-shmem-job", JobView::bytes_for(pes)));
  const std::uint64_t heap_bytes = *align_up(options.heap_bytes, kHeapUnit);
  const int heaps = options.heaps.value_or(options.pes);
  std::uint64_t page_bytes = 0;
  if (options.huge_pages == sys::HugePages::required) {
    TOWPATH_TRY(const sys::HugePagePool pool,
                sys::choose_reserved_pages(
                    {.size_bytes = heap_bytes, .count = static_cast<std::uint64_t>(heaps)}));
    page_bytes = pool.page_bytes;
  }
  for (int pe = 0; pe < heaps; ++pe) {
    TOWPATH_TRY(sys::Fd heap,
                sys::create_sealed_memfd(cat("towpath-shmem-heap-", pe), heap_bytes, page_bytes));
    files.heaps.push_back(std::move(heap));
  }
  TOWPATH_TRY(sys::Mapping head,
              sys::Mapping::of_file({.fd = files.control.get(), .size_bytes = sizeof(JobHeader)}));
  auto* header = reinterpret_cast<JobHeader*>(head.data());
  header->version = kJobVersion;
  header->pes = pes;
  header->heap_bytes = heap_bytes;
  header->heap_page_bytes = page_bytes;
  header->wants_huge_pages = options.huge_pages == sys::HugePages::best_effort ? 1 : 0;
  header->magic = kMagic;
  return files;
}

JobFiles spread(JobFiles files, const std::vector<std::uint32_t>& here, std::uint32_t pes) {
  JobFiles all{.control = std::move(files.control)};
  all.heaps.resize(pes);
  for (std::size_t index = 0; index < here.size() && index < files.heaps.size(); ++index)
    if (here[index] < pes) all.heaps[here[index]] = std::move(files.heaps[index]);
  return all;
}

Result<JobFiles> duplicate(const JobFiles& files) {
  JobFiles copy;
  TOWPATH_TRY(copy.control, files.control.duplicate());
  for (const sys::Fd& heap : files.heaps) {
    copy.heaps.emplace_back();
    if (!heap) continue;
    TOWPATH_TRY(copy.heaps.back(), heap.duplicate());
  }
  return copy;
}

}  // namespace towpath::shmem
