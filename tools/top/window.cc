#include "tools/top/window.h"

#include <algorithm>
#include <array>
#include <vector>

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <towpath/core/format.h>

namespace towpath::tools {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// The first `columns` letters, with all colours: what was switched on is switched off again.
std::string cut(std::string_view line, std::size_t columns) {
  std::string out;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      const std::size_t end = std::min(line.find('m', i), line.size() - 1);
      out += line.substr(i, end - i + 1);
      i = end;
    } else if (shown < columns) {
      out += line[i];
      ++shown;
    }
  }
  return out;
}

/// The start of what a key sends that sends several bytes: "\x1b[5~".
bool goes_on(std::string_view typed) {
  if (!typed.starts_with('\x1b')) return false;
  return typed.size() == 1 || typed == "\x1b[" || (typed.size() < 8 && typed.back() < '@');
}

Keys::Key key_of(std::string_view typed) {
  if (typed == "q" || typed == "Q") return Keys::Key::quit;
  if (typed == "k" || typed == "\x1b[A") return Keys::Key::up;
  if (typed == "j" || typed == "\x1b[B") return Keys::Key::down;
  if (typed == "b" || typed == "\x1b[5~") return Keys::Key::page_up;
  if (typed == " " || typed == "\x1b[6~") return Keys::Key::page_down;
  return Keys::Key::none;
}

}  // namespace

std::size_t last_first_line(std::string_view text, WindowSize window) {
  const std::size_t lines = lines_of(text).size();
  const std::size_t rows = window.rows - 1;
  return lines > rows ? lines - rows : 0;
}

std::string fitted(std::string_view text, std::size_t first, WindowSize window) {
  const auto lines = lines_of(text);
  const bool all = lines.size() < window.rows;
  const std::size_t from = all ? 0 : std::min(first, last_first_line(text, window));
  const std::size_t until = std::min(from + window.rows - 1, lines.size());
  std::string out;
  for (std::size_t i = from; i < until; ++i) out += cut(lines[i], window.columns) + "\n";
  const std::string where =
      cat("  lines ", from + 1, " to ", until, " of ", lines.size(), "; j, k: scroll; q: quit");
  return out + cut(all ? "  q: quit" : where, window.columns);
}

WindowSize window_size() {
  winsize said{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &said) != 0 || said.ws_row < 2 || said.ws_col < 2) return {};
  return {.rows = said.ws_row, .columns = said.ws_col};
}

Keys::Keys(int signals) : signals_(signals) {
  termios now{};
  if (isatty(STDIN_FILENO) == 0 || tcgetattr(STDIN_FILENO, &now) != 0) return;
  before_ = now;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C stays a signal
  (void)tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

Keys::~Keys() {
  if (before_) (void)tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
}

Keys::Key Keys::next(Duration most) {
  std::array<pollfd, 2> wakes{{{.fd = before_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
                               {.fd = signals_, .events = POLLIN, .revents = 0}}};
  pollfd& typed = wakes[0];
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(most).count();
  const int timeout = static_cast<int>(std::max<std::int64_t>(ms, 10));
  if (poll(wakes.data(), wakes.size(), timeout) <= 0) return Key::none;
  if (wakes[1].revents != 0) return Key::quit;
  std::string letters;  // of one key: a key that is held sends many at once
  do {
    char letter = 0;
    if (read(STDIN_FILENO, &letter, 1) <= 0) return Key::quit;  // the terminal is gone
    letters += letter;
  } while (goes_on(letters) && poll(&typed, 1, 0) > 0);
  return key_of(letters);
}

}  // namespace towpath::tools
