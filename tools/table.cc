#include "tools/table.h"

#include <algorithm>
#include <string_view>

#include <towpath/core/check.h>

namespace towpath::tools {
namespace {

constexpr std::string_view kIndent = "  ";
constexpr std::string_view kGap = "  ";
constexpr std::size_t kLineLength = 100;  // of notes; rows are as long as their cells
constexpr std::size_t kNarrowest = 20;    // of notes, wherever they begin

std::string_view escape_of(Tone tone) {
  switch (tone) {
    case Tone::plain: return "";
    case Tone::good: return "\x1b[32m";
    case Tone::warning: return "\x1b[33m";
    case Tone::bad: return "\x1b[1;31m";
    case Tone::faint: return "\x1b[2m";
  }
  return "";
}

/// One line of a table, cell by cell. Spaces are owed until a letter follows them, so that none
/// stand at the end of a line.
class Line {
 public:
  explicit Line(Colours colours) : colours_(colours) {}

  void add(const Cell& cell, Align align, std::size_t width) {
    const std::size_t pad = width - cell.text.size();
    owed_ += align == Align::right ? pad : 0;
    if (!cell.text.empty()) {
      text_.append(owed_, ' ');
      text_ += painted(cell.text, cell.tone, colours_);
      owed_ = 0;
    }
    owed_ += (align == Align::left ? pad : 0) + kGap.size();
  }
  std::string finish() && { return std::move(text_) + "\n"; }

 private:
  const Colours colours_;
  std::string text_;
  std::size_t owed_ = kIndent.size();
};

/// In lines that end before kLineLength where there are spaces to break at, each behind `indent`.
std::string wrapped(std::string_view text, std::size_t indent) {
  const std::size_t width = std::max(kLineLength - std::min(indent, kLineLength), kNarrowest);
  std::string out;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (end > width) end = text.rfind(' ', width);
    if (end == std::string_view::npos || end == 0) end = std::min(text.find(' '), text.size());
    out += std::string(indent, ' ').append(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

std::string painted(const std::string& text, Tone tone, Colours colours) {
  if (colours == Colours::no || tone == Tone::plain) return text;
  return std::string(escape_of(tone)) + text + "\x1b[0m";
}

void Table::add(std::vector<Cell> cells) {
  TOWPATH_CHECK(cells.size() <= columns_.size(),
                "a row with more cells than the table has columns");
  rows_.push_back({std::move(cells), {}});
}

void Table::note(std::string text) {
  TOWPATH_CHECK(!rows_.empty(), "a note needs a row above it");
  rows_.back().notes.push_back(std::move(text));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(column.title.size());
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < row.cells.size(); ++i)
      widths[i] = std::max(widths[i], row.cells[i].text.size());
  }
  return widths;
}

std::string Table::text(Colours colours) const {
  const std::vector<std::size_t> width = widths();
  std::string out;
  if (std::ranges::any_of(columns_, [](const Column& column) { return !column.title.empty(); })) {
    Line titles(colours);
    for (std::size_t i = 0; i < columns_.size(); ++i)
      titles.add({columns_[i].title, Tone::faint}, columns_[i].align, width[i]);
    out += std::move(titles).finish();
  }
  const std::size_t second = kIndent.size() + (width.empty() ? 0 : width[0] + kGap.size());
  for (const Row& row : rows_) {
    Line line(colours);
    for (std::size_t i = 0; i < row.cells.size(); ++i)
      line.add(row.cells[i], columns_[i].align, width[i]);
    out += std::move(line).finish();
    for (const std::string& note : row.notes) out += wrapped(note, second);
  }
  return out;
}

}  // namespace towpath::tools
