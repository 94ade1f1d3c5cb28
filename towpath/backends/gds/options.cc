#include <algorithm>

#include <towpath/backends/gds/options.h>

namespace towpath::backends::gds {
namespace {

struct Bounds {
  std::uint64_t low;
  std::uint64_t high;
};
constexpr Bounds kThreads{1, 64};
constexpr Bounds kBatch{2, 128};  // the library's own limit by default
constexpr Bounds kChunk{4096, 1ULL << 30U};

class Reader {
 public:
  explicit Reader(const backend::Params& params) : params_(params) {}

  Status number(const std::string& name, Bounds bounds, std::uint64_t& into) const {
    const auto found = params_.find(name);
    if (found == params_.end()) return {};
    const auto value = parse_bytes(found->second);
    if (!value.ok() || *value < bounds.low || *value > bounds.high)
      return refuse(name, found->second, cat("use ", bounds.low, " to ", bounds.high));
    into = *value;
    return {};
  }
  /// One of the words, which stand in the order of the values.
  template <typename Value>
  Status word(const std::string& name, std::initializer_list<std::string_view> words,
              Value& into) const {
    const auto found = params_.find(name);
    if (found == params_.end()) return {};
    const auto* const word = std::ranges::find(words, found->second);
    std::string all;
    for (const std::string_view one : words) all += cat(all.empty() ? "use " : " or ", one);
    if (word == words.end()) return refuse(name, found->second, std::move(all));
    into = static_cast<Value>(word - words.begin());
    return {};
  }
  std::string text(const std::string& name) const {
    const auto found = params_.find(name);
    return found == params_.end() ? std::string() : found->second;
  }

 private:
  static Status refuse(const std::string& name, const std::string& value, std::string hint) {
    return error(Code::invalid_argument, cat("gds: ", name, "='", printable(value), "'"),
                 std::move(hint));
  }

  const backend::Params& params_;
};

/// "/mnt/a:/mnt/b".
std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(':'), text.size());
    if (end != 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

}  // namespace

Result<BackendOptions> BackendOptions::parse(const backend::Params& params) {
  const Reader read(params);
  BackendOptions options;
  std::uint64_t threads = options.threads;
  std::uint64_t batch = options.batch_limit;
  TOWPATH_TRY(read.word("engine", {"threads", "batch", "stream"}, options.engine));
  TOWPATH_TRY(read.number("thread_count", kThreads, threads));
  TOWPATH_TRY(read.number("batch_limit", kBatch, batch));
  TOWPATH_TRY(read.number("chunk_bytes", kChunk, options.chunk_bytes));
  TOWPATH_TRY(read.word("compat", {"refuse", "allow"}, options.compat));
  options.threads = static_cast<std::uint32_t>(threads);
  options.batch_limit = static_cast<std::uint32_t>(batch);
  options.directories = split(read.text("directories"));
  options.library = read.text("library");
  return options;
}

std::vector<backend::ParamInfo> BackendOptions::describe() {
  return {
      {"engine", "threads",
       "threads: a call per I/O; batch: one for many; stream: in the order of the GPU's streams"},
      {"thread_count", "8", "threads that call libcufile, or streams of each GPU"},
      {"batch_limit", "64", "I/Os of a batch"},
      {"chunk_bytes", "16M", "of the largest I/O"},
      {"compat", "refuse",
       "allow: where the direct ways do not work, libcufile may stage through host memory"},
      {"directories", "", "A:B: decide about these when the backend opens, and report"},
      {"library", "", "libcufile, as dlopen(3) takes it; empty: libcufile.so.0"}};
}

}  // namespace towpath::backends::gds
