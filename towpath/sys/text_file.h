// What the kernel reports in small text files and directories (/proc, /sys): read whole and
// bounded. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::sys {

inline constexpr std::size_t kMaxTextFile = 65536;

/// The content. Errors: not_found, denied, corrupt (longer than `max_bytes`), io_error.
Result<std::string> read_text_file(const std::string& path, std::size_t max_bytes = kMaxTextFile);

/// The names in a directory, ascending, but those that begin with a dot; none where it is not.
std::vector<std::string> names_in(const std::string& directory);

/// Without the white space around it.
std::string_view trimmed(std::string_view text) noexcept;

/// The whole text as a decimal number, white space around it allowed; nothing when it is none or
/// does not fit.
std::optional<std::uint64_t> parse_number(std::string_view text) noexcept;

/// What follows `key` in its line ("VmLck:" -> "  12 kB"); nothing when no line begins so.
std::optional<std::string_view> line_after(std::string_view text, std::string_view key) noexcept;

}  // namespace towpath::sys
