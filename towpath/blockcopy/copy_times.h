// CopyTimes: whether pieces of a device's memory go faster by its kernel or by its copy engines,
// for copies that are alike.
//
// The first copies of a class are the trials, as with an agent's ways (decision 0019): both get
// some, what is declared first, and from then on the one with the best time is taken. Far from the
// declared bound nothing is tried: there a trial costs much and reports nothing.
// Thread: that of its manager.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include <towpath/blockcopy/route.h>
#include <towpath/core/clock.h>
#include <towpath/core/measured_choice.h>

namespace towpath::blockcopy {

/// Copies whose times are compared: between the same ends, and of sizes of the same power of two.
struct CopyClass {
  RouteEnd source = RouteEnd::device;
  RouteEnd target = RouteEnd::device;
  std::uint64_t least_bytes = 1;        ///< a power of two; at most twice as many are alike
  std::uint64_t least_piece_bytes = 1;  ///< the same, of the shortest piece

  friend auto operator<=>(const CopyClass&, const CopyClass&) = default;
};

enum class PieceMover : std::uint8_t { kernel = 0, engine = 1 };

/// What a copy is, whose time is to be reported.
struct CopyTrial {
  CopyClass alike;
  PieceMover mover = PieceMover::kernel;
  std::uint64_t bytes = 1;
};

class CopyTimes {
 public:
  /// Beyond, nothing more is measured.
  static constexpr std::size_t kMaxClasses = 1024;
  /// Pieces of less than the bound divided by this, or this times it and more, are not tried.
  static constexpr std::uint64_t kAround = 16;

  /// Each way is tried so often; 0: the bound alone decides.
  CopyTimes(std::uint64_t short_piece_bytes, unsigned trials)
      : bound_(short_piece_bytes), trials_(trials) {}

  /// Of pieces that are longer than all of those nobody asks for a kernel.
  bool may_be_short(std::uint64_t piece_bytes) const {
    return piece_bytes < bound_ || (trials_ > 0 && is_near(piece_bytes));
  }
  /// Of a copy of `bytes` > 0 in pieces of `piece_bytes` and more.
  CopyTrial choose(RouteEnd source, RouteEnd target, std::uint64_t bytes,
                   std::uint64_t piece_bytes) const;
  /// Nothing: it failed.
  void note(const CopyTrial& trial, std::optional<Duration> took);

 private:
  bool is_near(std::uint64_t piece_bytes) const {
    return piece_bytes >= bound_ / kAround && piece_bytes / kAround < bound_;
  }

  const std::uint64_t bound_;
  const unsigned trials_;
  std::map<CopyClass, MeasuredChoice> choices_;  // by PieceMover; times of the class's least bytes
};

}  // namespace towpath::blockcopy
