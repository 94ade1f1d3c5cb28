#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/run/fork_join_pool.h>
#include <towpath/run/futex.h>
#include <towpath/run/spin_then_wait.h>
#include <towpath/run/worker.h>
#include <towpath/sys/processors.h>

namespace towpath::run {

struct alignas(64) ForkJoinPool::Member {
  enum State : std::uint32_t {
    free,
    offered,  // nobody has begun; who makes it something else has the part
    busy,
    over,
  };

  void serve() {
    const sys::ThreadProcessors own;  // as the thread that started the pool: pinned where it is
    while (true) {
      // Acquire, here and below: pairs with the stores of the other side, so that the part is seen,
      // or what was done of it.
      const auto has_word = [&] { return state.load(std::memory_order_acquire) != free; };
      if (!look_for(has_word, {.spins = kLooks})) doze();
      std::uint32_t seen = offered;
      if (state.compare_exchange_strong(seen, busy, std::memory_order_acquire)) {
        // Who is woken mostly finds himself where the caller works, and stays there for
        // milliseconds.
        if (sys::current_processor() == piece.processor) own.keep_off(piece.processor);
        piece.call(piece.what, part);
        state.store(free, std::memory_order_release);
      } else if (seen == over) {
        return;
      }
    }
  }

  void report(State what) {
    // Sequentially consistent, here and in doze(): one of the two sees the other.
    state.store(what, std::memory_order_seq_cst);
    if (sleeps.load(std::memory_order_seq_cst)) futex_wake(state, 1);
  }

  bool take_back() {
    std::uint32_t seen = offered;
    return state.compare_exchange_strong(seen, free, std::memory_order_relaxed);
  }

  void wait_until_done() const {
    const auto is_done = [&] { return state.load(std::memory_order_acquire) != busy; };
    while (!look_for(is_done, {.spins = kLooks, .yields = 1})) continue;
  }

  std::atomic<std::uint32_t> state{free};
  std::atomic<bool> sleeps{false};
  Piece piece;
  std::size_t part = 0;
  std::optional<Worker> worker;  // last: it ends before what it uses

 private:
  static constexpr std::uint32_t kLooks = 1000;

  void doze() {
    sleeps.store(true, std::memory_order_seq_cst);
    while (state.load(std::memory_order_seq_cst) == free) futex_wait(state, free);
    sleeps.store(false, std::memory_order_relaxed);
  }
};

ForkJoinPool::ForkJoinPool(std::string name, std::size_t members)
    : name_(std::move(name)), wanted_(members) {}

ForkJoinPool::~ForkJoinPool() {
  for (const auto& member : members_) member->report(Member::over);
}

std::size_t ForkJoinPool::asleep() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      members_, [](const auto& member) { return member->sleeps.load(std::memory_order_relaxed); }));
}

const Status& ForkJoinPool::start() {
  if (std::exchange(is_started_, true)) return started_;
  for (std::size_t i = 0; i < wanted_; ++i) {
    auto member = std::make_unique<Member>();
    auto worker = Worker::start(cat(name_, "-", i),
                                [member = member.get()](const StopToken&) { member->serve(); });
    if (!worker.ok()) {
      started_ = worker.status();
      break;
    }
    member->worker = *std::move(worker);
    members_.push_back(std::move(member));
  }
  return started_;
}

std::size_t ForkJoinPool::share_piece(std::size_t parts, const Piece& piece) {
  const std::size_t shared = std::min(parts - 1, members_.size());
  const int processor = sys::current_processor();
  for (std::size_t i = 0; i < shared; ++i) {
    members_[i]->piece = piece;
    members_[i]->piece.processor = processor;
    members_[i]->part = i + 1;
    members_[i]->report(Member::offered);
  }
  piece.call(piece.what, 0);
  for (std::size_t part = shared + 1; part < parts; ++part) piece.call(piece.what, part);
  std::size_t helped = shared;
  for (std::size_t i = shared; i > 0; --i) {
    if (!members_[i - 1]->take_back()) continue;
    piece.call(piece.what, i);
    --helped;
  }
  for (std::size_t i = 0; i < shared; ++i) members_[i]->wait_until_done();
  return helped;
}

}  // namespace towpath::run
