#include "tools/traces/trace_format.h"

#include <algorithm>
#include <charconv>

#include <towpath/core/format.h>

namespace towpath::traces {
namespace {

constexpr TraceFormat kFormats[] = {TraceFormat::mooncake, TraceFormat::bailian, TraceFormat::azure,
                                    TraceFormat::burstgpt};

bool all_digits(std::string_view text) {
  return std::ranges::all_of(text, [](char letter) { return letter >= '0' && letter <= '9'; });
}

}  // namespace

std::string_view name_of(TraceFormat format) noexcept {
  switch (format) {
    case TraceFormat::mooncake: return "mooncake";
    case TraceFormat::bailian: return "bailian";
    case TraceFormat::azure: return "azure";
    case TraceFormat::burstgpt: return "burstgpt";
  }
  return "unknown";
}

Result<TraceFormat> trace_format_named(std::string_view name) {
  for (const TraceFormat format : kFormats)
    if (name_of(format) == name) return format;
  return error(Code::invalid_argument, cat("no format of traces is called '", printable(name), "'"),
               "use mooncake, bailian, azure or burstgpt");
}

std::uint64_t tokens_per_block(TraceFormat format) noexcept {
  return format == TraceFormat::bailian ? 16 : 512;
}

bool names_blocks(TraceFormat format) noexcept {
  return format == TraceFormat::mooncake || format == TraceFormat::bailian;
}

std::optional<TraceFormat> format_of(std::string_view line) noexcept {
  const auto has = [line](std::string_view part) {
    return line.find(part) != std::string_view::npos;
  };
  const std::size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return std::nullopt;
  if (line[first] == '{') return has("\"chat_id\"") ? TraceFormat::bailian : TraceFormat::mooncake;
  if (has("ContextTokens")) return TraceFormat::azure;
  if (has("Request tokens")) return TraceFormat::burstgpt;
  return std::nullopt;
}

std::optional<std::uint64_t> milliseconds_of(std::string_view seconds) noexcept {
  const std::size_t point = std::min(seconds.find('.'), seconds.size());
  const std::string_view whole = seconds.substr(0, point);
  std::string_view fraction = seconds.substr(std::min(point + 1, seconds.size()));
  if (whole.empty() || !all_digits(whole) || !all_digits(fraction)) return std::nullopt;
  std::uint64_t value = 0;
  if (std::from_chars(whole.data(), whole.data() + whole.size(), value).ec != std::errc())
    return std::nullopt;
  for (int digit = 0; digit < 3; ++digit) {
    const std::uint64_t next = digit < static_cast<int>(fraction.size())
                                   ? static_cast<std::uint64_t>(fraction[digit] - '0')
                                   : 0;
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value) ||
        __builtin_add_overflow(value, next, &value))
      return std::nullopt;
  }
  return value;
}

}  // namespace towpath::traces
