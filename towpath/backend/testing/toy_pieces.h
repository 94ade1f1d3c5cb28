// A dispatcher whose pieces are bytes of memory, and an engine that a test ends them in: the rules
// of piece_dispatcher.h without a kernel. For tests only. Thread: loop.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include <towpath/backend/piece_dispatcher.h>

namespace towpath::backend::testing {

/// What an engine that bytes are copied by was asked to do.
struct ToyPiece {
  std::uint64_t id = 0;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint64_t bytes = 0;
};

class ToyEngine final : public sys::IoEngine {
 public:
  bool flush() override {
    ++flushes;
    if (on_flush) on_flush();
    return !flush_fails;
  }
  void cancel(std::uint64_t id) override { cancelled.push_back(id); }
  std::size_t reap(std::span<sys::IoDone> into) override {
    while (automatic && !waiting.empty()) end(0);
    const std::size_t count = std::min(into.size(), done.size());
    std::copy_n(done.begin(), count, into.begin());
    done.erase(done.begin(), done.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  int wait_fd() const override { return -1; }
  void clear_wait_fd() override {
    ++clears;
    raised = false;
    if (on_clear) on_clear();
  }
  bool raise_wait_fd() override {
    ++raises;
    return raised = can_raise;
  }

  /// Copies a piece, or gives this answer instead.
  void end(std::size_t index) {
    const ToyPiece& piece = waiting.at(index);
    std::memcpy(piece.to, piece.from, piece.bytes);
    answer(index, 0);
  }
  void answer(std::size_t index, std::int32_t result) {
    done.push_back({waiting.at(index).id, result});
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(index));
  }

  std::deque<ToyPiece> waiting;
  std::vector<sys::IoDone> done;
  std::vector<std::uint64_t> cancelled;
  bool automatic = false;  ///< every reap ends all that waits
  std::function<void()> on_flush;
  std::function<void()> on_clear;
  bool flush_fails = false;
  std::size_t flushes = 0;
  std::size_t clears = 0;
  std::size_t raises = 0;
  bool can_raise = true;
  bool raised = false;  ///< since the last clear_wait_fd()
};

/// Cut at the ends of extents' rows, and at `piece_bytes`.
class ToyOperation final : public PieceOperation {
 public:
  ToyOperation(PieceDispatcher& dispatcher, std::uint64_t piece_bytes)
      : PieceOperation(dispatcher), piece_bytes_(piece_bytes) {}

  void next(PieceFlight& flight) {
    flight.start = at_;
    flight.length = std::min(extent_at(segments(), at_).length, piece_bytes_);
    at_ = advance(segments(), at_, flight.length);
  }

 private:
  void begin() override { at_ = first_byte(segments(), {}); }
  bool has_more() const override { return at_.segment < segments().size(); }

  const std::uint64_t piece_bytes_;
  Position at_;
};

/// Throws once, at its call number `at`.
inline std::function<void()> fails_at(int at) {
  return [left = at]() mutable {
    if (left-- == 0) throw std::bad_alloc();
  };
}

class ToyDispatcher final : public PieceDispatcher {
 public:
  static constexpr std::int32_t kAgain = -1;  ///< the answer that is worth a retry
  static constexpr std::uint32_t kMaxRetries = 3;
  static constexpr std::uint64_t kPieceBytes = 4096;

  ToyDispatcher(ToyEngine& engine, Events& events, PieceCounters& counters, std::size_t depth)
      : PieceDispatcher(engine, events, counters), engine_(engine), flights_(depth) {
    for (PieceFlight& flight : flights_) add(flight);
  }
  std::unique_ptr<ToyOperation> make_operation() {
    return std::make_unique<ToyOperation>(*this, kPieceBytes);
  }

  Status refusal;  ///< of hand_in()
  /// Called first; may throw.
  std::function<void()> on_take, on_hand_in, on_settle;
  bool can_linger = false;
  std::uint64_t unit = 1;

 private:
  Status check(const Segment& segment, bool) const override {
    return segment.length > 1U << 20U ? error(Code::unsupported, "too long for a toy") : Status();
  }
  Take take(PieceOperation& operation, PieceFlight& flight) override {
    if (on_take) on_take();
    static_cast<ToyOperation&>(operation).next(flight);
    flight.can_linger = can_linger;
    return Take::ready;
  }
  Status hand_in(PieceFlight& flight) override {
    if (on_hand_in) on_hand_in();
    if (!refusal.ok()) return refusal;
    const Extent extent = extent_at(flight.operation->segments(), flight.at());
    std::byte* local = bytes_at(extent.local_address, 1).data();
    std::byte* remote = bytes_at(extent.remote_address, 1).data();
    const bool write = flight.operation->writes();
    engine_.waiting.push_back(
        {flight.id, write ? remote : local, write ? local : remote, flight.remaining()});
    return {};
  }
  void settle(PieceFlight& flight, std::int32_t result) override {
    if (on_settle) on_settle();
    if (flight.operation->cancelled() && result != 0) return stop(flight);
    if (result == kAgain && retry(flight, kMaxRetries)) return;
    if (result != 0 && isolate(flight)) return;
    if (result != 0) return fail_part(flight, error(Code::io_error, cat("answer ", result)));
    moved(flight, flight.remaining());
    go_on(flight);
  }
  std::uint64_t unit_of(const PieceFlight&) const override { return unit; }

  ToyEngine& engine_;
  std::vector<PieceFlight> flights_;
};

}  // namespace towpath::backend::testing
