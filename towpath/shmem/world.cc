#include <algorithm>
#include <numeric>

#include <sched.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/shmem/heap_memory.h>
#include <towpath/shmem/hosts.h>
#include <towpath/shmem/stopped_pes.h>
#include <towpath/shmem/world_parts.h>
#include <towpath/sys/process.h>

namespace towpath::shmem {
namespace {

/// How long a sleeper may miss a death, or a write that nobody rang for.
constexpr Duration kSlice = std::chrono::milliseconds(2);

unsigned cores() noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : 1;
}

/// Spinning pays only if the one who is waited for has a core of its own; a look costs about 50 ns.
/// PEs that share a core meet soonest by yielding (bench/shmem.cc; decision 0020).
run::Looks looks_for(std::uint32_t pes) noexcept {
  if (pes == 1) return {.spins = 0, .yields = 0};
  return pes <= cores() ? run::Looks{.spins = 300, .yields = 50}
                        : run::Looks{.spins = 20, .yields = 50};
}

PeState state_of(const PeRecord& record) noexcept {
  return static_cast<PeState>(record.state.load(std::memory_order_acquire));
}

bool is_over(PeState state) noexcept { return state >= PeState::finalized; }

/// What reports the end of a PE's process; none where it cannot be watched, by the kernel or by the
/// rules of a sandbox: what is not known to have ended lives. Errors: peer_lost, exhausted.
Result<sys::Fd> watch(const PeRecord& record) {
  const auto pid = static_cast<pid_t>(record.pid.load(std::memory_order_relaxed));
  auto process = sys::open_process(pid);
  const auto started =
      process.ok() ? sys::process_start_time(pid) : Result<std::uint64_t>(process.status());
  if (started.ok() && *started == record.start_time) return process;
  if (started.ok()) return error(Code::peer_lost, cat("process ", pid, " is another one"));
  if (started.code() == Code::peer_lost || started.code() == Code::exhausted)
    return started.status();
  return sys::Fd();
}

const char* how_it_ended(const PeRecord& record, bool is_here) noexcept {
  switch (state_of(record)) {
    case PeState::finalized: return "has finalized";
    case PeState::left: return "left without finalizing";
    case PeState::stopped: return "was stopped by a signal, and did not go on";
    default: return is_here ? "died" : "died, or cannot be reached";
  }
}

}  // namespace

World::World(Private, JobView job, const WorldOptions& options)
    : parts_(std::make_unique<Parts>(std::move(job), options.timeouts)),
      pes_(parts_->job.pes()),
      heap_bytes_(parts_->job.header().heap_bytes),
      sleepers_(reinterpret_cast<const std::byte*>(&parts_->job.pe(0).event_count.sleepers())),
      looks_(options.looks.value_or(looks_for(pes_))) {}

Result<std::shared_ptr<World>> World::open(Bootstrap bootstrap, const WorldOptions& options) {
  if (bootstrap.unique_id && bootstrap.pes > 1) {
    const UniqueId id = *bootstrap.unique_id;
    TOWPATH_TRY(bootstrap, bootstrap_by_id(id, {.my_pe = bootstrap.my_pe,
                                                .pes = bootstrap.pes,
                                                .heap_bytes = bootstrap.heap_bytes,
                                                .pages = bootstrap.pages,
                                                .timeout = options.timeouts.to_start,
                                                .network = bootstrap.network}));
  }
  const int my_pe = bootstrap.my_pe;
  const HeapPages pages = bootstrap.pages;
  auto hosts = std::move(bootstrap.hosts);
  auto remote = std::move(bootstrap.remote);
  TOWPATH_TRY(JobFiles files, obtain(std::move(bootstrap)));
  TOWPATH_TRY(JobView job, JobView::map(files.control.get()));
  if (my_pe < 0 || static_cast<std::uint32_t>(my_pe) >= job.pes() ||
      files.heaps.size() != job.pes() || (remote != nullptr && hosts.size() != files.heaps.size()))
    return error(Code::invalid_argument, cat("PE ", my_pe, " with ", files.heaps.size(),
                                             " heaps, of a job of ", job.pes(), " PEs"));
  auto world = std::make_shared<World>(Private{}, std::move(job), options);
  world->my_pe_ = static_cast<std::uint32_t>(my_pe);
  world->parts_->hosts =
      remote != nullptr ? std::move(hosts) : std::vector<std::uint32_t>(world->pes());
  world->parts_->remote = std::move(remote);
  world->has_others_ = world->parts_->remote != nullptr;
  world->parts_->awaited.resize(world->pes());
  std::iota(world->parts_->awaited.begin(), world->parts_->awaited.end(), 0);
  TOWPATH_TRY(world->map_heaps(std::move(files), pages));
  TOWPATH_TRY(world->meet());
  TOWPATH_TRY(world->watch_others());
  world->open_pes_ = world->pes();
  return world;
}

World::~World() {
  leave();
  // A forked child lets go of nothing: it has no thread to stop, and the connections are the PE's.
  if (has_others_ && is_inherited()) (void)new std::shared_ptr<Remote>(std::move(parts_->remote));
}

const memory::Placement& World::heap_placement() const noexcept { return parts_->placement; }
int World::heap_fd() const noexcept { return parts_->heap_fd.get(); }

void World::ring(std::uint32_t pe) const noexcept { parts_->job.pe(pe).event_count.ring(); }
void World::quiet_remote() const noexcept {
  if (!is_inherited()) parts_->remote->quiet();
}
bool World::is_whole_far(ConstByteSpan element, const Condition& holds) const {
  return is_inherited() || parts_->remote->is_whole(element, holds);
}

bool World::is_inherited() const noexcept { return parts_->fork_mark.is_inherited(); }

Status World::check_process() const {
  if (!is_inherited()) return {};
  return error(Code::not_ready,
               "this symmetric memory belongs to the process that this one was forked from",
               "make the calls of all PEs, and those to other hosts, there");
}

void World::keep_stream_failure(const Status& status) {
  const run::MutexLock lock(parts_->stream_mutex);
  if (parts_->stream_failure.ok()) parts_->stream_failure = status;
}

Status World::take_stream_failure() {
  const run::MutexLock lock(parts_->stream_mutex);
  return std::exchange(parts_->stream_failure, Status());
}

void World::end_all(int status) const noexcept {
  parts_->job.end_with(status);
  if (parts_->remote != nullptr && !is_inherited()) parts_->remote->end_all(status);
}

// One that the others have given up has not come to the end with them.
void World::finish() noexcept {
  if (is_inherited() || open_pes_.exchange(0) == 0) return;
  auto running = static_cast<std::uint32_t>(PeState::running);
  const bool has_finalized = parts_->job.pe(my_pe_).state.compare_exchange_strong(
      running, static_cast<std::uint32_t>(PeState::finalized));
  if (parts_->remote != nullptr)
    parts_->remote->close(has_finalized ? PeState::finalized : PeState::left);
}

void World::leave() noexcept {
  if (is_inherited() || open_pes_.exchange(0) == 0) return;
  parts_->job.mark(my_pe_, PeState::left);
  if (parts_->remote != nullptr) parts_->remote->close(PeState::left);
}

/// Of the descriptors the own heap's is kept: mappings need none, and a job has many.
Status World::map_heaps(JobFiles files, const HeapPages& pages) {
  parts_->heaps.resize(pes());
  for (std::uint32_t pe = 0; pe < pes(); ++pe) {
    if (parts_->hosts[pe] != parts_->hosts[my_pe_]) continue;
    void* const at = pe == my_pe_ ? reinterpret_cast<void*>(kSymmetricBase) : nullptr;
    TOWPATH_TRY(parts_->heaps[pe],
                map_heap(parts_->job.header(), {.fd = files.heaps[pe].get(), .at = at}));
  }
  heap_base_ = parts_->heaps[my_pe_].data();
  parts_->heap_fd = std::move(files.heaps[my_pe_]);
  TOWPATH_TRY(parts_->placement, place_heaps(parts_->job.header(), parts_->heaps,
                                             parts_->heaps[my_pe_].bytes(), pages));
  for (std::uint32_t pe = 0; pe < pes(); ++pe)
    shifts_.push_back(parts_->hosts[pe] == parts_->hosts[my_pe_]
                          ? address_of(parts_->heaps[pe].data()) - address_of(heap_base())
                          : kFar);
  return {};
}

/// Says that this PE is here, and waits for all others to say so.
Status World::meet() {
  PeRecord& mine = parts_->job.pe(my_pe_);
  TOWPATH_TRY(const std::uint64_t started, sys::process_start_time(::getpid()));
  // The number of a process that has begun stays: by it the others watch that one.
  std::uint32_t nobody = 0;
  bool is_first = mine.pid.compare_exchange_strong(nobody, static_cast<std::uint32_t>(::getpid()));
  if (is_first) {
    mine.start_time = started;
    std::uint32_t absent = 0;
    is_first =
        mine.state.compare_exchange_strong(absent, static_cast<std::uint32_t>(PeState::running));
  }
  if (!is_first)
    return error(Code::already_exists, cat("PE ", my_pe_, " of this job has begun before"),
                 "start each PE once");
  open_pes_ = pes();  // from here on, going away is leaving
  if (parts_->remote != nullptr)
    TOWPATH_TRY(
        parts_->remote->start({.job = &parts_->job,
                               .my_pe = my_pe_,
                               .heap = {heap_base(), static_cast<std::size_t>(heap_bytes())}}));
  const run::Deadline end = run::Deadline::after(parts_->clock, parts_->timeouts.to_start);
  for (std::uint32_t pe = 0; pe < pes(); ++pe) nudge(pe);
  for (std::uint32_t pe = 0; pe < pes(); ++pe) {
    PeRecord& other = parts_->job.pe(pe);
    const auto has_begun = [&] { return state_of(other) != PeState::absent; };
    while (!has_begun()) {
      const run::Deadline slice = run::Deadline::after(parts_->clock, kSlice);
      // On the own bell: those who come later ring it.
      (void)mine.event_count.doze(has_begun, run::Deadline::earlier(slice, end));
      if (end.expired(parts_->clock) && !has_begun())
        return error(Code::timed_out, whereabouts(parts_->awaited), "start all PEs of the job");
    }
    if (is_over(state_of(other)))
      return error(Code::peer_lost,
                   cat("PE ", pe, " ", how_it_ended(other, is_here(pe)), " before all had begun"));
  }
  return {};
}

Status World::watch_others() {
  parts_->processes.resize(pes());
  for (std::uint32_t pe = 0; pe < pes(); ++pe) {
    const PeRecord& record = parts_->job.pe(pe);
    const auto pid = static_cast<pid_t>(record.pid.load(std::memory_order_relaxed));
    if (pid == ::getpid() || !is_here(pe))
      continue;  // a PE in a thread, or for the engine to watch
    auto process = watch(record);
    if (process.code() == Code::peer_lost) {
      parts_->job.mark(pe, PeState::lost);
      continue;
    }
    TOWPATH_TRY(parts_->processes[pe], std::move(process));
  }
  return {};
}

Status World::wait_longer(const Condition& ready) {
  const Doing doing(*this, CallKind::wait, 0);
  return wait(parts_->job.pe(my_pe_).event_count, ready, parts_->awaited);
}

Status World::wait_asleep(EventCount& event_count, const Condition& ready,
                          std::span<const std::int32_t> awaited) {
  const run::Deadline end = parts_->timeouts.to_wait == Duration::max()
                                ? run::Deadline::never()
                                : run::Deadline::after(parts_->clock, parts_->timeouts.to_wait);
  StoppedPes stopped(parts_->timeouts.with_stopped);
  while (true) {
    const run::Deadline slice = run::Deadline::after(parts_->clock, kSlice);
    if (event_count.doze(ready, run::Deadline::earlier(slice, end))) return {};
    const auto given_up = stopped.look(parts_->clock.now(), awaited,
                                       [this](std::uint32_t pe) { return is_stopped(pe); });
    if (given_up) parts_->job.mark(*given_up, PeState::stopped);
    if (Status mine = check_mine(); !mine.ok()) return ready() ? Status() : mine;
    if (Status lost = lost_among(awaited, true); !lost.ok()) return ready() ? Status() : lost;
    if (end.expired(parts_->clock)) {
      if (ready()) return {};
      return error(Code::timed_out, whereabouts(awaited), "see what those PEs are doing");
    }
  }
}

bool World::has_ended(std::uint32_t pe, bool look) const {
  const PeRecord& record = parts_->job.pe(pe);
  if (is_over(state_of(record))) return true;
  if (!look || !parts_->processes[pe] || !sys::has_ended(parts_->processes[pe])) return false;
  parts_->job.mark(pe, PeState::lost);
  return true;
}

bool World::is_stopped(std::uint32_t pe) const {
  if (!parts_->processes[pe] || is_over(state_of(parts_->job.pe(pe)))) return false;
  const auto pid = static_cast<pid_t>(parts_->job.pe(pe).pid.load(std::memory_order_relaxed));
  const auto stopped = sys::process_is_stopped(pid);
  return stopped.ok() && *stopped;
}

Status World::given_up() const {
  return error(Code::peer_lost,
               cat("PE ", my_pe_,
                   ", this one, was stopped by a signal, and the others have given it "
                   "up"),
               "let a stopped process go on sooner (kill -CONT)");
}

Status World::lost_among(std::span<const std::int32_t> pes, bool look) const {
  // Acquire: pairs with mark(), which changes the state before.
  if (!look && parts_->job.header().losses.load(std::memory_order_acquire) == 0) return {};
  std::string ended;
  for (const std::int32_t pe : pes) {
    const auto index = static_cast<std::uint32_t>(pe);
    if (index == my_pe_ || !has_ended(index, look)) continue;
    const PeRecord& record = parts_->job.pe(index);
    ended +=
        cat(ended.empty() ? "PE " : ", PE ", pe, " (process ",
            record.pid.load(std::memory_order_relaxed),
            is_here(index) ? ") " : " of another host) ", how_it_ended(record, is_here(index)));
  }
  if (ended.empty()) return {};
  return error(Code::peer_lost, std::move(ended),
               "teams without it go on; its memory can still be read");
}

std::vector<std::uint32_t> World::doors_to(std::span<const std::int32_t> members) const {
  std::vector<std::uint32_t> doors, hosts;
  for (const std::int32_t member : members) {
    const auto pe = static_cast<std::uint32_t>(member);
    if (is_here(pe) || std::ranges::count(hosts, parts_->hosts[pe]) != 0) continue;
    hosts.push_back(parts_->hosts[pe]);
    doors.push_back(pe);
  }
  return doors;
}

Status World::read(RemoteAddress from, ByteSpan into) const {
  if (!is_here(from.pe)) {
    TOWPATH_TRY(check_process());
    return parts_->remote->get(from, into);
  }
  copy_bytes(into.data(), heap_of(from.pe) + from.offset, into.size());
  return {};
}

Status World::write(RemoteAddress to, ConstByteSpan bytes) const {
  if (!is_here(to.pe)) {
    TOWPATH_TRY(check_process());
    return parts_->remote->put(to, bytes);
  }
  copy_bytes(heap_of(to.pe) + to.offset, bytes.data(), bytes.size());
  return {};
}

Result<std::uint64_t> World::change(RemoteAddress at, const Change& what) const {
  if (!is_here(at.pe)) {
    TOWPATH_TRY(check_process());
    return parts_->remote->change(at, what);
  }
  const std::uint64_t before = apply(heap_of(at.pe) + at.offset, what);
  nudge(at.pe);
  return before;
}

Status World::post(RemoteAddress at, const Change& what) const {
  if (is_here(at.pe)) return change(at, what).status();
  TOWPATH_TRY(check_process());
  return parts_->remote->post(at, what);
}

std::vector<int> World::losses() const {
  std::vector<int> lost;
  for (std::uint32_t pe = 0; pe < pes(); ++pe)
    if (pe != my_pe_ && has_ended(pe, true)) lost.push_back(static_cast<int>(pe));
  return lost;
}

void World::forget_losses() {
  std::erase_if(parts_->awaited, [this](std::int32_t pe) {
    return has_ended(static_cast<std::uint32_t>(pe), true);
  });
}

std::string World::whereabouts(std::span<const std::int32_t> awaited) const {
  std::string out;
  for (const std::int32_t pe : awaited) {
    const auto index = static_cast<std::uint32_t>(pe);
    if (index == my_pe_) continue;
    const PeRecord& record = parts_->job.pe(index);
    out += cat(out.empty() ? "waited for PE " : ", PE ", pe, " (");
    if (state_of(record) == PeState::absent) {
      out += "has not begun)";
      continue;
    }
    const auto doing = static_cast<CallKind>(record.doing.load(std::memory_order_relaxed));
    if (doing == CallKind::none)
      out += "is in no call)";
    else
      out += cat("is in ", name_of(doing), " of team ",
                 record.in_team.load(std::memory_order_relaxed), ")");
  }
  return out.empty() ? "waited for a write of this PE's own threads" : out;
}

Status World::check_open() const {
  if (open_pes() != 0) return {};
  return error(Code::not_ready, "the symmetric memory is finalized", "do this before finalize()");
}

Status World::check_pe(std::int64_t pe) const {
  TOWPATH_TRY(check_open());
  if (pe >= 0 && pe < static_cast<std::int64_t>(pes())) return {};
  return error(Code::out_of_range, cat("PE ", pe, " of ", pes()), cat("use 0 to ", pes() - 1));
}

}  // namespace towpath::shmem
