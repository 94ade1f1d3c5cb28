#include "tools/plot/plot.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace towpath::tools {
namespace {

constexpr double kWidth = 680, kHeight = 320;
constexpr double kLeft = 68, kTop = 40, kBottom = 48;  // around the drawing
constexpr double kLetter = 7.2;                        // about the width of one, in 13 pixels
constexpr double kLegendLine = 20, kSwatch = 26;
constexpr std::size_t kColours = 9;

constexpr std::string_view kStyle =
    R"(:root{--paper:#fff;--ink:#1c2430;--faint:#5d6878;--grid:#e4e8ee;--c0:#2f6bd8;--c1:#d9730d;
--c2:#12906b;--c3:#c23a4b;--c4:#7d4fc4;--c5:#8a6a3f;--c6:#cf4a97;--c7:#0b8fa3;--c8:#6b7685}
@media(prefers-color-scheme:dark){:root{--paper:#12161d;--ink:#e3e8f0;--faint:#98a3b3;--grid:#29313d;
--c0:#6ea0ff;--c1:#ffab5c;--c2:#4fd0a2;--c3:#ff7d8b;--c4:#b892ff;--c5:#cdac7c;--c6:#ff8ac9;--c7:#4fcfe0;
--c8:#a4afbe}}
.plot{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;width:100%;height:auto;display:block}
.plot text{fill:var(--faint)}.plot .title{fill:var(--ink);font-size:16px;font-weight:600}
.plot .name{fill:var(--ink)}.plot .grid{stroke:var(--grid);fill:none}
.plot .axis{stroke:var(--faint);fill:none}
.plot .line{fill:none;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.plot .bold{stroke-width:8;stroke-opacity:.4}.plot .dashed{stroke-dasharray:7 5}
.plot .area{fill:var(--c);fill-opacity:.75;stroke:var(--paper);stroke-width:.6}
.plot circle{fill:transparent;pointer-events:all}.plot .dot{fill:var(--c)}
.plot circle:hover{fill:var(--ink)}
.s0{--c:var(--c0)}.s1{--c:var(--c1)}.s2{--c:var(--c2)}.s3{--c:var(--c3)}.s4{--c:var(--c4)}
.s5{--c:var(--c5)}.s6{--c:var(--c6)}.s7{--c:var(--c7)}.s8{--c:var(--c8)}
)";

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  Range range() const { return low <= high ? Range{low, high} : Range{0, 0}; }
};

std::vector<std::vector<double>> tops_of(const Plot& plot) {
  std::vector<std::vector<double>> tops;
  for (const Series& series : plot.series) {
    std::vector<double> top;
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      const bool stands = plot.stacked && !tops.empty() && i < tops.back().size();
      top.push_back(series.points[i].y + (stands ? tops.back()[i] : 0));
    }
    tops.push_back(std::move(top));
  }
  return tops;
}

class Drawing {
 public:
  explicit Drawing(const Plot& plot)
      : plot_(plot),
        tops_(tops_of(plot)),
        right_(kWidth - legend_width()),
        x_(Ruler::fit(plot.x, x_range(), {kLeft, right_})),
        y_(Ruler::fit(plot.y, y_range(), {kHeight - kBottom, kTop})) {}

  std::string draw() {
    put(R"(<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img">)",
        kWidth, kHeight);
    put(R"(<text class="title" x="{}" y="20">{}</text>)", 8, escaped(plot_.title));
    draw_axes();
    for (std::size_t i = plot_.series.size(); i-- > 0;) draw_series(i);  // the first on top
    for (std::size_t i = 0; i < plot_.series.size(); ++i) draw_points(i);
    draw_legend();
    return std::move(svg_) + "</svg>\n";
  }

 private:
  template <typename... Parts>
  void put(fmt::format_string<Parts...> format, Parts&&... parts) {
    fmt::format_to(std::back_inserter(svg_), format, std::forward<Parts>(parts)...);
  }

  double legend_width() const {
    std::size_t longest = 0;
    for (const Series& series : plot_.series) longest = std::max(longest, series.name.size());
    return plot_.series.size() < 2 ? 20 : kSwatch + 24 + static_cast<double>(longest) * kLetter;
  }

  Range x_range() const {
    Extent extent;
    for (const Series& series : plot_.series)
      for (const Point& point : series.points) extent.add(point.x);
    return extent.range();
  }
  Range y_range() const {
    Extent extent;
    for (const auto& top : tops_)
      for (const double y : top) extent.add(y);
    return extent.range();
  }

  void draw_axes() {
    for (const double tick : y_.ticks()) {
      put(R"(<path class="grid" d="M{} {:.1f}H{:.1f}"/>)", kLeft, y_.at(tick), right_);
      put(R"(<text x="{}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 8, y_.at(tick) + 4,
          escaped(y_.text(tick)));
    }
    for (const double tick : x_.ticks()) {
      put(R"(<path class="grid" d="M{:.1f} {}V{}"/>)", x_.at(tick), kTop, kHeight - kBottom);
      put(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", x_.at(tick),
          kHeight - kBottom + 17, escaped(x_.text(tick)));
    }
    put(R"(<path class="axis" d="M{} {}H{:.1f}"/>)", kLeft, kHeight - kBottom, right_);
    put(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", (kLeft + right_) / 2,
        kHeight - 10, escaped(plot_.x.title));
    put(R"(<text transform='translate(14 {:.1f})rotate(-90)' text-anchor="middle">{}</text>)",
        (kTop + kHeight - kBottom) / 2, escaped(plot_.y.title));
  }

  void draw_series(std::size_t index) {
    const Series& series = plot_.series[index];
    if (series.points.empty()) return;
    put(R"(<path class="{} s{}" d=")", class_of(series), colour_of(index));
    for (std::size_t i = 0; i < series.points.size(); ++i)
      put("{}{:.1f} {:.1f}", i == 0 ? 'M' : 'L', x_.at(series.points[i].x), y_.at(tops_[index][i]));
    for (std::size_t i = series.points.size(); plot_.stacked && i-- > 0;)
      put("L{:.1f} {:.1f}", x_.at(series.points[i].x), y_.at(bottom_of(index, i)));
    put(R"({}"/>)", plot_.stacked ? "Z" : "");
  }

  double bottom_of(std::size_t index, std::size_t i) const {
    return index == 0 || i >= tops_[index - 1].size() ? 0 : tops_[index - 1][i];
  }

  void draw_points(std::size_t index) {
    const Series& series = plot_.series[index];
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      const auto& [x, y] = series.points[i];
      put(R"(<circle class="{}s{}" cx="{:.1f}" cy="{:.1f}" r="{}"><title>{}: {} at {}</title></circle>)",
          plot_.dots ? "dot " : "", colour_of(index), x_.at(x), y_.at(tops_[index][i]),
          plot_.dots ? 3 : 4, escaped(series.name), escaped(y_.text(y)), escaped(x_.text(x)));
    }
  }

  void draw_legend() {
    const std::size_t count = plot_.series.size();
    if (count < 2) return;
    double y = kTop + 6;
    for (std::size_t i = 0; i < count; ++i, y += kLegendLine) {
      const std::size_t shown = plot_.stacked ? count - 1 - i : i;  // as they stand
      const Series& series = plot_.series[shown];
      put(R"(<path class="{} s{}" d="M{:.1f} {:.1f}h{}{}"/>)", class_of(series), colour_of(shown),
          right_ + 14, plot_.stacked ? y - 5 : y, kSwatch - 6,
          plot_.stacked ? fmt::format("v10h-{}z", kSwatch - 6) : "");
      put(R"(<text class="name" x="{:.1f}" y="{:.1f}">{}</text>)", right_ + 14 + kSwatch, y + 4,
          escaped(series.name));
    }
  }

  std::size_t colour_of(std::size_t index) const {
    const bool faint = plot_.series[index].look == Series::Look::faint;
    return faint ? kColours - 1 : index % kColours;
  }

  std::string_view class_of(const Series& series) const {
    if (plot_.stacked) return "area";
    switch (series.look) {
      case Series::Look::line:
      case Series::Look::faint: break;
      case Series::Look::bold: return "line bold";
      case Series::Look::dashed: return "line dashed";
    }
    return "line";
  }

  const Plot& plot_;
  const std::vector<std::vector<double>> tops_;
  const double right_;
  const Ruler x_;
  const Ruler y_;
  std::string svg_;
};

}  // namespace

std::string to_svg(const Plot& plot) { return Drawing(plot).draw(); }

std::string_view plot_style() { return kStyle; }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(letter) < 0x20 && letter != '\n' ? ' ' : letter;
    }
  }
  return out;
}

}  // namespace towpath::tools
