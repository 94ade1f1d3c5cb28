// The part of a text that a terminal shows, and the keys that move it. Thread: the main one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <termios.h>

#include <towpath/core/clock.h>

namespace towpath::tools {

struct WindowSize {
  std::size_t rows = 24;
  std::size_t columns = 80;
};

/// `text` from line `first` on, in a window: lines that are longer are cut, colours are no letters,
/// and the last row says which lines these are and what the keys do when not all of them fit.
std::string fitted(std::string_view text, std::size_t first, WindowSize window);

/// The last line that may come first, so that the window is full.
std::size_t last_first_line(std::string_view text, WindowSize window);

/// Letters are read as they are typed, until this dies. Only of a terminal.
///
/// A signal that ended the process would leave the terminal so: `signals` reports them instead.
class Keys {
 public:
  enum class Key { none, quit, up, down, page_up, page_down };

  /// `signals`: readable when one has come, which is taken for `quit`; -1: none are expected.
  explicit Keys(int signals = -1);
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;
  ~Keys();

  /// The next key within this time. Where no terminal types, it only waits.
  Key next(Duration most);

 private:
  const int signals_;
  std::optional<termios> before_;
};

WindowSize window_size();

}  // namespace towpath::tools
