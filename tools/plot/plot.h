// Plot: lines or stacked areas over two axes, drawn as an SVG. It draws, and knows nothing of what
// the numbers mean.
//
//   Plot plot{.title = "Hit ratio", .x = {.title = "blocks", .scale = Scale::logarithmic}};
//   plot.series.push_back({.name = "lru", .points = {{500, 0.12}, {1000, 0.17}}});
//   page += to_svg(plot);                        in a page that has plot_style() once
//
// Colours follow whether the reader's screen is light or dark. Every point says its values when
// pointed at. Titles and names may hold any text.
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/plot/ruler.h"

namespace towpath::tools {

struct Point {
  double x = 0;
  double y = 0;
};

struct Series {
  enum class Look { line, bold, dashed, faint };
  std::string name;
  std::vector<Point> points;  ///< ascending in x
  Look look = Look::line;
};

struct Plot {
  std::string title;
  Axis x;
  Axis y;
  std::vector<Series> series;
  /// Areas that stand on each other, first at the bottom: all series have the same x.
  bool stacked = false;
  bool dots = false;  ///< points are seen, not only felt
};

std::string to_svg(const Plot& plot);

/// CSS: what the classes of to_svg() look like, and the colours --ink, --faint, --grid, --paper and
/// --c0 to --c8.
std::string_view plot_style();

/// `text` as it stands in HTML and SVG; control characters become spaces.
std::string escaped(std::string_view text);

}  // namespace towpath::tools
