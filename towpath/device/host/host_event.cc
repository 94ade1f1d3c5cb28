#include <new>

#include <towpath/core/format.h>
#include <towpath/device/host/host_event.h>
#include <towpath/device/host/host_ipc.h>
#include <towpath/run/futex.h>
#include <towpath/sys/memfd.h>

namespace towpath::device {
namespace {

// All words may lie between processes; asking the kernel so for private ones too costs little here.
constexpr run::FutexOptions kShared{.scope = run::FutexScope::shared};

Result<std::shared_ptr<HostEvent::Marks>> map_marks(const sys::Fd& fd) {
  TOWPATH_TRY(sys::Mapping mapping,
              sys::Mapping::of_file({.fd = fd.get(), .size_bytes = sizeof(HostEvent::Marks)}));
  const auto held = std::make_shared<sys::Mapping>(std::move(mapping));
  // A new memfd holds zeros, which is what new marks are; an imported one is in use already.
  return std::shared_ptr<HostEvent::Marks>(
      held, std::launder(reinterpret_cast<HostEvent::Marks*>(held->data())));
}

}  // namespace

void HostEvent::Mark::set_done(std::int64_t now) const noexcept {
  marks_->done_at.store(now, std::memory_order_relaxed);  // ordered by the store below
  slot().store(static_cast<std::uint32_t>(number_), std::memory_order_release);
  run::futex_wake(slot(), run::kWakeAll, run::FutexScope::shared);
}

bool HostEvent::Mark::is_done() const noexcept {
  // A slot that holds a later number was given again, which happens only to one that is done.
  // Acquire: pairs with the release in set_done().
  return number_ == 0 || !is_behind(slot().load(std::memory_order_acquire));
}

void HostEvent::Mark::wait() const noexcept {
  while (!is_done()) {
    const std::uint32_t seen = slot().load(std::memory_order_relaxed);  // is_done() looks properly
    if (is_behind(seen)) run::futex_wait(slot(), seen, kShared);
  }
}

Result<std::shared_ptr<HostEvent>> HostEvent::create(const EventOptions& options) {
  if (options.timed && options.interprocess)
    return error(Code::invalid_argument, "an interprocess event cannot be timed", "choose one");
  if (!options.interprocess)
    return std::make_shared<HostEvent>(std::make_shared<Marks>(), sys::Fd(), options.timed);
  TOWPATH_TRY(sys::Fd fd, sys::create_sealed_memfd("towpath-event", sizeof(Marks)));
  TOWPATH_TRY(auto marks, map_marks(fd));
  return std::make_shared<HostEvent>(std::move(marks), std::move(fd), false);
}

Result<std::shared_ptr<HostEvent>> HostEvent::import(const IpcHandle& handle) {
  TOWPATH_TRY(sys::Fd fd, open_handle(handle, HostHandleKind::event, sizeof(Marks)));
  TOWPATH_TRY(auto marks, map_marks(fd));
  return std::make_shared<HostEvent>(std::move(marks), std::move(fd), false);
}

Result<IpcHandle> HostEvent::handle() const {
  if (!fd_)
    return error(Code::invalid_argument, "the event was not made for other processes",
                 "set EventOptions::interprocess");
  return make_handle({.kind = HostHandleKind::event, .fd = fd_.get(), .size_bytes = sizeof(Marks)});
}

HostEvent::Mark HostEvent::last() const {
  // Acquire: pairs with the exchange in next().
  return {marks_, marks_->recorded.load(std::memory_order_acquire)};
}

Result<HostEvent::Mark> HostEvent::next() {
  std::uint64_t last = marks_->recorded.load(std::memory_order_relaxed);
  while (true) {
    const std::uint64_t number = last + 1;
    const Mark before(marks_, number > kSlots ? number - kSlots : 0);
    if (!before.is_done())
      return error(Code::exhausted, cat(kSlots, " records of one event are under way"),
                   "use more events, or wait for some");
    // Acquire and release: pairs with the load in last().
    if (marks_->recorded.compare_exchange_weak(last, number, std::memory_order_acq_rel))
      return Mark(marks_, number);
  }
}

Status HostEvent::wait() const {
  last().wait();
  return {};
}

Result<Duration> HostEvent::since(const Event& earlier) const {
  const auto* const from = dynamic_cast<const HostEvent*>(&earlier);
  const bool timed = from != nullptr && timed_ && from->timed_;
  if (!timed || last().number_ == 0 || from->last().number_ == 0)
    return error(Code::invalid_argument,
                 "no time lies between events that are not timed and recorded",
                 "set EventOptions::timed for both, and record them");
  if (!last().is_done() || !from->last().is_done())
    return error(Code::not_ready, "the events are not done", "wait for the later one first");
  return Duration(marks_->done_at.load(std::memory_order_relaxed) -
                  from->marks_->done_at.load(std::memory_order_relaxed));
}

}  // namespace towpath::device
