// PathTimes: how long transfers with a peer took over each backend, for transfers that are alike.
//
// The first transfers of a class are the trials: each way that is possible gets some, and from then
// on the one with the best time is taken. So nothing is moved only to be timed.
// Thread: any; its lock is a leaf.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <towpath/core/clock.h>
#include <towpath/core/measured_choice.h>
#include <towpath/core/memory_kind.h>
#include <towpath/core/transfer_state.h>
#include <towpath/run/mutex.h>

namespace towpath::agent {

/// Transfers whose times are compared: the same kinds, and sizes of the same power of two.
struct TransferClass {
  /// Of `descriptors` > 0 extents of `bytes` in all.
  static TransferClass of(TransferOp op, MemoryKind local, MemoryKind remote, std::uint64_t bytes,
                          std::uint64_t descriptors) noexcept;

  TransferOp op = TransferOp::read;
  MemoryKind local = MemoryKind::system;
  MemoryKind remote = MemoryKind::system;
  std::uint64_t least_bytes = 1;        ///< a power of two; at most twice as many are alike
  std::uint64_t least_piece_bytes = 1;  ///< the same, of an extent

  friend auto operator<=>(const TransferClass&, const TransferClass&) = default;
};
/// "read device <- disk, from 1 MiB, in pieces from 64 KiB".
std::string to_string(const TransferClass& alike);

class PathTimes {
 public:
  /// Beyond, nothing more is measured.
  static constexpr std::size_t kMaxClasses = 1024;

  struct Known {
    bool wants_trial = false;
    bool has_failed = false;
    std::optional<Duration> time = std::nullopt;  ///< what `bytes` should take
    Duration spread{0};  ///< how much longer the slowest trial would have; 0: nobody knows
  };
  /// Of the backend in `instance`; `trials`: as often is each way tried.
  Known known(const TransferClass& alike, std::size_t instance, std::uint64_t bytes,
              unsigned trials) const;

  struct Trial {
    std::size_t instance = 0;
    std::uint64_t bytes = 0;
    std::optional<Duration> took = std::nullopt;  ///< nothing: it failed
  };
  /// True: it was the last one of this way.
  bool note(const TransferClass& alike, const Trial& trial, unsigned trials);
  /// The instance of the fastest way so far.
  std::optional<std::size_t> fastest(const TransferClass& alike) const;

 private:
  mutable run::Mutex mutex_;
  /// Times are those of the class's least bytes.
  std::map<TransferClass, MeasuredChoice> choices_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::agent
