// What an S3 store answers in XML, as far as we need it: the name of the outermost element, and the
// text of those directly inside of it; where a list is awaited, also of those inside its items.
//
//   <Error><Code>NoSuchKey</Code><Key>a&amp;b</Key></Error>   ->   "Error", {Code: NoSuchKey, ...}
//
// It is no parser of XML in general: no name spaces, no entities but the five of XML and numbers,
// and a document type is refused. The text comes from outside: bounded, fuzzed.
// Thread: any.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::backends::object {

/// By name; of several of a name, the first.
using XmlFields = std::map<std::string, std::string, std::less<>>;

/// Empty when there is none.
inline std::string_view field_of(const XmlFields& fields, std::string_view wanted) {
  const auto found = fields.find(wanted);
  return found == fields.end() ? std::string_view() : std::string_view(found->second);
}

struct XmlElement {
  std::string name;
  XmlFields fields;
  std::vector<XmlFields> items;  ///< of the elements that a list was awaited of, in order

  std::string_view field(std::string_view wanted) const { return field_of(fields, wanted); }
};

inline constexpr std::size_t kMaxXmlBytes = std::size_t{256} << 10U;
inline constexpr std::size_t kMaxXmlDepth = 16;

/// `item`: of what a list is awaited; empty: of nothing. Errors: corrupt.
Result<XmlElement> parse_xml(std::string_view text, std::string_view item = {});

/// As text between tags.
std::string escape_xml(std::string_view text);

}  // namespace towpath::backends::object
