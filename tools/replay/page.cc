#include "tools/replay/page.h"

#include <algorithm>
#include <cctype>

#include <towpath/core/format.h>
#include <towpath/sys/text_file.h>

#include "tools/replay/plots.h"
#include "tools/units.h"

namespace towpath::tools::replay {
namespace {

constexpr std::string_view kPageStyle = R"(
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
:root{--back:#f4f6f9;--good:#12805c;--bad:#c23a4b}
@media(prefers-color-scheme:dark){:root{--back:#0b0e13;--good:#4fd0a2;--bad:#ff7d8b}}
main{max-width:1280px;margin:0 auto;padding:28px 24px 48px}
h1{font-size:26px;margin:0}h2{font-size:17px;margin:36px 0 12px}
header p{margin:4px 0 0;color:var(--faint)}
.verdict{display:inline-block;margin-left:12px;padding:1px 12px;border-radius:99px;font-size:14px;
font-weight:600;vertical-align:4px;color:var(--back);background:var(--good)}
.verdict.bad{background:var(--bad)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(165px,1fr));gap:12px;margin:24px 0}
.card,.panel{background:var(--paper);border:1px solid var(--grid);border-radius:10px}
.card{padding:12px 16px}.card b{display:block;font-size:23px;font-weight:650;
font-variant-numeric:tabular-nums}.card span{color:var(--faint);font-size:13px}
.card.good b{color:var(--good)}.card.bad b{color:var(--bad)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(520px,100%),1fr));gap:16px}
.panel{padding:14px 14px 8px;overflow-x:auto}.wide{grid-column:1/-1}
.wide .plot{max-width:900px;margin:0 auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th{color:var(--faint);font-weight:500;font-size:13px;text-align:right}
td{text-align:right;border-top:1px solid var(--grid)}th,td{padding:6px 12px;white-space:nowrap}
th:first-child,td:first-child,.text{text-align:left}.text{white-space:normal}
td.best{color:var(--good);font-weight:600}td.bad{color:var(--bad)}
code{display:block;overflow-x:auto;padding:10px 14px;font:13px ui-monospace,Menlo,Consolas,monospace}
@media(max-width:640px){main{padding:16px 12px 32px}.panel .plot{min-width:560px}}
footer{margin-top:36px;color:var(--faint);font-size:13px}
)";

std::string card_html(const std::string& figure, const std::string& what, const char* tone = "") {
  return cat("<div class=\"card ", tone, "\"><b>", figure, "</b><span>", escaped(what),
             "</span></div>");
}

std::string panel_html(const Plot& plot, const char* width = "") {
  return cat("<div class=\"panel ", width, "\">", to_svg(plot), "</div>\n");
}

struct PageCell {
  std::string text;
  const char* look = "";
};

/// A table in a panel; the first row holds the titles.
std::string table_html(const std::vector<std::vector<PageCell>>& rows) {
  std::string out = "<div class=\"panel\"><table>";
  for (const auto& row : rows) {
    const char* const tag = &row == &rows.front() ? "th" : "td";
    out += "<tr>";
    for (const PageCell& cell : row)
      out += cat("<", tag, " class=\"", cell.look, "\">", escaped(cell.text), "</", tag, ">");
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string cards_part(const ReplayOutcome& outcome) {
  const bool all = outcome.verified == outcome.blocks;
  const auto time = duration_of(outcome.seconds);
  return cat(
      "<div class=\"cards\">", card_html(grouped(outcome.requests), "requests"),
      card_html(grouped(outcome.verified),
                all ? "blocks, all verified: every byte, and the digest"
                    : cat("blocks verified, of ", grouped(outcome.blocks)),
                all ? "good" : "bad"),
      card_html(grouped(outcome.mismatches), "mismatches",
                outcome.mismatches == 0 ? "good" : "bad"),
      outcome.prefills_lost == 0 ? std::string()
                                 : card_html(grouped(outcome.prefills_lost),
                                             cat("prefill died; ", grouped(outcome.asked_again),
                                                 " requests were asked of another"),
                                             "bad"),
      card_html(percent(hit_ratio(outcome)), "of the blocks found in a tier"),
      card_html(size_text(outcome.pull.bytes()),
                cat("pulled, at ", rate_text(outcome.pull.bytes(), outcome.pull.times().sum()),
                    " while moving")),
      card_html(duration_text(time), "from the first order to the last block"), "</div>\n");
}

std::string faults_part(const ReplayOutcome& outcome) {
  if (outcome.faults.none()) return {};
  std::vector<std::vector<PageCell>> rows{{{"fault", "text"}, {"times"}, {"the first", "text"}}};
  for (const auto& [name, entry] : outcome.faults.by_name())
    rows.push_back(
        {{name, "text bad"}, {grouped(entry.count)}, {printable(entry.first, 2000), "text"}});
  return "<h2>What went wrong</h2>\n" + table_html(rows);
}

std::string found_part(const Options& options, const ReplayOutcome& outcome) {
  std::vector<std::vector<PageCell>> rows{{{"tier"}, {"blocks"}, {"share"}, {"size", "text"}}};
  for (const FoundRow& row : found_rows(options, outcome))
    rows.push_back(
        {{std::string(row.place)}, {grouped(row.blocks)}, {row.share}, {row.size, "text"}});
  return "<h2>Where blocks were found</h2>\n" + table_html(rows);
}

std::string hops_part(const Options& options, const ReplayOutcome& outcome) {
  std::vector<std::vector<PageCell>> rows{{{"hop"},
                                           {"bytes"},
                                           {"while moving"},
                                           {"whole run"},
                                           {"moves"},
                                           {"p50"},
                                           {"p90"},
                                           {"p99"},
                                           {"p99.9"},
                                           {"by which path", "text"}}};
  for (const auto& [name, hop] : hops_of(options, outcome)) {
    const Spread& times = hop.times();
    rows.push_back({{name},
                    {size_text(hop.bytes())},
                    {rate_text(hop.bytes(), times.sum())},
                    {rate_text(hop.bytes(), duration_of(outcome.seconds))},
                    {grouped(times.count())},
                    {duration_text(times.percentile(50))},
                    {duration_text(times.percentile(90))},
                    {duration_text(times.percentile(99))},
                    {duration_text(times.percentile(99.9))},
                    {hop.path(), "text"}});
  }
  return "<h2>What moving cost</h2>\n" + table_html(rows);
}

std::string policies_part(std::span<const traces::Comparison> comparisons) {
  if (comparisons.empty()) return {};
  std::vector<std::vector<PageCell>> rows{{{"blocks"}, {"optimum"}}};
  for (const kv::PolicyKind policy : kv::all_policies())
    rows.front().push_back({std::string(name_of(policy))});
  for (const traces::Comparison& one : comparisons) {
    auto& row = rows.emplace_back();
    row = {{grouped(one.slots)}, {percent(ratio_of(one.optimum, one.uses))}};
    const auto best = std::ranges::max(one.scores, {}, &traces::Score::hits).hits;
    for (const traces::Score& score : one.scores)
      row.push_back({percent(ratio_of(score.hits, one.uses)), score.hits == best ? "best" : ""});
  }
  return "<h2>Eviction policies against the optimum, which knows the future</h2>\n" +
         table_html(rows);
}

std::string plots_part(const Options& options, const PageContent& content) {
  std::string out = "<div class=\"plots\">\n";
  if (!content.comparisons.empty()) out += panel_html(hit_ratio_plot(content.comparisons), "wide");
  if (content.outcome != nullptr) {
    out += panel_html(bytes_plot(options, *content.outcome)) +
           panel_html(latency_plot(options, *content.outcome)) +
           panel_html(occupancy_plot(options, *content.outcome)) +
           panel_html(found_plot(options, *content.outcome));
  }
  return out + "</div>\n";
}

std::string head_part(const Options& options, const PageContent& content) {
  const std::string trace = options.trace.empty()
                                ? cat(grouped(options.generator.requests),
                                      " generated requests, seed ", options.generator.seed)
                                : printable(options.trace, 256);
  std::string verdict;
  if (content.outcome != nullptr)
    verdict = content.outcome->faults.none() ? "<span class=\"verdict\">passed</span>"
                                             : "<span class=\"verdict bad\">failed</span>";
  return cat("<header><h1>towpath replay", verdict, "</h1><p>", escaped(trace), " &middot; ",
             escaped(options.model), " at 1/", options.scale, ", blocks of ",
             options.tokens_per_block, " tokens",
             content.outcome == nullptr ? std::string()
                                        : cat(" and ", format_bytes(content.outcome->block_bytes)),
             "</p></header>\n");
}

}  // namespace

std::string page_of(const Options& options, const PageContent& content) {
  std::string body = head_part(options, content);
  if (content.outcome != nullptr)
    body += cards_part(*content.outcome) + faults_part(*content.outcome);
  body += plots_part(options, content);
  if (content.outcome != nullptr)
    body += found_part(options, *content.outcome) + hops_part(options, *content.outcome);
  body += policies_part(content.comparisons);
  return cat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<title>towpath replay</title><style>",
      plot_style(), kPageStyle, "</style></head><body><main>\n", body,
      "<h2>Once more</h2>\n<div class=\"panel\"><code>", escaped(content.command),
      "</code></div>\n<footer>Hits are blocks found with all blocks before them. Times are those "
      "of "
      "this run on this machine; a percentile is exact to 3 %. Point at a line for its "
      "figures.</footer>\n</main></body></html>\n");
}

std::string command_line() {
  const auto words = sys::read_text_file("/proc/self/cmdline");
  if (!words.ok()) return "towpath replay";
  std::string line, word;
  for (const char letter : *words) {
    if (letter != '\0') {
      word += letter;
      continue;
    }
    const bool plain = !word.empty() && std::ranges::all_of(word, [](char one) {
      return std::isalnum(static_cast<unsigned char>(one)) != 0 ||
             std::string_view("-_./:=,+@%").find(one) != std::string_view::npos;
    });
    std::string quoted;
    for (const char one : word) quoted += one == '\'' ? "'\\''" : std::string(1, one);
    if (line.empty()) {
      line = "towpath";
    } else {
      line += cat(" ", plain ? word : cat("'", quoted, "'"));
    }
    word.clear();
  }
  return line;
}

}  // namespace towpath::tools::replay
