#include <algorithm>
#include <cstring>
#include <new>

#include <towpath/backend/far_copy.h>
#include <towpath/backend/slice_runner.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>

namespace towpath::backend {

namespace {

// The begin of the extent that comes next, so that it arrives while another one is copied: the
// processor foresees how an extent goes on, not where the next one begins. Harmless anywhere.
void prefetch(ConstByteSpan next) {
  constexpr std::size_t kLine = 64;
  constexpr std::size_t kEnough = 8 * kLine;
  for (std::size_t i = 0; i < std::min(next.size(), kEnough); i += kLine)
    __builtin_prefetch(next.data() + i);
}

bool is_far(std::span<const Segment> segments) noexcept {
  std::uint64_t bytes = 0;  // a product that wraps makes a copy slower, no more
  for (const Segment& segment : segments) {
    bytes += segment.length * segment.count;
    if (bytes >= kFarBytes) return true;
  }
  return false;
}

}  // namespace

// ---- SliceTask

void SliceTask::start(const Request& request) noexcept {
  request_ = request;
  cursor_.start(request.segments);
  is_far_ = is_far(request.segments);
  bytes_ = failed_ = 0;
  failures_.clear();
  status_ = {};
}

void SliceTask::fail_extent(const Status& why) {
  ++failed_;
  if (failures_.size() < kMaxFailures)
    failures_.push_back({cursor_.index(), cursor_.extent(), cursor_.offset(), why});
  cursor_.skip_extent();
}

void SliceTask::fail_segment(const Status& why) {
  const std::uint64_t index = cursor_.index();
  while (!cursor_.done() && cursor_.index() == index && failures_.size() < kMaxFailures)
    fail_extent(why);
  if (cursor_.done() || cursor_.index() != index) return;
  failed_ += cursor_.segment().count - cursor_.extent();
  cursor_.skip_segment();
}

void SliceTask::copy(std::uint64_t remote_shift, std::uint64_t& budget) {
  const Memory* const remote = cursor_.segment().remote;
  const bool pulls = request_.op == TransferOp::read;
  // Copies of our own: the compiler must take it that the bytes moved may be the members.
  SegmentCursor at = cursor_;
  const bool far = is_far_;
  std::uint64_t left = budget;
  std::uint64_t bytes = 0;
  do {
    const std::uint64_t length = std::min(at.left(), left);
    std::byte* const here = bytes_at(at.local_address(), length).data();
    std::byte* const there = bytes_at(at.remote_address() + remote_shift, length).data();
    at.advance(length);
    if (!at.done()) {
      prefetch(bytes_at(at.local_address(), at.left()));
      prefetch(bytes_at(at.remote_address() + remote_shift, at.left()));
    }
    std::byte* const target = pulls ? here : there;
    const std::byte* const source = pulls ? there : here;
    // memmove: a transfer to oneself may overlap, which must not be undefined behaviour.
    if (far)
      far_copy(target, source, length);
    else
      std::memmove(target, source, length);
    bytes += length;
    left -= std::min(left, std::max(length, kPieceCost));
  } while (left > 0 && !at.done() && at.segment().remote == remote);
  cursor_ = at;
  bytes_ += bytes;
  budget = left;
}

Completion SliceTask::completion() {
  if (failed_ > 0 && status_.ok()) {
    const Status& first = failures_.front().status;
    status_ = error(first.code(), cat(failed_, failed_ == 1 ? " extent is" : " extents are",
                                      " not in place; the others are"))
                  .because(first);
  }
  return {status_, bytes_, failures_};
}

// ---- SliceLink

void SliceLink::unlink() noexcept {
  previous->next = next;
  next->previous = previous;
  next = previous = this;
}

void SliceLink::insert_before(SliceLink& place) noexcept {
  previous = place.previous;
  next = &place;
  place.previous->next = this;
  place.previous = this;
}

// ---- SliceRunner

class SlicedOperation final : public Operation, public SliceLink {
 public:
  explicit SlicedOperation(SliceRunner& runner) noexcept : runner_(runner) {}
  ~SlicedOperation() override { TOWPATH_CHECK(!is_linked(), "an active operation is destroyed"); }

  void post(const Request& request) override {
    TOWPATH_CHECK(!is_linked(), "an active operation is posted again");
    task.start(request);
    insert_before(runner_.active_);
    Status refused = runner_.or_no_memory([&] { return runner_.mover_.admit(request); });
    if (!refused.ok()) return runner_.complete(*this, std::move(refused));
    runner_.run_slice(*this);
  }

  void cancel() override {
    if (!is_linked()) return;
    runner_.complete(*this, runner_.or_no_memory([&] {
      return error(Code::cancelled, cat("cancelled after ", task.bytes_, " bytes"));
    }));
  }

  SliceTask task;

 private:
  SliceRunner& runner_;
};

std::unique_ptr<Operation> SliceRunner::make_operation() {
  return std::make_unique<SlicedOperation>(*this);
}

void SliceRunner::run_slice(SlicedOperation& operation) {
  Status status = or_no_memory(
      [&] { return operation.task.at().done() ? Status() : mover_.move(operation.task); });
  if (!status.ok() || operation.task.at().done()) complete(operation, std::move(status));
}

bool SliceRunner::progress() {
  if (!active_.is_linked()) return false;
  auto& turn = static_cast<SlicedOperation&>(*active_.next);
  turn.unlink();
  turn.insert_before(active_);
  run_slice(turn);
  return active_.is_linked();
}

void SliceRunner::fail_all(const Connection& connection, const Status& why) {
  // Into a line of their own first: what the events post or cancel meanwhile cannot disturb it.
  SliceLink doomed;
  for (SliceLink* link = active_.next; link != &active_;) {
    auto& operation = static_cast<SlicedOperation&>(*link);
    link = link->next;
    if (operation.task.request().connection != &connection) continue;
    operation.unlink();
    operation.insert_before(doomed);
  }
  while (doomed.is_linked()) complete(static_cast<SlicedOperation&>(*doomed.next), why);
}

void SliceRunner::complete(SlicedOperation& operation, Status status) {
  operation.unlink();
  if (!status.ok()) operation.task.failures_.clear();
  operation.task.status_ = std::move(status);
  Completion completion;
  try {
    completion = operation.task.completion();
  } catch (const std::bad_alloc&) {
    completion = {no_memory_, operation.task.bytes_, {}};
  }
  events_.on_complete(operation, completion);  // it may be gone afterwards
}

}  // namespace towpath::backend
