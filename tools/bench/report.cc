#include "tools/bench/report.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <towpath/core/format.h>

#include "tools/units.h"

namespace towpath::tools::bench {
namespace {

struct Title {
  const char* text;
  int width;
};
constexpr std::array kTitles{
    Title{"Block Size (B)", 14}, Title{"Batch Size", 10},
    Title{"B/W (GB/Sec)", 12},   Title{"Avg Lat. (us)", 13},
    Title{"Avg Prep", 9},        Title{"P99 Prep", 9},
    Title{"Avg Post", 9},        Title{"P99 Post", 9},
    Title{"Avg Tx", 10},         Title{"P99 Tx", 10},
    Title{"P50 Lat", 10},        Title{"P90 Lat", 10},
    Title{"P99 Lat", 10},        Title{"CPU %", 7},
    Title{"Peer CPU %", 10},     Title{"Data", 5},
};

std::string micro(double nanoseconds) { return fmt::format("{:.2f}", nanoseconds / 1000); }

std::string share(Duration cpu, Duration wall) {
  if (wall.count() <= 0 || cpu.count() <= 0) return "-";
  return fmt::format("{:.0f}",
                     100.0 * static_cast<double>(cpu.count()) / static_cast<double>(wall.count()));
}

std::string_view verdict_of(const Row& row) {
  if (!row.verified) return "-";
  return row.wrong.empty() ? "ok" : "WRONG";
}

nlohmann::ordered_json to_json(const Spread& spread) {
  return {{"mean", spread.mean}, {"p50", spread.p50},   {"p90", spread.p90},
          {"p99", spread.p99},   {"p999", spread.p999}, {"max", spread.max}};
}

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json out{{"block_size", row.shape.block_bytes},
                             {"batch_size", row.shape.batch},
                             {"iterations", row.iterations},
                             {"bytes", row.bytes},
                             {"segments", row.segments},
                             {"wall_ns", row.wall.count()},
                             {"bytes_per_second", row.bytes_per_second()},
                             {"average_latency_ns", row.average_latency_ns()},
                             {"prepare_ns", to_json(row.prepare)},
                             {"post_ns", to_json(row.post)},
                             {"transfer_ns", to_json(row.transfer)},
                             {"latency_ns", to_json(row.latency)},
                             {"cpu_ns", row.cpu.count()},
                             {"target_cpu_ns", row.target_cpu.count()},
                             {"verified", row.verified && row.wrong.empty()}};
  if (!row.wrong.empty()) out["wrong"] = row.wrong;
  return out;
}

}  // namespace

std::string head_text(const Options& options, const Setting& setting) {
  return cat(name_of(options.op), " over ", options.backend, ", ", setting.remote, " (",
             setting.partner, "), ", options.threads, options.threads == 1 ? " thread" : " threads",
             ", ", options.pipeline_depth, " in flight, ", options.iterations, " iterations after ",
             options.warmup, "; times in us, GB are 10^9 bytes\n\n");
}

std::string titles_text() {
  std::string line;
  for (const Title& title : kTitles) line += fmt::format("{:>{}}  ", title.text, title.width);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string row_text(const Row& row, Colours colours) {
  const std::array<std::string, kTitles.size()> cells{
      cat(row.shape.block_bytes),
      cat(row.shape.batch),
      fmt::format("{:.3f}", row.bytes_per_second() / 1e9),
      micro(row.average_latency_ns()),
      micro(row.prepare.mean),
      micro(row.prepare.p99),
      micro(row.post.mean),
      micro(row.post.p99),
      micro(row.transfer.mean),
      micro(row.transfer.p99),
      micro(row.latency.p50),
      micro(row.latency.p90),
      micro(row.latency.p99),
      share(row.cpu, row.wall),
      share(row.target_cpu, row.wall),
      std::string(verdict_of(row))};
  std::string line;
  for (std::size_t i = 0; i + 1 < cells.size(); ++i)
    line += fmt::format("{:>{}}  ", cells[i], kTitles[i].width);
  const Tone tone = row.wrong.empty() ? Tone::good : Tone::bad;
  return line +
         painted(fmt::format("{:>{}}", cells.back(), kTitles.back().width),
                 row.verified ? tone : Tone::plain, colours) +
         "\n";
}

std::string end_text(const Setting& setting, const std::vector<Row>& rows, Colours colours) {
  std::string text = cat("\npath: ", setting.path.empty() ? "unknown" : setting.path, "\n");
  for (const Row& row : rows) {
    if (!row.wrong.empty())
      text += cat(painted("WRONG DATA", Tone::bad, colours), " at ", row.shape.block_bytes, " x ",
                  row.shape.batch, ": ", row.wrong, "\n");
  }
  return text;
}

nlohmann::ordered_json to_json(const Options& options, const Setting& setting,
                               const std::vector<Row>& rows) {
  const bool passed = std::ranges::all_of(rows, [](const Row& row) { return row.wrong.empty(); });
  nlohmann::ordered_json out{{"passed", passed},
                             {"backend", options.backend},
                             {"op_type", options.op == TransferOp::read ? "READ" : "WRITE"},
                             {"target_kind", name_of(options.remote)},
                             {"partner", setting.partner},
                             {"remote", setting.remote},
                             {"path", setting.path},
                             {"num_threads", options.threads},
                             {"pipeline_depth", options.pipeline_depth},
                             {"recreate_xfer", options.recreate},
                             {"scatter", options.scatter},
                             {"warmup_iter", options.warmup},
                             {"rows", nlohmann::ordered_json::array()}};
  for (const Row& row : rows) out["rows"].push_back(to_json(row));
  return out;
}

}  // namespace towpath::tools::bench
