#include <atomic>
#include <cstring>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/format.h>
#include <towpath/device/host/host_copy.h>
#include <towpath/device/host/host_event.h>
#include <towpath/device/host/host_stream.h>
#include <towpath/device/kernels/box_launch.h>

namespace towpath::device {
namespace {

Status not_ours() {
  return error(Code::invalid_argument, "the event is of another driver",
               "make it with a device of the same driver");
}

}  // namespace

Status check(const Copy& what) {
  if (what.length == 0 || (what.target != 0 && what.source != 0)) return {};
  return error(
      Code::invalid_argument,
      cat("cannot copy ", what.length, " bytes from ", hex(what.source), " to ", hex(what.target)),
      "pass addresses of memory");
}

Status check(const Copy2d& what) {
  if (what.target_pitch >= what.width && what.source_pitch >= what.width)
    return check(Copy{what.target, what.source, what.width * (what.rows > 0 ? 1 : 0)});
  return error(Code::invalid_argument,
               cat("rows of ", what.width, " bytes overlap: the pitches are ", what.source_pitch,
                   " and ", what.target_pitch),
               "a pitch is not less than the width");
}

Status check(const WordWrite& what) {
  if (what.address != 0 && what.address % sizeof what.value == 0) return {};
  return error(Code::invalid_argument, cat("cannot write a word at ", hex(what.address)),
               "words lie at multiples of 8");
}

Result<std::shared_ptr<HostStream>> HostStream::create(std::shared_ptr<Device> device,
                                                       const Clock& clock) {
  auto stream = std::make_shared<HostStream>(std::move(device), clock);
  HostStream* const self = stream.get();
  TOWPATH_TRY(auto worker,
              run::Worker::start("host-stream", [self](const run::StopToken&) { self->serve(); }));
  stream->worker_ = std::move(worker);
  return stream;
}

HostStream::~HostStream() {
  {
    const run::MutexLock lock(mutex_);
    closing_ = true;
    changed_.wake_all();
  }
  if (worker_) worker_->join();  // after all that was given
}

std::optional<HostStream::Work> HostStream::next() {
  const run::MutexLock lock(mutex_);
  while (queue_.empty() && !closing_) changed_.wait(mutex_);
  if (queue_.empty()) return std::nullopt;
  Work work = std::move(queue_.front());
  queue_.pop_front();
  return work;
}

void HostStream::passed() {
  const run::MutexLock lock(mutex_);
  ++done_;
  changed_.wake_all();
}

void HostStream::serve() {
  while (auto work = next()) {
    (*work)();
    work.reset();  // what it holds goes before anybody hears that it is done
    passed();
  }
}

void HostStream::give(Work work) {
  const run::MutexLock lock(mutex_);
  queue_.push_back(std::move(work));
  ++given_;
  changed_.wake_all();
}

Status HostStream::copy(const Copy& what) {
  TOWPATH_TRY(check(what));
  give([what] { copy_bytes(what); });
  return {};
}

Status HostStream::copy_batch(std::span<const Copy> copies) {
  for (const Copy& one : copies) TOWPATH_TRY(check(one));
  give([all = std::vector<Copy>(copies.begin(), copies.end())] {
    for (const Copy& one : all) copy_bytes(one);
  });
  return {};
}

Status HostStream::copy_2d(const Copy2d& what) {
  TOWPATH_TRY(check(what));
  give([what] {
    for (std::uint64_t row = 0; row < what.rows; ++row)
      copy_bytes({.target = what.target + row * what.target_pitch,
                  .source = what.source + row * what.source_pitch,
                  .length = what.width});
  });
  return {};
}

Status HostStream::copy_boxes(std::span<const BoxCopy> boxes) {
  TOWPATH_TRY(std::vector<kernel::BoxLaunch> launches, kernel::launches_of(boxes));
  give([all = std::move(launches)] {
    for (const kernel::BoxLaunch& one : all) kernel::run_here(one, 1);
  });
  return {};
}

Status HostStream::fill(const Fill& what) {
  TOWPATH_TRY(check(Copy{what.address, what.address, what.length}));
  give([what] {
    const ByteSpan bytes = bytes_at(what.address, what.length);
    std::memset(bytes.data(), static_cast<int>(what.value), bytes.size());
  });
  return {};
}

Status HostStream::write_word(const WordWrite& what) {
  TOWPATH_TRY(check(what));
  give([what] {
    auto& word =
        *reinterpret_cast<std::uint64_t*>(bytes_at(what.address, sizeof what.value).data());
    // Pairs with the acquire of who polls it.
    std::atomic_ref<std::uint64_t>(word).store(what.value, std::memory_order_release);
  });
  return {};
}

Status HostStream::run(HostFunction function) {
  if (!function) return error(Code::invalid_argument, "no function to run");
  give(std::move(function));
  return {};
}

Status HostStream::record(Event& event) {
  auto* const ours = dynamic_cast<HostEvent*>(&event);
  if (ours == nullptr) return not_ours();
  TOWPATH_TRY(auto mark, ours->next());
  give([this, mark = std::move(mark)] { mark.set_done(clock_.now().nanoseconds); });
  return {};
}

Status HostStream::wait(const Event& event) {
  const auto* const ours = dynamic_cast<const HostEvent*>(&event);
  if (ours == nullptr) return not_ours();
  give([mark = ours->last()] { mark.wait(); });
  return {};
}

Result<bool> HostStream::is_idle() const {
  const run::MutexLock lock(mutex_);
  return done_ == given_;
}

Status HostStream::synchronize() {
  const run::MutexLock lock(mutex_);
  const std::uint64_t until = given_;
  while (done_ < until) changed_.wait(mutex_);
  return {};
}

}  // namespace towpath::device
