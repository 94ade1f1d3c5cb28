#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include <towpath/backends/object/xml.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {
namespace {

struct Entity {
  std::string_view name;
  char letter;
};
constexpr std::array<Entity, 5> kEntities = {
    {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};

std::optional<char> letter_of(std::string_view entity) {
  for (const Entity& known : kEntities)
    if (known.name == entity) return known.letter;
  if (!entity.starts_with('#')) return std::nullopt;
  entity.remove_prefix(1);
  const int base = entity.starts_with('x') ? 16 : 10;
  if (base == 16) entity.remove_prefix(1);
  unsigned value = 0;
  const auto [end, failed] =
      std::from_chars(entity.data(), entity.data() + entity.size(), value, base);
  if (failed != std::errc() || end != entity.data() + entity.size() || value == 0 || value > 127)
    return std::nullopt;
  return static_cast<char>(value);
}

/// What is no entity that we know stays as it is: the text is for people, or compared as a whole.
std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto begin = text.find('&');
    out += text.substr(0, begin);
    if (begin == std::string_view::npos) break;
    const auto end = text.find(';', begin);
    const auto letter = end == std::string_view::npos
                            ? std::nullopt
                            : letter_of(text.substr(begin + 1, end - begin - 1));
    out.push_back(letter.value_or('&'));
    text.remove_prefix(letter ? end + 1 : begin + 1);
  }
  return out;
}

class XmlReader {
 public:
  XmlReader(std::string_view text, std::string_view item) : left_(text), item_(item) {}

  Result<XmlElement> read() {
    while (!done_) TOWPATH_TRY(step());
    return std::move(root_);
  }

 private:
  static Status refuse(std::string why) { return error(Code::corrupt, "XML: " + std::move(why)); }

  bool is_in_item() const { return !item_.empty() && open_.size() >= 2 && open_[1] == item_; }
  /// Whether the innermost open element is one whose text is wanted.
  bool is_field() const { return open_.size() == (is_in_item() ? 3 : 2); }

  // One tag and the text before it.
  Status step() {
    const auto begin = left_.find('<');
    const auto end = left_.find('>', begin == std::string_view::npos ? 0 : begin);
    if (begin == std::string_view::npos || end == std::string_view::npos)
      return refuse(open_.empty() ? "no element" : cat("'", open_.back(), "' does not end"));
    if (is_field()) text_ += left_.substr(0, begin);
    const std::string_view tag = left_.substr(begin + 1, end - begin - 1);
    left_.remove_prefix(end + 1);
    if (tag.starts_with('?')) return {};  // the declaration
    if (tag.empty() || tag.starts_with('!')) return refuse("a document type, or no tag");
    if (tag.starts_with('/')) return close(tag.substr(1));
    const bool is_empty = tag.ends_with('/');
    const std::string_view name = tag.substr(0, tag.find_first_of(" \t\r\n/"));
    TOWPATH_TRY(open(name));
    return is_empty ? close(name) : Status();
  }

  Status open(std::string_view name) {
    if (name.empty() || open_.size() == kMaxXmlDepth) return refuse("too deep, or without a name");
    if (open_.empty()) root_.name = name;
    open_.push_back(name);
    if (open_.size() == 2 && is_in_item()) root_.items.emplace_back();
    if (is_field()) text_.clear();
    return {};
  }

  Status close(std::string_view name) {
    name = name.substr(0, name.find_first_of(" \t\r\n"));
    if (open_.empty() || open_.back() != name)
      return refuse(cat("'", printable(name), "' ends what did not begin"));
    if (is_field())
      (is_in_item() ? root_.items.back() : root_.fields).emplace(name, unescaped(text_));
    open_.pop_back();
    done_ = open_.empty();
    return {};
  }

  std::string_view left_;
  const std::string_view item_;
  std::vector<std::string_view> open_;
  std::string text_;
  XmlElement root_;
  bool done_ = false;
};

}  // namespace

Result<XmlElement> parse_xml(std::string_view text, std::string_view item) {
  if (text.size() > kMaxXmlBytes)
    return error(Code::corrupt, cat("XML: ", text.size(), " bytes, and at most ", kMaxXmlBytes));
  return XmlReader(text, item).read();
}

std::string escape_xml(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    bool found = false;
    for (const Entity& known : kEntities) {
      if (known.letter != letter) continue;
      out += cat("&", known.name, ";");
      found = true;
    }
    if (!found) out.push_back(letter);
  }
  return out;
}

}  // namespace towpath::backends::object
