// What really happened, counted where it happened: bytes by the way they took, system work,
// detours, and what is held at the moment. Published as metrics named towpath_posix_*.
// Thread: any (each is a number of its own).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <towpath/backend/operation_counters.h>

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

class Counters : public backend::PieceCounters {
 public:
  /// As PieceCounters.
  explicit Counters(telemetry::Metrics* metrics = nullptr, std::string_view agent = {});

  telemetry::Counter& submissions;   ///< I/Os handed to the engine, continuations included
  telemetry::Counter& cached_reads;  ///< answered by the page cache at once, not by the engine
  telemetry::Counter& short_continuations;  ///< I/Os that ended early and went on
  telemetry::Counter& bounce_bytes;         ///< read into bounce buffers, padding included
  telemetry::Counter& registered_ios;       ///< submissions that used a registered buffer
  telemetry::Gauge& registered_bytes;       ///< of memory that is pinned with the engine

  telemetry::Counter& moved(bool write, Path path) noexcept {
    return PieceCounters::moved(write, static_cast<std::size_t>(path));
  }
  /// 1 for each backend that runs on this engine.
  telemetry::Gauge& engines(std::string_view engine);
  /// Open files, by how they were registered.
  telemetry::Gauge& files(bool direct);

  /// "buffered 4096 B read, 0 B written; direct ...".
  std::string to_string() const;
};

}  // namespace towpath::backends::posix
