#include "tools/traces/trace.h"

#include <algorithm>
#include <charconv>

#include <towpath/core/format.h>

#include "tools/traces/trace_format.h"

namespace towpath::traces {
namespace {

constexpr int kMaxDepth = 16;

/// A strict reader of one flat JSON object; remembers where it stands.
class LineParser {
 public:
  LineParser(std::string_view line, TraceTime unit) : line_(line), unit_(unit) {}

  Result<Request> parse() {
    Request request;
    unsigned seen = 0;
    TOWPATH_TRY(expect('{'));
    if (!accept('}')) {
      do {
        TOWPATH_TRY(const std::string_view key, text());
        TOWPATH_TRY(expect(':'));
        TOWPATH_TRY(member(key, request, seen));
      } while (accept(','));
      TOWPATH_TRY(expect('}'));
    }
    skip_space();
    if (at_ != line_.size()) return fault("something follows the object");
    if ((seen & 7U) != 7U) return fault("timestamp, input_length or hash_ids is missing");
    return request;
  }

 private:
  Status fault(std::string_view what) const {
    return error(Code::corrupt, cat("column ", at_ + 1, ": ", what));
  }

  void skip_space() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r'))
      ++at_;
  }
  bool accept(char wanted) {
    skip_space();
    if (at_ == line_.size() || line_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  Status expect(char wanted) {
    if (accept(wanted)) return {};
    return fault(cat("expected '", wanted, "'"));
  }

  Status once(unsigned bit, unsigned& seen) const {
    if ((seen & bit) != 0) return fault("a key stands twice");
    seen |= bit;
    return {};
  }

  Status member(std::string_view key, Request& request, unsigned& seen) {
    if (key == "timestamp") {
      TOWPATH_TRY(once(1, seen));
      return unit_ == TraceTime::seconds ? seconds(request.timestamp_ms)
                                         : number(request.timestamp_ms);
    }
    if (key == "input_length") {
      TOWPATH_TRY(once(2, seen));
      return number(request.input_length);
    }
    if (key == "hash_ids") {
      TOWPATH_TRY(once(4, seen));
      return hash_ids(request.hash_ids);
    }
    if (key == "output_length") {
      TOWPATH_TRY(once(8, seen));
      return number(request.output_length);
    }
    return skip_value(0);
  }

  Status number(std::uint64_t& into) {
    skip_space();
    const char* const begin = line_.data() + at_;
    const char* const end = line_.data() + line_.size();
    const auto [rest, failed] = std::from_chars(begin, end, into);
    if (failed != std::errc()) return fault("expected a whole number of at most 64 bits");
    at_ += static_cast<std::size_t>(rest - begin);
    // Traces made by tools in floating point write 27000.0; a fraction that is not 0 is a fault.
    if (at_ < line_.size() && line_[at_] == '.') {
      do ++at_;
      while (at_ < line_.size() && line_[at_] == '0');
    }
    if (at_ < line_.size() &&
        (std::string_view("0123456789.eE").find(line_[at_]) != std::string_view::npos))
      return fault("expected a whole number");
    return {};
  }

  Status seconds(std::uint64_t& into_ms) {
    skip_space();
    const std::size_t begin = at_;
    at_ = std::min(line_.find_first_not_of("0123456789.", at_), line_.size());
    const auto ms = milliseconds_of(line_.substr(begin, at_ - begin));
    if (!ms) return fault("expected seconds, with or without a fraction");
    into_ms = *ms;
    return {};
  }

  Status hash_ids(std::vector<std::uint64_t>& into) {
    TOWPATH_TRY(expect('['));
    if (accept(']')) return {};
    do {
      if (into.size() == kMaxHashIds) return fault(cat("more than ", kMaxHashIds, " hash_ids"));
      std::uint64_t id = 0;
      TOWPATH_TRY(number(id));
      into.push_back(id);
    } while (accept(','));
    return expect(']');
  }

  Result<std::string_view> text() {
    TOWPATH_TRY(expect('"'));
    const std::size_t begin = at_;
    for (; at_ < line_.size() && line_[at_] != '"'; ++at_) {
      if (line_[at_] == '\\') ++at_;  // whatever is escaped is skipped
    }
    if (at_ >= line_.size()) return fault("a string has no end");
    return line_.substr(begin, at_++ - begin);
  }

  Status skip_value(int depth) {
    if (depth == kMaxDepth) return fault("nested too deep");
    skip_space();
    const char first = at_ < line_.size() ? line_[at_] : '\0';
    if (first == '"') return text().status();
    if (accept('[')) {
      if (accept(']')) return {};
      do TOWPATH_TRY(skip_value(depth + 1));
      while (accept(','));
      return expect(']');
    }
    if (accept('{')) {
      if (accept('}')) return {};
      do {
        TOWPATH_TRY(text());
        TOWPATH_TRY(expect(':'));
        TOWPATH_TRY(skip_value(depth + 1));
      } while (accept(','));
      return expect('}');
    }
    const std::size_t begin = at_;
    while (at_ < line_.size() && (std::isalnum(static_cast<unsigned char>(line_[at_])) != 0 ||
                                  line_[at_] == '-' || line_[at_] == '+' || line_[at_] == '.')) {
      ++at_;
    }
    return at_ > begin ? Status() : fault("expected a value");
  }

  std::string_view line_;
  const TraceTime unit_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Request> parse_request(std::string_view line, TraceTime unit) {
  return LineParser(line, unit).parse();
}

std::string format_request(const Request& request) {
  std::string line =
      cat("{\"timestamp\": ", request.timestamp_ms, ", \"input_length\": ", request.input_length,
          ", \"output_length\": ", request.output_length, ", \"hash_ids\": [");
  for (std::size_t i = 0; i < request.hash_ids.size(); ++i)
    line.append(cat(i == 0 ? "" : ", ", request.hash_ids[i]));
  return line.append("]}");
}

}  // namespace towpath::traces
