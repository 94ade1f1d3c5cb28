// Ruler: one axis of a plot: which values have a tick, and where on paper a value lies.
//
// Pure arithmetic. Ticks are round: 1, 2 or 5 times a power of ten.
// Thread: immutable.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace towpath::tools {

enum class Scale { linear, logarithmic };

struct Axis {
  std::string title;
  Scale scale = Scale::linear;
  std::string (*text)(double) = nullptr;  ///< of a tick; null: compact_number()
  bool tight = false;                     ///< ends where the values do, not at the next tick
};

/// A range of values, or of places on paper. On paper `begin` may lie right of, or below, `end`.
struct Range {
  double begin = 0;
  double end = 0;
};

class Ruler {
 public:
  /// Shows all of `values` on `paper`. A linear ruler begins at zero unless a value lies below; a
  /// logarithmic one shows no value that is not above zero.
  static Ruler fit(const Axis& axis, Range values, Range paper);

  /// Values outside are moved to the nearer end.
  double at(double value) const;
  const std::vector<double>& ticks() const { return ticks_; }
  std::string text(double tick) const { return text_(tick); }
  Range paper() const { return paper_; }

 private:
  Ruler() = default;
  double measure(double value) const;

  Scale scale_ = Scale::linear;
  std::string (*text_)(double) = nullptr;
  Range values_, paper_;
  std::vector<double> ticks_;
};

/// "0", "0.25", "500", "20k", "1.5M": three digits that count.
std::string compact_number(double value);
/// "1.5 MB/s".
std::string compact_quantity(double value, std::string_view unit);

}  // namespace towpath::tools
