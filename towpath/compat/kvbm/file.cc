#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include <towpath/compat/kvbm/file.h>
#include <towpath/core/format.h>
#include <towpath/sys/text_file.h>

namespace towpath::kvbm {
namespace {

constexpr std::size_t kMostTables = 16;  // one in another

// ---- TOML: each takes what it reads off `rest`; nothing: it is not written so ----

bool is_quote(char c) { return c == '"' || c == '\''; }

/// As it is written, with its quotes, or up to where `ends` says.
template <typename Ends>
std::string_view take_until(std::string_view& rest, Ends ends) {
  std::size_t at = 0;
  for (char quote = 0; at < rest.size() && (quote != 0 || !ends(rest[at])); ++at) {
    if (quote == 0 && is_quote(rest[at])) {
      quote = rest[at];
    } else if (rest[at] == quote) {
      quote = 0;
    } else if (quote == '"' && rest[at] == '\\') {
      at = std::min(at + 1, rest.size() - 1);
    }
  }
  const std::string_view taken = rest.substr(0, at);
  rest.remove_prefix(at);
  return sys::trimmed(taken);
}

/// A word or a quoted one, without escapes: names of settings have none.
std::optional<std::string> key_of(std::string_view part) {
  if (part.size() >= 2 && is_quote(part.front()) && part.back() == part.front())
    part = part.substr(1, part.size() - 2);
  const bool is_word = std::ranges::all_of(
      part, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
  if (part.empty() || !is_word) return std::nullopt;
  return std::string(part);
}

/// "a.b.c", behind `table`.
std::optional<std::string> path_of(std::string table, std::string_view dotted) {
  while (true) {
    const auto key = key_of(take_until(dotted, [](char c) { return c == '.'; }));
    if (!key) return std::nullopt;
    table += cat(table.empty() ? "" : ".", *key);
    if (dotted.empty()) return table;
    dotted.remove_prefix(1);
  }
}

std::optional<std::string> text_of(std::string_view quoted) {
  std::string text;
  for (std::size_t at = 1; at + 1 < quoted.size(); ++at) {
    if (quoted[at] == quoted.front()) return std::nullopt;
    if (quoted[at] == '\\' && quoted.front() == '"') {
      if (++at + 1 >= quoted.size() || (quoted[at] != '"' && quoted[at] != '\\'))
        return std::nullopt;
    }
    text.push_back(quoted[at]);
  }
  return text;
}

/// Its letters are examined; what it is, is the business of who takes it.
std::optional<std::string> plain_of(std::string_view word) {
  std::string value;
  for (const char c : word) {
    const auto letter = static_cast<unsigned char>(c);
    if (c == '_') continue;  // 1_000
    if (std::isalnum(letter) == 0 && c != '.' && c != '+' && c != '-') return std::nullopt;
    value.push_back(c);
  }
  if (value.empty()) return std::nullopt;
  return value;
}

std::optional<std::string> value_of(std::string_view written) {
  if (written.empty()) return std::nullopt;
  const char last = written.back();
  switch (written.front()) {
    case '"':
    case '\'':
      if (written.size() < 2 || last != written.front()) return std::nullopt;
      return text_of(written);
    case '[': return last == ']' ? std::optional<std::string>(written) : std::nullopt;
    case '{': return last == '}' ? std::optional<std::string>(written) : std::nullopt;
    default: return plain_of(written);
  }
}

/// The table that a line begins; nothing: it is none.
std::optional<std::string> table_of(std::string_view line) {
  if (line.starts_with("[[") || !line.starts_with('[') || !line.ends_with(']')) return std::nullopt;
  return path_of("", line.substr(1, line.size() - 2));
}

std::optional<Setting> setting_of(const std::string& table, std::string_view line) {
  const std::string_view keys = take_until(line, [](char c) { return c == '='; });
  if (line.empty()) return std::nullopt;
  auto path = path_of(table, keys);
  auto value = value_of(sys::trimmed(line.substr(1)));
  if (!path || !value) return std::nullopt;
  return Setting{*std::move(path), *std::move(value), ""};
}

// ---- JSON ----

using Json = nlohmann::json;

Status flatten(const Json& object, const std::string& above, const std::string& name,
               std::size_t depth, std::vector<Setting>& into) {
  if (depth == kMostTables)
    return error(Code::invalid_argument, cat(name, " is nested deeper than ", kMostTables));
  for (const auto& [key, value] : object.items()) {
    const std::string path = cat(above, above.empty() ? "" : ".", key);
    if (value.is_object() && !value.empty()) {
      TOWPATH_TRY(flatten(value, path, name, depth + 1, into));
    } else if (!value.is_null()) {
      into.push_back({path, value.is_string() ? value.get<std::string>() : value.dump(), name});
    }
  }
  return {};
}

/// Depth of brackets, strings aside: who parses goes as deep.
bool is_too_deep(std::string_view text) {
  std::size_t depth = 0;
  while (!text.empty()) {
    (void)take_until(text, [](char c) { return c == '{' || c == '[' || c == '}' || c == ']'; });
    if (text.empty()) return false;
    const bool opens = text.front() == '{' || text.front() == '[';
    if (opens && ++depth > kMostTables) return true;
    if (!opens && depth > 0) --depth;
    text.remove_prefix(1);
  }
  return false;
}

}  // namespace

Result<std::vector<Setting>> parse_kvbm_toml(std::string_view text, const std::string& name) {
  std::vector<Setting> settings;
  std::set<std::string> seen;
  std::string table;
  for (std::uint32_t number = 1; !text.empty(); ++number) {
    std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(whole.size() + 1, text.size()));
    const std::string_view line = take_until(whole, [](char c) { return c == '#'; });
    if (line.empty()) continue;
    const std::string place = cat(printable(name, 256), ":", number);
    const auto refuse = [&](std::string_view why) {
      return error(
          Code::invalid_argument, cat(place, " ", why),
          "write [a.table], or key = \"text\", a number, true, false or a list, on a line");
    };
    if (auto begun = table_of(line)) {
      table = *std::move(begun);
      continue;
    }
    auto setting = setting_of(table, line);
    if (!setting)  // what stands behind the '=' may be a secret
      return refuse(cat("cannot be read: '", printable(line.substr(0, line.find('=')), 120), "'"));
    if (!seen.insert(setting->path).second)
      return refuse(cat("says ", printable(setting->path, 120), " again"));
    setting->place = place;
    settings.push_back(*std::move(setting));
  }
  return settings;
}

Result<std::vector<Setting>> parse_kvbm_json(std::string_view text, const std::string& name) {
  const Json json = is_too_deep(text) ? Json() : Json::parse(text, nullptr, false);
  if (!json.is_object())
    return error(Code::invalid_argument, cat(printable(name, 256), " is no JSON object"),
                 cat("write {\"cache\": {\"host\": {\"cache_size_gb\": 4.0}}}, at most ",
                     kMostTables, " deep"));
  std::vector<Setting> settings;
  TOWPATH_TRY(flatten(json, "", printable(name, 256), 0, settings));
  return settings;
}

}  // namespace towpath::kvbm
