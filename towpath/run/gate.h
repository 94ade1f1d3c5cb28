// Gate: counts who is inside, so that what they use is not torn down under them.
//
// Work enters before it touches what the gate guards, and leaves afterwards. The owner closes the
// gate, which lets nobody in any more, and tears down when it is empty. The destructor does not
// wait: it insists that the gate was closed and is empty, or was never entered.
//
//   if (auto pass = gate.try_enter()) { ... }       // leaves at the end of the scope
//   gate.close();  gate.wait_until_empty(deadline);
//
// Thread: any; entering and leaving take one atomic step each. The owner destroys it alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include <towpath/core/status.h>
#include <towpath/run/deadline.h>

namespace towpath::run {

class Gate {
 public:
  /// Being inside, as a value: leaves when it dies.
  class Pass {
   public:
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Pass() {
      if (gate_ != nullptr) gate_->leave();
    }

   private:
    friend class Gate;
    explicit Pass(Gate& gate) noexcept : gate_(&gate) {}
    Gate* gate_;
  };

  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate();

  /// False when the gate is closed. Every enter() that was true needs one leave().
  [[nodiscard]] bool enter() noexcept;
  void leave() noexcept;
  [[nodiscard]] std::optional<Pass> try_enter() noexcept;

  /// Lets nobody in from here on; those inside stay. May be repeated.
  void close() noexcept;
  /// Waits for the last one to leave. Errors: timed_out (`deadline` is on SystemClock; the message
  /// says how many are inside), not_ready (the gate is not closed).
  Status wait_until_empty(Deadline deadline = Deadline::never());

  bool is_closed() const noexcept;
  /// Closed and empty: the owner may tear down. For owners that poll rather than wait.
  bool is_drained() const noexcept;
  std::uint32_t inside() const noexcept;

 private:
  static constexpr std::uint32_t kClosed = 1U << 31U;
  static constexpr std::uint32_t kEntered = 1U << 30U;  // at least once
  static constexpr std::uint32_t kCount = kEntered - 1;

  std::atomic<std::uint32_t> state_{0};
};

}  // namespace towpath::run
