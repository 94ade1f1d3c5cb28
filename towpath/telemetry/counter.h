// Counter and Gauge: one 64-bit number that any thread may change without waiting.
//
// Not a synchronisation: seeing a count says nothing about the memory that was counted. Every order
// here is relaxed, and has no partner, for that reason.
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace towpath::telemetry {

/// Only grows. Wraps after 2^64.
class Counter {
 public:
  void add(std::uint64_t amount = 1) noexcept {
    value_.fetch_add(amount, std::memory_order_relaxed);
  }
  /// As add(), cheaper, where no two threads add at the same time.
  void add_alone(std::uint64_t amount = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// Goes up and down: blocks in use, transfers in flight.
class Gauge {
 public:
  void set(std::int64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  void add(std::int64_t amount = 1) noexcept {
    value_.fetch_add(amount, std::memory_order_relaxed);
  }
  void subtract(std::int64_t amount = 1) noexcept {
    value_.fetch_sub(amount, std::memory_order_relaxed);
  }
  /// As add(), cheaper, where no two threads change it at the same time. `amount` may be negative.
  void add_alone(std::int64_t amount) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  std::int64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

}  // namespace towpath::telemetry
