#include "tools/run/lines.h"

#include <array>
#include <cerrno>

#include <unistd.h>

namespace towpath::tools {
namespace {

/// Of one call, so that others have their turn; a pipe holds no more, unless root made it so. And
/// of a line that does not end.
constexpr std::size_t kMostBytes = std::size_t{1} << 20U;

}  // namespace

bool Lines::pass_on() {
  std::array<char, 4096> buffer;
  for (std::size_t passed = 0; passed < kMostBytes; passed += buffer.size()) {
    const ssize_t count = ::read(fd(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      write_lines(false);
      return errno == EAGAIN;
    }
    kept_.append(buffer.data(), static_cast<std::size_t>(count));
    if (count == 0) {
      write_lines(true);
      return false;
    }
  }
  write_lines(false);
  return true;
}

void Lines::end() {
  (void)pass_on();
  write_lines(true);
}

void Lines::write_lines(bool with_rest) {
  std::size_t begin = 0;
  for (std::size_t end = kept_.find('\n'); end != std::string::npos;
       end = kept_.find('\n', begin)) {
    const std::string line = prefix_ + kept_.substr(begin, end + 1 - begin);
    (void)std::fwrite(line.data(), 1, line.size(), to_);
    begin = end + 1;
  }
  kept_.erase(0, begin);
  if ((with_rest && !kept_.empty()) || kept_.size() >= kMostBytes) {
    const std::string line = prefix_ + std::exchange(kept_, {}) + "\n";
    (void)std::fwrite(line.data(), 1, line.size(), to_);
  }
  (void)std::fflush(to_);
}

}  // namespace towpath::tools
