// TcpLoop: hands what the kernel says of sockets to their owners, and wakes those that wait for a
// moment. A turn ends when its owners have moved kWorkPerTurn: those that are left come first in
// the next one. Only files of this folder include it. Thread: one at a time.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include <towpath/core/clock.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>

namespace towpath::net {

class TcpSocketOwner {
 public:
  virtual ~TcpSocketOwner() = default;
  /// Of the socket that was added under this tag, or of the rest that it holds back. It may add and
  /// remove any.
  virtual void on_event(const run::PollEvent& event) = 0;
};

class TcpSleeper {
 public:
  virtual ~TcpSleeper() = default;
  /// The moment has come.
  virtual void on_wake(Instant now) = 0;

 private:
  friend class TcpLoop;
  Instant wakes_at_ = Instant::never();
  bool is_again_ = false;  ///< the moment is the loop's, in case that on_wake() throws
};

class TcpLoop {
 public:
  /// Bytes of all sockets together, and what messages are worth beside theirs; what one owner adds
  /// to it in one call is bounded by itself.
  static constexpr std::uint64_t kWorkPerTurn = 1024 * 1024;

  /// `clock` outlives it. Errors: exhausted (no descriptor is free).
  static Result<TcpLoop> open(const Clock& clock) {
    TOWPATH_TRY(run::Poller poller, run::Poller::open());
    TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
    TOWPATH_TRY(poller.add(timer.fd(), kTimerTag));
    return TcpLoop(std::move(poller), std::move(timer), clock);
  }

  Instant now() const noexcept { return clock_->now(); }
  /// The socket's tag, never 0. Errors: exhausted.
  Result<std::uint64_t> add(int fd, TcpSocketOwner& owner) {
    owners_.emplace(next_tag_, &owner);  // first: it may throw
    if (Status added = poller_.add(fd, next_tag_); !added.ok()) {
      owners_.erase(next_tag_);
      return added;
    }
    return next_tag_++;
  }
  /// A tag that no socket has.
  std::uint64_t reserve_tag() noexcept { return next_tag_++; }
  void want_writable(int fd, std::uint64_t tag, bool wanted) {
    (void)poller_.modify(fd, tag, {.writable = wanted});
  }
  /// Before the socket is closed. Harmless for a tag of 0.
  void remove(int fd, std::uint64_t tag) {
    if (owners_.erase(tag) > 0) (void)poller_.remove(fd);
  }
  /// The next turn calls its owner, whatever the kernel says of the socket: a stream that decrypts
  /// holds a rest back. Harmless for a tag that no socket has.
  void note_rest(std::uint64_t tag) { rests_.insert(tag); }
  bool has_rests() const noexcept { return !rests_.empty(); }
  /// An owner has moved so much in this turn.
  void note_work(std::uint64_t bytes) noexcept { work_ += bytes; }
  /// Of the last turn.
  std::uint64_t work() const noexcept { return work_; }
  /// Once, instead of when it was to be woken before; never: not at all. Before a sleeper dies it
  /// is woken never.
  void wake(TcpSleeper& sleeper, Instant at) {
    sleeper.is_again_ = false;
    if (sleeper.wakes_at_ == at) return;
    auto place = sleepers_.extract({sleeper.wakes_at_, &sleeper});
    if (at != Instant::never() && place.empty()) {
      sleepers_.emplace(at, &sleeper);  // first: it may throw
    } else if (at != Instant::never()) {
      place.value() = {at, &sleeper};
      sleepers_.insert(std::move(place));
    }
    sleeper.wakes_at_ = at;
    timer_.arm(sleepers_.empty() ? Instant::never() : sleepers_.begin()->first);
  }

  /// False: nothing has happened.
  bool turn() {
    work_ = 0;
    bool some = take_rests();
    if (events_.empty()) events_ = poller_.wait(Duration::zero());
    // One at least: rests alone may be work enough for every turn.
    for (bool is_enough = false; !events_.empty() && !is_enough; is_enough = has_done_enough()) {
      some = true;
      const run::PollEvent event = events_.front();
      events_ = events_.subspan(1);
      // One before may have ended it.
      if (const auto found = owners_.find(event.tag); found != owners_.end())
        found->second->on_event(event);
    }
    return wake_sleepers() || some;
  }
  int fd() const noexcept { return poller_.fd(); }

 private:
  static constexpr std::uint64_t kTimerTag = 0;
  static constexpr Duration kAgain = std::chrono::milliseconds(100);

  TcpLoop(run::Poller poller, run::TimerFd timer, const Clock& clock) noexcept
      : poller_(std::move(poller)), timer_(std::move(timer)), clock_(&clock) {}

  bool has_done_enough() const noexcept { return work_ >= kWorkPerTurn; }

  // Each once, also if it leaves a rest again, beginning behind the last one of the turn before.
  bool take_rests() {
    const std::size_t count = rests_.size();
    for (std::size_t i = 0; i < count && !rests_.empty() && !has_done_enough(); ++i) {
      auto next = rests_.upper_bound(last_rest_);
      if (next == rests_.end()) next = rests_.begin();
      last_rest_ = *next;
      rests_.erase(next);
      if (const auto found = owners_.find(last_rest_); found != owners_.end())
        found->second->on_event({.tag = last_rest_, .readable = true});
    }
    return count > 0;
  }

  bool wake_sleepers() {
    if (sleepers_.empty()) return false;
    const Instant now = clock_->now();
    bool some = false;
    while (!sleepers_.empty() && sleepers_.begin()->first <= now) {
      TcpSleeper& sleeper = *sleepers_.begin()->second;
      // What throws is woken again. It may be gone afterwards.
      const Instant again = now + kAgain;
      wake(sleeper, again);
      sleeper.is_again_ = true;
      sleeper.on_wake(now);
      if (sleepers_.contains({again, &sleeper}) && sleeper.is_again_)
        wake(sleeper, Instant::never());
      some = true;
    }
    return some;
  }

  run::Poller poller_;
  run::TimerFd timer_;
  const Clock* clock_;
  std::unordered_map<std::uint64_t, TcpSocketOwner*> owners_;
  std::span<const run::PollEvent> events_;  // of the poller, that are left of the last turn
  std::uint64_t work_ = 0;
  std::set<std::uint64_t> rests_;  // tags
  std::uint64_t last_rest_ = 0;
  std::set<std::pair<Instant, TcpSleeper*>> sleepers_;
  std::uint64_t next_tag_ = kTimerTag + 1;
};

}  // namespace towpath::net
