// What really happened, counted where it happened: bytes by the way they took, system work,
// detours, and what is held at the moment. Published as metrics named towpath_posix_*, each with
// the agent's name.
//
// They live in the composition's Metrics, or in one of their own where nobody reads them: two
// backends of one agent name share them. Thread: any (each is a number of its own).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <towpath/telemetry/metrics.h>

namespace towpath::backends::posix {

/// The way of one I/O between memory and file.
enum class Path : std::uint8_t {
  buffered,  ///< through the page cache
  direct,    ///< O_DIRECT between the user's memory and the disk
  bounce,    ///< O_DIRECT into an aligned buffer of ours, then a copy (reads only)
};
inline constexpr std::size_t kPaths = 3;

constexpr std::string_view name_of(Path path) noexcept {
  switch (path) {
    case Path::buffered: return "buffered";
    case Path::direct: return "direct";
    case Path::bounce: return "bounce";
  }
  return "unknown";
}

/// How an operation ended.
enum class Ending : std::uint8_t { done, failed, cancelled };
inline constexpr std::size_t kEndings = 3;

constexpr std::string_view name_of(Ending ending) noexcept {
  switch (ending) {
    case Ending::done: return "done";
    case Ending::failed: return "failed";
    case Ending::cancelled: return "cancelled";
  }
  return "unknown";
}

/// A gauge is higher by `amount` for as long as this lives.
class Held {
 public:
  Held() = default;
  Held(telemetry::Gauge& gauge, std::int64_t amount) noexcept : gauge_(&gauge), amount_(amount) {
    gauge_->add(amount_);
  }
  Held(Held&& other) noexcept
      : gauge_(std::exchange(other.gauge_, nullptr)), amount_(other.amount_) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(gauge_, other.gauge_);
    std::swap(amount_, other.amount_);
    return *this;
  }
  ~Held() {
    if (gauge_ != nullptr) gauge_->subtract(amount_);
  }

 private:
  telemetry::Gauge* gauge_ = nullptr;
  std::int64_t amount_ = 0;
};

class Counters {
 public:
  /// `metrics` outlives it; null: the numbers are only its own. `agent` is a label.
  explicit Counters(telemetry::Metrics* metrics = nullptr, std::string_view agent = {});

 private:
  std::unique_ptr<telemetry::Metrics> own_;
  telemetry::Metrics& metrics_;
  telemetry::Labels labels_;

  telemetry::Counter& counter(std::string_view name) { return metrics_.counter(name, labels_); }
  telemetry::Labels with(std::string_view name, std::string_view value) const;

  using Both = std::array<telemetry::Counter*, 2>;  // of reads, of writes
  Both both(std::string_view name, std::string_view label, std::string_view value);
  std::array<Both, kPaths> moved_;
  std::array<Both, kEndings> ended_;

 public:
  telemetry::Counter& submissions;          ///< I/Os handed to the engine, continuations included
  telemetry::Counter& batches;              ///< flushes: system calls that started I/Os
  telemetry::Counter& short_continuations;  ///< I/Os that ended early and went on
  telemetry::Counter& retries;              ///< after EINTR, EAGAIN or no bytes for no reason
  telemetry::Counter& isolations;           ///< merged I/Os taken apart to find the bad stretch
  telemetry::Counter& bounce_bytes;         ///< read into bounce buffers, padding included
  telemetry::Counter& strays;               ///< completions that belong to nothing
  telemetry::Counter& registered_ios;       ///< submissions that used a registered buffer
  telemetry::Gauge& registered_bytes;       ///< of memory that is pinned with the engine

  /// Bytes in place.
  telemetry::Counter& moved(bool write, Path path) noexcept {
    return *moved_[static_cast<std::size_t>(path)][write ? 1 : 0];
  }
  telemetry::Counter& ended(bool write, Ending ending) noexcept {
    return *ended_[static_cast<std::size_t>(ending)][write ? 1 : 0];
  }
  /// 1 for each backend that runs on this engine.
  telemetry::Gauge& engines(std::string_view engine);
  /// Open files, by how they were registered.
  telemetry::Gauge& files(bool direct);

  /// "buffered 4096 read, 0 written; direct ...".
  std::string to_string() const;
};

}  // namespace towpath::backends::posix
