// Traces of KV-cache use: what requests asked for, and which blocks of 512 tokens they share.
//
// The format is Mooncake's (FAST'25): a JSON object per line,
//   {"timestamp": 27, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}
// where an equal id means an equal prefix up to and including that block. Other keys are skipped.
// trace_reader.h reads files of these and of other formats.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/result.h>

namespace towpath::traces {

struct Request {
  std::uint64_t timestamp_ms = 0;
  std::uint64_t input_length = 0;   ///< tokens
  std::uint64_t output_length = 0;  ///< tokens
  std::vector<std::uint64_t> hash_ids;

  friend bool operator==(const Request&, const Request&) = default;
};

inline constexpr std::size_t kMaxTraceLine = std::size_t{1} << 20U;
inline constexpr std::size_t kMaxHashIds = 65536;

/// In which unit a line reports its timestamp.
enum class TraceTime : std::uint8_t { milliseconds, seconds };

/// Errors: corrupt, with the column.
Result<Request> parse_request(std::string_view line, TraceTime unit = TraceTime::milliseconds);
/// One line, without its end.
std::string format_request(const Request& request);

/// Where requests come from: a file or a generator.
class RequestSource {
 public:
  virtual ~RequestSource() = default;
  /// Nothing at the end. Errors: corrupt (with file, line, column), io_error.
  virtual Result<std::optional<Request>> next() = 0;
};

}  // namespace towpath::traces
