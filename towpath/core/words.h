// Words: a text taken apart, one word after the other. Thread: immutable.
#pragma once

#include <algorithm>
#include <string_view>

namespace towpath {

/// Takes the first word off `rest`: what stands before any of `separators`, of which those in front
/// are passed over. Empty: there is none.
inline std::string_view next_word(std::string_view& rest, std::string_view separators) noexcept {
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(separators)));
  const std::string_view word = rest.substr(0, rest.find_first_of(separators));
  rest.remove_prefix(word.size());
  return word;
}

}  // namespace towpath
