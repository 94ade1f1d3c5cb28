#include "tools/plot/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace towpath::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Range kPaper{100, 300};

TEST(RulerTest, linear_ticks_are_round_and_begin_at_zero) {
  EXPECT_THAT(Ruler::fit({}, {3, 97}, kPaper).ticks(), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(Ruler::fit({}, {0, 0.31}, kPaper).text(0.1), "0.1");
  EXPECT_THAT(Ruler::fit({}, {-4, 5}, kPaper).ticks(), ElementsAre(-4, -2, 0, 2, 4, 6));
}

TEST(RulerTest, a_tight_axis_ends_where_the_values_do) {
  const Ruler ruler = Ruler::fit({.tight = true}, {0, 12}, kPaper);
  EXPECT_THAT(ruler.ticks(), ElementsAre(0, 5, 10));
  EXPECT_DOUBLE_EQ(ruler.at(12), 300);
}

TEST(RulerTest, logarithmic_ticks_are_fewer_over_many_decades) {
  const Axis axis{.title = "", .scale = Scale::logarithmic};
  EXPECT_THAT(Ruler::fit(axis, {500, 20000}, kPaper).ticks(),
              ElementsAre(500, 1000, 2000, 5000, 10000, 20000));
  EXPECT_THAT(Ruler::fit(axis, {1, 100000}, kPaper).ticks(),
              ElementsAre(1, 10, 100, 1000, 10000, 100000));
}

TEST(RulerTest, a_value_lies_where_its_share_of_the_axis_is) {
  const Ruler linear = Ruler::fit({}, {0, 100}, kPaper);
  EXPECT_DOUBLE_EQ(linear.at(0), 100);
  EXPECT_DOUBLE_EQ(linear.at(25), 150);
  EXPECT_DOUBLE_EQ(linear.at(1e9), 300);
  const Ruler upside_down = Ruler::fit({.scale = Scale::logarithmic}, {1, 100}, {300, 100});
  EXPECT_DOUBLE_EQ(upside_down.at(10), 200);
  EXPECT_DOUBLE_EQ(upside_down.at(-5), 300);
}

TEST(RulerTest, nothing_to_show_is_shown_without_dividing_by_it) {
  for (const Scale scale : {Scale::linear, Scale::logarithmic})
    for (const Range values : {Range{0, 0}, Range{7, 7}, Range{0, 7}}) {
      const Ruler ruler = Ruler::fit({.scale = scale}, values, kPaper);
      EXPECT_GE(ruler.at(values.end), 100);
      EXPECT_LE(ruler.at(values.end), 300);
      EXPECT_FALSE(ruler.ticks().empty());
    }
}

TEST(RulerTest, numbers_are_short) {
  EXPECT_EQ(compact_number(0), "0");
  EXPECT_EQ(compact_number(0.25), "0.25");
  EXPECT_EQ(compact_number(999.4), "999");
  EXPECT_EQ(compact_number(1000), "1k");
  EXPECT_EQ(compact_number(12500), "12.5k");
  EXPECT_EQ(compact_number(3.25e9), "3.25G");
  EXPECT_EQ(compact_quantity(2e7, "B/s"), "20 MB/s");
}

TEST(PlotTest, points_lie_on_their_line_and_say_what_they_are) {
  const Plot plot{.title = "t", .series = {{.name = "lru", .points = {{0, 0}, {100, 50}}}}};
  const std::string svg = to_svg(plot);
  // The axes end at 660 and begin at 68; 320 high, less what is around.
  EXPECT_THAT(svg, HasSubstr(R"(d="M68.0 272.0L660.0 40.0")"));
  EXPECT_THAT(svg, HasSubstr(R"(cx="660.0" cy="40.0")"));
  EXPECT_THAT(svg, HasSubstr("<title>lru: 50 at 100</title>"));
}

TEST(PlotTest, areas_stand_on_each_other) {
  const Plot plot{.series = {{.name = "low", .points = {{0, 10}, {10, 10}}},
                             {.name = "high", .points = {{0, 10}, {10, 30}}}},
                  .stacked = true};
  const std::string svg = to_svg(plot);
  // 10 + 30 is the top; each says its own height.
  EXPECT_THAT(svg, HasSubstr("<title>high: 30 at 10</title>"));
  EXPECT_THAT(svg, HasSubstr(R"(cy="40.0")"));
}

TEST(PlotTest, text_from_outside_stays_text) {
  const Plot plot{.title = "<script>", .series = {{.name = "a&\"b", .points = {{0, 1}}}}};
  const std::string svg = to_svg(plot);
  EXPECT_THAT(svg, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(svg, HasSubstr("a&amp;&quot;b"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

}  // namespace
}  // namespace towpath::tools
