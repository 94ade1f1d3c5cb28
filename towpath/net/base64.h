// Base64 (RFC 4648, with padding): any bytes as text, for JSON. Thread: any.
#pragma once

#include <string>
#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

namespace towpath::net {

std::string to_base64(ConstByteSpan bytes);
/// Errors: corrupt (another letter, length or padding than to_base64() writes).
Result<Bytes> from_base64(std::string_view text);

}  // namespace towpath::net
