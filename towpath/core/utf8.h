// Whether bytes are text in UTF-8 (RFC 3629), as formats of others want their names.
// Thread: any.
#pragma once

#include <string_view>

namespace towpath {

/// Whole characters in their shortest form, no surrogates, none beyond U+10FFFF.
bool is_utf8(std::string_view text) noexcept;

}  // namespace towpath
