// BackendChooser: which backend moves a transfer, and why not another one.
//
// Pure: it is given what each backend that can move the transfer offers, and decides. What a
// transfer still has to try, so that its time is known, comes first; then what has not failed when
// it was tried; then the lowest cost; then the order in which the offers came.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <towpath/agent/path_times.h>
#include <towpath/agent/transfer_core.h>
#include <towpath/backend/capabilities.h>

namespace towpath::agent {

/// What the choice of a backend depends on.
struct TransferShape {
  /// The selection is that of the local side.
  static TransferShape of(TransferOp op, const PreparedSide& local, const PreparedSide& remote,
                          const Selection& selection);

  TransferOp op = TransferOp::read;
  MemoryKind local = MemoryKind::system;
  MemoryKind remote = MemoryKind::system;
  std::uint64_t descriptors = 0;
  std::uint64_t bytes = 0;  ///< taking descriptors to be about equal: the choice need not be exact

  /// By the times of transfers that were alike; else what backends declare decides. Which path to
  /// a GPU's memory is the fastest is up to buses and drives that no declaration knows.
  bool is_measured() const noexcept {
    return local == MemoryKind::device || remote == MemoryKind::device;
  }
  TransferClass alike() const noexcept {
    return TransferClass::of(op, local, remote, bytes, descriptors);
  }
};

/// What one possible backend should cost.
struct Offer {
  /// By what the backend declares or has measured, and by what transfers that were alike took.
  static Offer of(const TransferShape& shape, std::size_t instance, const backend::Cost& cost,
                  const PathTimes::Known& known);

  std::size_t instance = 0;
  Duration cost{0};
  Duration margin{0};        ///< 0: not known
  bool is_measured = false;  ///< else declared
  bool wants_trial = false;
  bool has_failed = false;  ///< whenever it was tried
};

class BackendChooser {
 public:
  void consider(const Offer& offer) {
    if (!best_ || is_better(offer, *best_)) best_ = offer;
  }
  const std::optional<Offer>& best() const noexcept { return best_; }
  /// Why one that was considered is the best, or is not.
  std::string_view reason_of(const Offer& offer) const;

 private:
  static bool is_better(const Offer& offer, const Offer& than);

  std::optional<Offer> best_;
};

}  // namespace towpath::agent
