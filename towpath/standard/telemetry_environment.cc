#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <limits>

#include <towpath/core/format.h>
#include <towpath/standard/flight_file.h>
#include <towpath/standard/telemetry_environment.h>

namespace towpath::standard {
namespace {

constexpr std::string_view kFamily = "TELEMETRY_";  // after a prefix

/// A variable, as it is reported in messages.
struct Value {
  std::string name;
  std::string text;

  Status refuse(std::string hint) const {
    return error(Code::invalid_argument, cat(name, "='", printable(text), "' makes no sense"),
                 std::move(hint));
  }
};

Result<bool> flag_of(const Value& value) {
  const std::optional<bool> on = parse_switch(value.text);
  return on ? Result<bool>(*on) : value.refuse("use 1 or 0");
}

Result<std::uint64_t> number_of(const Value& value, std::string_view text, std::uint64_t most) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || rest != end || number > most)
    return value.refuse(cat("use a whole number up to ", most));
  return number;
}

/// Microseconds there, nanoseconds here.
Result<telemetry::BucketBounds> bounds_of(const Value& value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 1000;
  std::vector<std::uint64_t> bounds;
  std::string_view rest = value.text;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(','));
    TOWPATH_TRY(const std::uint64_t bound, number_of(value, word, kMost));
    bounds.push_back(bound * 1000);
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
  }
  auto made = telemetry::BucketBounds::of(bounds);
  if (!made.ok()) return value.refuse("list whole microseconds in ascending order, with commas");
  return made;
}

class TelemetryReader {
 public:
  explicit TelemetryReader(TelemetryFromEnvironment& out) : out_(out) {}

  Status take(const std::string& key, const Value& value) {
    for (const auto& [setting, take] : kKeys)
      if (key == setting.name.substr(kFamily.size())) return (this->*take)(value);
    const bool known = std::ranges::find(kUnused, key) != kUnused.end();
    out_.remarks.push_back({value.name, known ? "has no effect here" : "is not known here"});
    return {};
  }

  /// Settings of the endpoint count only when there is to be one.
  void finish() {
    out_.place = wants_endpoint_ ? exporter_variable_ : directory_variable_;
    if (wants_endpoint_ && !out_.options.prometheus) out_.options.prometheus.emplace();
    if (!wants_endpoint_) return;
    if (port_) out_.options.prometheus->port = *port_;
    out_.options.prometheus->enabled = enabled_metrics_;
    if (!local_) out_.options.prometheus->address = "0.0.0.0";
  }

 private:
  Status enable(const Value& value) {
    TOWPATH_TRY(out_.enabled, flag_of(value));
    return {};
  }
  Status directory(const Value& value) {
    out_.options.flight_directory = value.text;
    directory_variable_ = value.name;
    return {};
  }
  Status records(const Value& value) {
    TOWPATH_TRY(out_.options.flight_records, number_of(value, value.text, kMostFlightRecords));
    return out_.options.flight_records > 0 ? Status() : value.refuse("keep at least one record");
  }
  Status exporter(const Value& value) {
    const std::string word = lower(value.text);
    wants_endpoint_ = word == "prometheus";
    exporter_variable_ = value.name;
    if (wants_endpoint_ || word == "buffer" || word == "nop") return {};
    return value.refuse("use BUFFER, NOP or prometheus");
  }
  Status port(const Value& value) {
    TOWPATH_TRY(const std::uint64_t number, number_of(value, value.text, UINT16_MAX));
    port_ = static_cast<std::uint16_t>(number);
    return {};
  }
  Status local(const Value& value) {
    TOWPATH_TRY(local_, flag_of(value));
    return {};
  }
  Status bounds(const Value& value) {
    TOWPATH_TRY(out_.options.time_bounds, bounds_of(value));
    return {};
  }

  Status enabled_metrics(const Value& value) {
    enabled_metrics_.clear();
    for (std::string_view rest = value.text; !rest.empty();) {
      const std::string_view pattern = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(pattern.size() + 1, rest.size()));
      if (!pattern.empty()) enabled_metrics_.emplace_back(pattern);
    }
    if (!enabled_metrics_.empty()) return {};
    return value.refuse("list names of metrics with commas, as agent_tx_*");
  }

  using Take = Status (TelemetryReader::*)(const Value&);
  struct Key {
    Setting setting;
    Take take;
  };

 public:
  static constexpr std::array<Key, 8> kKeys{{
      {{"TELEMETRY_ENABLE", "yes or no", "as the program asks", "has the last word"},
       &TelemetryReader::enable},
      {{"TELEMETRY_DIR", "a directory", "no recorder", "a flight recorder in a file there"},
       &TelemetryReader::directory},
      {{"TELEMETRY_BUFFER_SIZE", "a number", "4096", "records that it keeps"},
       &TelemetryReader::records},
      {{"TELEMETRY_EXPORTER", "BUFFER, NOP, prometheus", "no exporter", "what serves the figures"},
       &TelemetryReader::exporter},
      {{"TELEMETRY_PROMETHEUS_PORT", "a port; 0: the kernel chooses", "9090", "of the endpoint"},
       &TelemetryReader::port},
      {{"TELEMETRY_PROMETHEUS_LOCAL", "yes or no", "yes",
        "no: all interfaces of the machine serve, without a password"},
       &TelemetryReader::local},
      {{"TELEMETRY_HISTOGRAM_BUCKETS_US", "ascending microseconds, with commas", "1 us to 10 s",
        "bounds of the histograms of times"},
       &TelemetryReader::bounds},
      {{"TELEMETRY_ENABLED_METRICS", "names, * and ?, with commas", "all", "what is served"},
       &TelemetryReader::enabled_metrics},
  }};

 private:
  /// NIXL's, for what is done otherwise here: counters are always up to date, and one process
  /// serves its own.
  static constexpr std::array<std::string_view, 4> kUnused{"RUN_INTERVAL", "MULTIPROC_DIR",
                                                           "RANK_ENV", "MP_STALE_TTL"};

  TelemetryFromEnvironment& out_;
  std::string directory_variable_;
  std::string exporter_variable_;
  bool wants_endpoint_ = false;
  bool local_ = true;
  std::optional<std::uint16_t> port_;
  std::vector<std::string> enabled_metrics_;
};

}  // namespace

std::vector<Setting> telemetry_settings() {
  std::vector<Setting> all;
  for (const auto& key : TelemetryReader::kKeys) all.push_back(key.setting);
  return all;
}

Result<TelemetryFromEnvironment> telemetry_from(const Environment& environment,
                                                const TelemetryOptions& defaults) {
  TelemetryFromEnvironment out{.options = defaults};
  out.options.required = false;
  TelemetryReader reader(out);
  for (const std::string_view prefix : kVariablePrefixes) {
    const std::string family = cat(prefix, kFamily);
    for (const auto& [name, text] : environment) {
      if (!name.starts_with(family) || text.empty()) continue;
      TOWPATH_TRY(reader.take(name.substr(family.size()), {name, text}));
    }
  }
  reader.finish();
  return out;
}

}  // namespace towpath::standard
