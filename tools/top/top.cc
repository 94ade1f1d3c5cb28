#include "tools/top/top.h"

#include <algorithm>

#include <nlohmann/json.hpp>
#include <poll.h>

#include <towpath/core/format.h>
#include <towpath/sys/clock.h>

#include "tools/flight_read.h"
#include "tools/output.h"
#include "tools/run/signals.h"
#include "tools/top/screen.h"
#include "tools/top/window.h"

namespace towpath::tools {
namespace {

/// The last `interval` of a node that runs; all that is known of one that does not.
Result<NodeView> view_of(const RecorderFile& recorder, Duration interval) {
  const bool lived = writer_lives(recorder);  // asked before: what it does last is seen then
  TOWPATH_TRY(const telemetry::FlightLog log, read_flight_file(recorder));
  const Instant now = sys::SystemClock().now();
  NodeView view{.name = node_name_of(recorder.path), .process = log.process};
  view.activity = activity_of(log, now + -interval, now);
  view.runs = !view.activity.closed && lived;
  if (!view.runs)
    view.activity =
        activity_of(log, log.started, log.records.empty() ? log.started : log.records.back().at);
  return view;
}

/// What is found in a directory may be half made, or gone again: it is passed over.
///
/// Nodes that run, else the ones that did: of old recordings nobody wants to hear beside them.
Result<std::vector<NodeView>> look(const TopOptions& options) {
  TOWPATH_TRY(const std::vector<RecorderFile> recorders, recorders_in(options.places));
  std::vector<NodeView> all;
  for (const RecorderFile& recorder : recorders) {
    auto view = view_of(recorder, options.interval);
    if (!view.ok() && recorder.named) return view.status();
    if (view.ok()) all.push_back(*std::move(view));
  }
  if (std::ranges::any_of(all, &NodeView::runs))
    std::erase_if(all, [](const NodeView& node) { return !node.runs; });
  return all;
}

std::string text_of(const std::vector<NodeView>& nodes, Colours colours) {
  std::string text;
  for (const NodeView& node : nodes)
    text += cat(text.empty() ? "" : "\n", screen_text(node, colours));
  return text;
}

/// Drawn over the last one: what is shorter now leaves nothing behind.
std::string redrawn(const std::string& text) {
  std::string out = "\x1b[H";
  for (const char letter : text) {
    if (letter == '\n') out += "\x1b[K";
    out += letter;
  }
  return out + "\x1b[J";
}

Status report_once(const TopOptions& options, Output& out) {
  TOWPATH_TRY(const std::vector<NodeView> nodes, look(options));
  if (!options.json.empty()) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const NodeView& node : nodes) all.push_back(screen_json(node));
    TOWPATH_TRY(write_json(options.json, {{"nodes", std::move(all)}}));
    if (options.json == "-") return {};
  }
  return out.write(text_of(nodes, out.is_terminal() ? Colours::yes : Colours::no));
}

/// A screen after the other, where no terminal reads.
Status log(const TopOptions& options, Output& out) {
  while (true) {
    TOWPATH_TRY(const std::vector<NodeView> nodes, look(options));
    TOWPATH_TRY(out.write(text_of(nodes, Colours::no) + "\n"));
    TOWPATH_TRY(out.flush());
    if (std::ranges::none_of(nodes, &NodeView::runs)) return out.close();
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(options.interval);
    poll(nullptr, 0, static_cast<int>(std::max<std::int64_t>(ms.count(), 10)));
  }
}

std::size_t moved(std::size_t first, Keys::Key key, std::size_t page, std::size_t last) {
  switch (key) {
    case Keys::Key::up: return first - std::min<std::size_t>(first, 1);
    case Keys::Key::page_up: return first - std::min(first, page);
    case Keys::Key::down: return std::min(first + 1, last);
    case Keys::Key::page_down: return std::min(first + page, last);
    case Keys::Key::none:
    case Keys::Key::quit: break;
  }
  return std::min(first, last);
}

/// In a window, with keys, until no node runs any more or `q`.
Status watch(const TopOptions& options, Output& out) {
  const sys::SystemClock clock;
  TOWPATH_TRY(const sys::Fd signals, watch_ending_signals());
  Keys keys(signals.get());
  std::size_t first = 0;
  while (true) {
    TOWPATH_TRY(const std::vector<NodeView> nodes, look(options));
    const std::string text = text_of(nodes, Colours::yes);
    const bool last_time = std::ranges::none_of(nodes, &NodeView::runs);
    const Instant until = clock.now() + options.interval;
    do {
      const WindowSize window = window_size();
      TOWPATH_TRY(out.write(redrawn(last_time ? text : fitted(text, first, window))));
      TOWPATH_TRY(out.flush());
      if (last_time) return out.close();
      const Keys::Key key = keys.next(until - clock.now());
      if (key == Keys::Key::quit) {
        TOWPATH_TRY(out.write("\n"));
        return out.close();
      }
      first = moved(first, key, window.rows - 1, last_first_line(text, window));
    } while (clock.now() < until);
  }
}

}  // namespace

Status run_top(const TopOptions& options) {
  TOWPATH_TRY(Output out, Output::open("-"));
  if (options.once) {
    TOWPATH_TRY(report_once(options, out));
    return out.close();
  }
  return out.is_terminal() ? watch(options, out) : log(options, out);
}

}  // namespace towpath::tools
