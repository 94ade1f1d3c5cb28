// Futex: sleeping on a 32-bit word until another thread, or another process, changes it and says
// so.
//
// The thin layer over futex(2); spin_then_wait and the shared-memory rings are written with it. A
// word between processes must lie in shared memory and needs FutexScope::shared on both sides. The
// kernel counts down what is left of a deadline on CLOCK_MONOTONIC: a wait during which the machine
// sleeps ends late by no more than that. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>

#include <towpath/run/deadline.h>

namespace towpath::run {

enum class FutexScope : std::uint8_t {
  private_to_process,  ///< cheaper: the kernel looks at the address alone
  shared,              ///< the word lies in memory that several processes map
};

enum class FutexWait : std::uint8_t {
  woken,      ///< by futex_wake, a signal, or for no reason: look at the word again
  changed,    ///< the word was not `expected`: no sleep took place
  timed_out,  ///< the deadline passed
};

struct FutexOptions {
  Deadline deadline = Deadline::never();  ///< on SystemClock
  FutexScope scope = FutexScope::private_to_process;
};

/// Sleeps while `word` holds `expected`. Callers loop: any answer may come early.
/// Pairs with a store to `word` followed by futex_wake; the kernel orders the two, but what the
/// word guards is ordered only by the caller's own acquire load afterwards.
FutexWait futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                     const FutexOptions& options = {}) noexcept;

inline constexpr std::uint32_t kWakeAll = INT32_MAX;

/// Wakes up to `count` sleepers; returns how many. Never touches the word itself, so it is safe
/// even if a sleeper has meanwhile freed it; an unauthenticated connection who sleeps at that
/// address then wakes early.
std::uint32_t futex_wake(const std::atomic<std::uint32_t>& word, std::uint32_t count,
                         FutexScope scope = FutexScope::private_to_process) noexcept;

}  // namespace towpath::run
