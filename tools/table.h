// Table: rows in columns that a person can read, numbers to the right. It lays out text and knows
// nothing of what the text means. Cells are ASCII (one byte is one column): names from outside go
// through printable() first.
//
//   Table table({{"hop"}, {"rate", Align::right}});
//   table.add({"pull", "9.81 GB/s"});
//   table.add({"load", {"0.40 GB/s", Tone::warning}});
//   print(table.text(Colours::no));
//
// Thread: none of its own.
#pragma once

#include <string>
#include <vector>

namespace towpath::tools {

enum class Align { left, right };
enum class Tone { plain, good, warning, bad, faint };
enum class Colours { no, yes };  ///< yes only where a terminal reads: Output::is_terminal()

/// `text` as a terminal shows it in this tone; unchanged without colours.
std::string painted(const std::string& text, Tone tone, Colours colours);

struct Column {
  std::string title;
  Align align = Align::left;
};

struct Cell {
  std::string text;
  Tone tone = Tone::plain;

  Cell(std::string text_in, Tone tone_in = Tone::plain) : text(std::move(text_in)), tone(tone_in) {}
  Cell(const char* text_in, Tone tone_in = Tone::plain) : text(text_in), tone(tone_in) {}
};

class Table {
 public:
  /// Without a title in any column there is no line of titles.
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Cells that are missing at the end are empty; there are never more than columns.
  void add(std::vector<Cell> cells);
  /// Text under the last row, from its second column on, in lines of at most 100 letters.
  void note(std::string text);
  bool empty() const noexcept { return rows_.empty(); }

  /// Lines, each with its end and without spaces before it, indented by two.
  std::string text(Colours colours) const;

 private:
  struct Row {
    std::vector<Cell> cells;
    std::vector<std::string> notes;
  };
  std::vector<std::size_t> widths() const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace towpath::tools
