#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include <towpath/core/text.h>
#include <towpath/sys/process.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

constexpr std::size_t kMaxMapsBytes = std::size_t{16} << 20U;  // of a hundred thousand mappings

/// The next word of a line, which then begins behind it.
std::string_view take_word(std::string_view& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

/// "begin-end perms offset device inode name"; nothing: it does not look so.
std::optional<ProcessMapping> parse(std::string_view line) {
  ProcessMapping mapping;
  const std::string_view range = take_word(line);
  const char* const last = range.data() + range.size();
  const auto [dash, first_error] = std::from_chars(range.data(), last, mapping.begin, 16);
  if (first_error != std::errc() || dash == last || *dash != '-') return std::nullopt;
  const auto [end, second_error] = std::from_chars(dash + 1, last, mapping.end, 16);
  if (second_error != std::errc() || end != last || mapping.end < mapping.begin)
    return std::nullopt;
  const std::string_view permissions = take_word(line);
  take_word(line);  // the offset
  take_word(line);  // the device
  const std::string_view inode = take_word(line);
  const std::string_view name = take_word(line);
  const bool is_named_plain =
      name.empty() || name == "[heap]" || name == "[stack]" || name.starts_with("[anon:");
  mapping.is_plain =
      permissions.starts_with('r') && permissions.ends_with('p') && inode == "0" && is_named_plain;
  return mapping;
}

}  // namespace

Result<std::vector<ProcessMapping>> process_mappings(pid_t pid, const std::string& proc) {
  TOWPATH_TRY(const std::string text, read_text_file(cat(proc, "/", pid, "/maps"), kMaxMapsBytes));
  std::vector<ProcessMapping> mappings;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    if (const auto mapping = parse(line)) mappings.push_back(*mapping);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return mappings;
}

}  // namespace towpath::sys
