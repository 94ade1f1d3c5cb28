#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/run/crew.h>
#include <towpath/run/futex.h>
#include <towpath/run/spin_then_wait.h>
#include <towpath/run/worker.h>
#include <towpath/sys/processors.h>

namespace towpath::run {

struct alignas(64) Crew::Hand {
  enum State : std::uint32_t {
    free,
    offered,  // nobody has begun; who makes it something else has the part
    busy,
    over,
  };

  void serve() {
    const sys::ThreadProcessors own;  // as the thread that started the crew: pinned where it is
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

Crew::Crew(std::string name, std::size_t hands) : name_(std::move(name)), wanted_(hands) {}

Crew::~Crew() {
  for (const auto& hand : hands_) hand->report(Hand::over);
}

std::size_t Crew::asleep() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      hands_, [](const auto& hand) { return hand->sleeps.load(std::memory_order_relaxed); }));
}

const Status& Crew::start() {
  if (std::exchange(is_started_, true)) return started_;
  for (std::size_t i = 0; i < wanted_; ++i) {
    auto hand = std::make_unique<Hand>();
    auto worker =
        Worker::start(cat(name_, "-", i), [hand = hand.get()](const StopToken&) { hand->serve(); });
    if (!worker.ok()) {
      started_ = worker.status();
      break;
    }
    hand->worker = *std::move(worker);
    hands_.push_back(std::move(hand));
  }
  return started_;
}

std::size_t Crew::share_piece(std::size_t parts, const Piece& piece) {
  const std::size_t shared = std::min(parts - 1, hands_.size());
  const int processor = sys::current_processor();
  for (std::size_t i = 0; i < shared; ++i) {
    hands_[i]->piece = piece;
    hands_[i]->piece.processor = processor;
    hands_[i]->part = i + 1;
    hands_[i]->report(Hand::offered);
  }
  piece.call(piece.what, 0);
  for (std::size_t part = shared + 1; part < parts; ++part) piece.call(piece.what, part);
  std::size_t helped = shared;
  for (std::size_t i = shared; i > 0; --i) {
    if (!hands_[i - 1]->take_back()) continue;
    piece.call(piece.what, i);
    --helped;
  }
  for (std::size_t i = 0; i < shared; ++i) hands_[i]->wait_until_done();
  return helped;
}

}  // namespace towpath::run
