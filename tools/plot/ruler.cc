#include "tools/plot/ruler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace towpath::tools {
namespace {

constexpr int kSteps = 5;         // about as many between the ends of a linear ruler
constexpr double kAllMarks = 3;   // decades, up to which 2 and 5 have ticks too
constexpr double kNearly = 1e-9;  // of a step: what rounding leaves

/// The least of 1, 2, 5, 10 times a power of ten that is not below `value`.
double round_up(double value) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (decade * factor >= value * (1 - kNearly)) return decade * factor;
  return decade * 10;
}

std::vector<double> linear_ticks(Range& values, bool tight) {
  values.begin = std::min(values.begin, 0.0);
  if (values.end <= values.begin) values.end = values.begin + 1;
  const double step = round_up((values.end - values.begin) / kSteps);
  values.begin = std::floor(values.begin / step) * step;
  const double span = (values.end - values.begin) / step;
  const auto steps =
      static_cast<int>(tight ? std::floor(span + kNearly) : std::ceil(span - kNearly));
  std::vector<double> ticks;
  for (int i = 0; i <= steps; ++i) ticks.push_back(values.begin + i * step);
  if (!tight) values.end = ticks.back();
  return ticks;
}

std::vector<double> logarithmic_ticks(Range& values) {
  if (values.end <= 0) values = {1, 10};
  if (values.begin <= 0) values.begin = values.end / 1000;
  if (values.begin >= values.end) values = {values.end / 2, values.end * 2};
  const bool few = std::log10(values.end / values.begin) > kAllMarks;
  std::vector<double> ticks;
  double decade = std::pow(10, std::floor(std::log10(values.begin)));
  for (; decade <= values.end * (1 + kNearly); decade *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = decade * factor;
      const bool inside =
          tick >= values.begin * (1 - kNearly) && tick <= values.end * (1 + kNearly);
      if (inside && (factor == 1 || !few)) ticks.push_back(tick);
    }
  }
  return ticks;
}

}  // namespace

Ruler Ruler::fit(const Axis& axis, Range values, Range paper) {
  Ruler ruler;
  ruler.scale_ = axis.scale;
  ruler.text_ = axis.text == nullptr ? compact_number : axis.text;
  ruler.values_ = values;
  ruler.paper_ = paper;
  ruler.ticks_ = axis.scale == Scale::linear ? linear_ticks(ruler.values_, axis.tight)
                                             : logarithmic_ticks(ruler.values_);
  return ruler;
}

double Ruler::measure(double value) const {
  return scale_ == Scale::linear ? value : std::log(value);
}

double Ruler::at(double value) const {
  const double low = measure(values_.begin);
  const double inside = std::clamp(value, values_.begin, values_.end);
  const double share = (measure(inside) - low) / (measure(values_.end) - low);
  return paper_.begin + share * (paper_.end - paper_.begin);
}

std::string compact_number(double value) { return compact_quantity(value, ""); }

std::string compact_quantity(double value, std::string_view unit_name) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g}{}{}{}", value, unit_name.empty() ? "" : " ", kUnits[unit], unit_name);
}

}  // namespace towpath::tools
