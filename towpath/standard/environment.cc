#include <algorithm>
#include <array>
#include <string_view>

#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/standard/settings.h>

namespace towpath::standard {

Environment read_environment() {
  Environment found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      found.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return found;
}

std::optional<bool> parse_switch(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kOn{"1", "true", "yes", "y", "on", "enable"};
  static constexpr std::array<std::string_view, 6> kOff{"0", "false", "no", "n", "off", "disable"};
  const std::string folded = lower(text);
  if (std::ranges::find(kOn, folded) != kOn.end()) return true;
  if (std::ranges::find(kOff, folded) != kOff.end()) return false;
  return std::nullopt;
}

}  // namespace towpath::standard
