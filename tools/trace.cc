// `towpath trace generate|info`: makes traces of KV-cache use, and says what one holds.
#include "tools/traces/trace.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include <nlohmann/json.hpp>

#include <towpath/core/format.h>
#include <towpath/sys/file.h>

#include "tools/command.h"
#include "tools/output.h"
#include "tools/table.h"
#include "tools/traces/trace_generator.h"
#include "tools/traces/trace_reader.h"
#include "tools/traces/trace_stats.h"
#include "tools/units.h"

namespace towpath::tools {
namespace {

// Generate ----------------------------------------------------------------------------------------

struct GenerateOptions {
  traces::GeneratorOptions generator;
  std::string output = "-";
};

constexpr const char* kGenerateFooter = R"(The same options give the same bytes on every machine.

Examples:
  towpath trace generate -o day.jsonl
  towpath trace generate --requests 200 --length-scale 0.25 --seed 7 -o small.jsonl
  towpath trace generate --requests 5 | head)";

Result<Exit> generate(const GenerateOptions& options) {
  TOWPATH_TRY(Output out, Output::open(options.output));
  traces::TraceGenerator generator(options.generator);
  while (true) {
    TOWPATH_TRY(const std::optional<traces::Request> request, generator.next());
    if (!request) break;
    TOWPATH_TRY(out.write(traces::format_request(*request) + "\n"));
  }
  TOWPATH_TRY(out.close());
  return Exit::ok;
}

void add_generate(Command& trace) {
  Command command = trace.add("generate", "Make a trace of the published shape");
  const auto options = std::make_shared<GenerateOptions>();
  traces::GeneratorOptions& made = options->generator;
  command.option("--requests", made.requests, "How many")
      .whole(1)
      .takes(cat("N [", made.requests, "]"));
  command.option("--seed", made.seed, "Another seed, another trace")
      .whole()
      .takes(cat("N [", made.seed, "]"));
  command.option("--length-scale", made.length_scale, "Makes prompts longer or shorter")
      .between(0.001, 100.0)
      .takes(cat("FACTOR [", made.length_scale, "]"));
  command.option("--follow-up", made.follow_up, "Share that goes on with an earlier session")
      .between(0.0, 1.0)
      .takes(cat("SHARE [", made.follow_up, "]"));
  command.output("-o,--output", options->output, "File to write; - is standard output")
      .takes("FILE [-]");
  command.footer(kGenerateFooter);
  command.when_chosen([options] { return generate(*options); });
}

// Info --------------------------------------------------------------------------------------------

struct InfoOptions {
  std::string trace;
  std::string format;
  std::string json;
};

constexpr const char* kInfoFooter = R"(Formats, by their first line or by name:
  mooncake  {"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [...]}
            where an equal id means an equal prefix of the prompt, up to and including that block
  bailian   the same with chat_id and more; seconds; an id per 16 tokens
  azure     TIMESTAMP,ContextTokens,GeneratedTokens
  burstgpt  Timestamp,...,Request tokens,Response tokens,...
The last two name no blocks: each prompt is taken for new.

Examples:
  towpath trace info day.jsonl
  towpath trace info day.jsonl --json - | jq .infinite_cache_hit_ratio)";

/// Requests by number of blocks, in steps of two: 0, 1, 2-3, 4-7, ...
class BlockHistogram {
 public:
  void add(std::uint64_t blocks) { ++counts_[static_cast<std::size_t>(std::bit_width(blocks))]; }

  struct Bucket {
    std::uint64_t low = 0;
    std::uint64_t high = 0;  ///< included
    std::uint64_t requests = 0;
  };
  /// From the first to the last that is not empty.
  std::vector<Bucket> buckets() const {
    std::vector<Bucket> all;
    std::size_t used = 0;
    for (std::size_t width = 0; width < counts_.size(); ++width) {
      if (counts_[width] == 0 && all.empty()) continue;
      const std::uint64_t low = width == 0 ? 0 : std::uint64_t{1} << (width - 1);
      all.push_back({low, width == 0 ? 0 : low + (low - 1), counts_[width]});
      if (counts_[width] != 0) used = all.size();
    }
    all.resize(used);
    return all;
  }

 private:
  std::array<std::uint64_t, 65> counts_{};  // by bit width
};

struct Info {
  traces::TraceFormat format = traces::TraceFormat::mooncake;
  traces::TraceStats::Summary summary;
  std::vector<BlockHistogram::Bucket> histogram;
};

Result<Info> read_info(const InfoOptions& options) {
  sys::SystemFileSystem files;
  std::optional<traces::TraceFormat> format;
  if (!options.format.empty()) {
    TOWPATH_TRY(format, traces::trace_format_named(options.format));
  }
  TOWPATH_TRY(const auto reader, traces::TraceReader::open(files, options.trace, format));
  traces::TraceStats stats;
  BlockHistogram histogram;
  while (true) {
    TOWPATH_TRY(const std::optional<traces::Request> request, reader->next());
    if (!request) break;
    stats.add(*request);
    histogram.add(request->hash_ids.size());
  }
  return Info{reader->format(), stats.summary(), histogram.buckets()};
}

/// A trace may report any times: of more than nanoseconds can count, whole seconds.
std::string length_text(double seconds) {
  constexpr double kMost = 9e9;
  if (seconds > kMost) return cat(grouped(static_cast<std::uint64_t>(seconds)), " s");
  return duration_text(
      std::chrono::nanoseconds(static_cast<std::int64_t>(std::llround(seconds * 1e9))));
}

std::string summary_text(const Info& info, Colours colours) {
  const traces::TraceStats::Summary& summary = info.summary;
  Table table({{""}, {"", Align::right}, {""}});
  const auto count = [&](const char* what, std::uint64_t number, const char* unit) {
    table.add({what, grouped(number), unit});
  };
  const auto mean = [&](const char* what, double number, const char* unit) {
    constexpr double kMost = 9e18;  // of 63 bits
    table.add(
        {what,
         number < kMost ? grouped(static_cast<std::uint64_t>(std::llround(number))) : cat(number),
         unit});
  };
  count("requests", summary.requests, "");
  table.add({"format", std::string(name_of(info.format)),
             traces::names_blocks(info.format)
                 ? cat(traces::tokens_per_block(info.format), " tokens a block")
                 : "names no blocks: none is shared"});
  table.add({"duration", length_text(summary.duration_s)});
  count("arrival times", summary.distinct_timestamps, "distinct");
  count("largest burst", summary.max_arrivals_at_once, "requests at once");
  mean("prompt, mean", summary.prompt_mean, "tokens");
  count("prompt, median", summary.prompt_p50, "tokens");
  count("prompt, 99th percentile", summary.prompt_p99, "tokens");
  count("prompt, longest", summary.prompt_max, "tokens");
  mean("output, mean", summary.output_mean, "tokens");
  count("blocks asked for", summary.block_references, "");
  count("blocks, distinct", summary.distinct_blocks, "");
  count("blocks, median", summary.blocks_p50, "per request");
  count("blocks, 99th percentile", summary.blocks_p99, "per request");
  count("blocks, most", summary.blocks_max, "per request");
  table.add({"hit ratio", percent(summary.infinite_cache_hit_ratio), "with room for all blocks"});
  return table.text(colours);
}

std::string histogram_text(const Info& info, Colours colours) {
  constexpr std::uint64_t kLongestBar = 40;
  std::uint64_t most = 1;
  for (const auto& bucket : info.histogram) most = std::max(most, bucket.requests);
  Table table({{"blocks", Align::right}, {"requests", Align::right}, {""}});
  for (const auto& bucket : info.histogram) {
    const std::string range =
        bucket.low == bucket.high ? cat(bucket.low) : cat(bucket.low, "-", bucket.high);
    const auto bar = static_cast<std::size_t>((bucket.requests * kLongestBar + most - 1) / most);
    table.add({range, grouped(bucket.requests), std::string(bar, '#')});
  }
  return table.text(colours);
}

nlohmann::ordered_json to_json(const Info& info) {
  const traces::TraceStats::Summary& summary = info.summary;
  nlohmann::ordered_json histogram = nlohmann::ordered_json::array();
  for (const auto& bucket : info.histogram)
    histogram.push_back(
        {{"low", bucket.low}, {"high", bucket.high}, {"requests", bucket.requests}});
  return {{"format", name_of(info.format)},
          {"names_blocks", traces::names_blocks(info.format)},
          {"tokens_per_block", traces::tokens_per_block(info.format)},
          {"requests", summary.requests},
          {"duration_s", summary.duration_s},
          {"distinct_timestamps", summary.distinct_timestamps},
          {"max_arrivals_at_once", summary.max_arrivals_at_once},
          {"prompt_tokens",
           {{"mean", summary.prompt_mean},
            {"p50", summary.prompt_p50},
            {"p99", summary.prompt_p99},
            {"max", summary.prompt_max}}},
          {"output_tokens", {{"mean", summary.output_mean}}},
          {"block_references", summary.block_references},
          {"distinct_blocks", summary.distinct_blocks},
          {"blocks_per_request",
           {{"p50", summary.blocks_p50},
            {"p99", summary.blocks_p99},
            {"max", summary.blocks_max},
            {"histogram", std::move(histogram)}}},
          {"infinite_cache_hit_ratio", summary.infinite_cache_hit_ratio}};
}

Result<Exit> report_info(const InfoOptions& options) {
  TOWPATH_TRY(const Info info, read_info(options));
  if (!options.json.empty()) TOWPATH_TRY(write_json(options.json, to_json(info)));
  if (options.json == "-") return Exit::ok;
  TOWPATH_TRY(Output out, Output::open("-"));
  const Colours colours = out.is_terminal() ? Colours::yes : Colours::no;
  TOWPATH_TRY(out.write(summary_text(info, colours)));
  if (!info.histogram.empty()) TOWPATH_TRY(out.write("\n" + histogram_text(info, colours)));
  TOWPATH_TRY(out.close());
  return Exit::ok;
}

void add_info(Command& trace) {
  Command command = trace.add("info", "Report what a trace holds");
  const auto options = std::make_shared<InfoOptions>();
  command.option("file", options->trace, "The trace").required().takes(" ");
  command.option("--format", options->format, "Of the trace; its first line shows it")
      .takes("NAME");
  command.output("--json", options->json, "The same for programs; - is standard output");
  command.footer(kInfoFooter);
  command.when_chosen([options] { return report_info(*options); });
}

}  // namespace

void add_trace(Command& towpath) {
  Command command = towpath.add("trace", "Traces of KV-cache use: make, look at");
  command.needs_one();
  command.footer("`towpath trace generate --help` and `towpath trace info --help` say more.");
  add_generate(command);
  add_info(command);
}

}  // namespace towpath::tools
