#include <algorithm>
#include <cctype>
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/standard/config_file.h>
#include <towpath/sys/text_file.h>

namespace towpath::standard {
namespace {

// ---- a line: each takes what it reads off `rest`; nothing: it is not written so ----

void skip_blanks(std::string_view& rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\r"), rest.size()));
}

bool is_over(std::string_view rest) {
  skip_blanks(rest);
  return rest.empty() || rest.front() == '#';
}

template <typename Belongs>
std::string_view take_while(std::string_view& rest, Belongs belongs) {
  const auto* const end = std::ranges::find_if_not(rest, belongs);
  const std::string_view word = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
  rest.remove_prefix(word.size());
  return word;
}

// What the letter after a backslash stands for.
std::optional<char> escaped(std::string_view rest) {
  if (rest.empty()) return std::nullopt;
  switch (rest.front()) {
    case '"':
    case '\\': return rest.front();
    case 'n': return '\n';
    case 't': return '\t';
    default: return std::nullopt;
  }
}

// "with escapes" or 'without'.
std::optional<std::string> take_quoted(std::string_view& rest) {
  const char quote = rest.front();
  std::string text;
  for (std::size_t at = 1; at < rest.size(); ++at) {
    if (rest[at] == quote) {
      rest.remove_prefix(at + 1);
      return text;
    }
    std::optional<char> letter = rest[at];
    if (letter == '\\' && quote == '"') letter = escaped(rest.substr(++at));
    if (!letter) return std::nullopt;
    text.push_back(*letter);
  }
  return std::nullopt;
}

bool is_quote(std::string_view rest) { return rest.starts_with('"') || rest.starts_with('\''); }

std::optional<std::string> take_key(std::string_view& rest) {
  if (is_quote(rest)) return take_quoted(rest);
  const std::string_view word = take_while(rest, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
  if (word.empty()) return std::nullopt;
  return std::string(word);
}

// A decimal number, without the marks that only help to read it.
std::optional<std::string> number_of(std::string_view word) {
  std::string digits;
  if (word.starts_with('-')) digits.push_back('-');
  if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
  if (word.empty() || word.front() == '_' || word.back() == '_') return std::nullopt;
  for (const char c : word) {
    if (c != '_' && (c < '0' || c > '9')) return std::nullopt;
    if (c != '_') digits.push_back(c);
  }
  return digits;
}

std::optional<std::string> take_value(std::string_view& rest) {
  if (is_quote(rest)) return take_quoted(rest);
  const std::string_view word =
      take_while(rest, [](char c) { return c != ' ' && c != '\t' && c != '\r' && c != '#'; });
  if (word == "true" || word == "false") return std::string(word);
  return number_of(word);
}

std::optional<std::pair<std::string, std::string>> parse_line(std::string_view rest) {
  auto key = take_key(rest);
  skip_blanks(rest);
  if (!key || !rest.starts_with('=')) return std::nullopt;
  rest.remove_prefix(1);
  skip_blanks(rest);
  auto value = take_value(rest);
  if (!value || !is_over(rest)) return std::nullopt;
  return std::pair(*std::move(key), *std::move(value));
}

// ---- the file ----

bool is_variable(std::string_view key) {
  return std::ranges::any_of(kVariablePrefixes,
                             [&](std::string_view prefix) { return key.starts_with(prefix); });
}

Status take_line(std::string_view line, std::uint32_t number, ConfigFile& into) {
  const auto refuse = [&](std::string_view why) {
    return error(Code::invalid_argument, cat(printable(into.path, 256), ":", number, " ", why),
                 "write NAME = \"text\", or a whole number, true or false without quotes");
  };
  auto parsed = parse_line(line);
  if (!parsed) return refuse(cat("cannot be read: '", printable(line, 120), "'"));
  auto& [key, value] = *parsed;
  if (!into.lines.emplace(key, number).second)
    return refuse(cat("says ", printable(key, 120), " again"));
  if (is_variable(key)) {
    into.values.emplace(std::move(key), std::move(value));
  } else {
    into.remarks.push_back({std::move(key), "is no setting: keys are names of NIXL_* variables"});
  }
  return {};
}

std::optional<std::string> value_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

Result<ConfigFile> read_file(const std::string& path) {
  TOWPATH_TRY(const std::string text, sys::read_text_file(path));
  return parse_config_file(text, path);
}

/// Of a service that has another user's HOME, say. What is in there is not for this one.
bool is_closed_to_us(const std::string& folder) {
  return ::faccessat(AT_FDCWD, folder.c_str(), X_OK, AT_EACCESS) != 0 && errno == EACCES;
}

}  // namespace

std::string ConfigFile::place_of(std::string_view key) const {
  const auto line = lines.find(key);
  return line == lines.end() ? std::string() : cat(printable(path, 256), ":", line->second);
}

Result<ConfigFile> parse_config_file(std::string_view text, std::string path) {
  ConfigFile file{.path = std::move(path)};
  for (std::uint32_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    skip_blanks(line);
    if (is_over(line)) continue;
    if (line.starts_with('[')) {
      const std::string table(sys::trimmed(line));
      file.lines.emplace(table, number);
      file.remarks.push_back({table, "and what follows is not read: settings are in no table"});
      break;
    }
    TOWPATH_TRY(take_line(line, number, file));
  }
  return file;
}

Result<ConfigFile> read_config_file(const Environment& environment,
                                    const std::string& system_file) {
  for (const char* name : {"TOWPATH_CONFIG_FILE", "NIXL_CONFIG_FILE"}) {
    const auto path = value_of(environment, name);
    if (!path) continue;
    auto file = read_file(*path);
    if (file.code() != Code::not_found) return file;
    return error(Code::not_found, cat(name, "='", printable(*path, 256), "' is not there"),
                 "name a file, or unset it");
  }
  const auto home = value_of(environment, "HOME");
  const bool is_closed = home && is_closed_to_us(*home);
  if (home && !is_closed) {
    auto file = read_file(cat(*home, "/.nixl.cfg"));
    if (file.code() != Code::not_found) return file;
  }
  auto file = read_file(system_file);
  if (file.code() == Code::not_found) file = ConfigFile();
  if (file.ok() && is_closed)
    file->remarks.push_back({"HOME", "is closed to this user: no .nixl.cfg is looked for in it"});
  return file;
}

}  // namespace towpath::standard
