#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/core/words.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/shmem_environment.h>

namespace towpath::standard {
namespace {

// ---- values: true when the text could be read ----

bool read(std::string_view text, std::uint64_t& into) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return false;
  into = number;
  return true;
}

bool read(std::string_view text, std::optional<Duration>& into) {
  constexpr std::uint64_t kLongest = 1000ULL * 3600 * 24 * 365;
  std::uint64_t milliseconds = 0;
  if (!read(text, milliseconds) || milliseconds == 0 || milliseconds > kLongest) return false;
  into = std::chrono::milliseconds(milliseconds);
  return true;
}

bool read(std::string_view text, std::optional<std::string>& into) {
  if (text.empty()) return false;
  into = text;
  return true;
}

bool read(std::string_view text, std::string& into) {
  into = text;
  return true;
}

bool read(std::string_view text, std::optional<telemetry::Level>& into) {
  using telemetry::Level;
  constexpr std::array<std::pair<std::string_view, Level>, 7> kLevels = {
      {{"trace", Level::trace},
       {"debug", Level::debug},
       {"info", Level::info},
       {"warn", Level::warning},
       {"warning", Level::warning},
       {"error", Level::error},
       {"fatal", Level::error}}};
  const std::string word = lower(text);
  const auto* const found =
      std::ranges::find(kLevels, word, &std::pair<std::string_view, Level>::first);
  if (found == kLevels.end()) return false;
  into = found->second;
  return true;
}

bool read(std::string_view text, std::vector<std::string>& into) {
  std::vector<std::string> words;
  for (std::string_view word = next_word(text, ", \t"); !word.empty();
       word = next_word(text, ", \t"))
    words.emplace_back(word);
  if (words.empty()) return false;
  into = std::move(words);
  return true;
}

// ---- names ----

enum class Reading { good, bad, unknown };

/// A setting, and how it gets into the value. False: the text cannot be read.
struct Reader {
  Setting setting;
  bool (*read)(std::string_view text, Settings& into);
};

template <auto Member>
bool read_into(std::string_view text, Settings& into) {
  return read(text, into.*Member);
}

constexpr std::array<Reader, 15> kReaders = {{
    {{"PLUGIN_DIR", "a directory", "none is searched",
      "where backends from outside of the library lie"},
     read_into<&Settings::plugin_directory>},
    {{"LOG_LEVEL", "trace, debug, info, warn, error, fatal", "warn", "what is logged"},
     read_into<&Settings::log_level>},
    {{"TRANSFER_TIMEOUT_MS", "milliseconds", "30 s; of NIXL's users 5 minutes",
      "deadline of transfers that are posted without one"},
     read_into<&Settings::transfer_timeout>},
    {{"LISTEN_HOST", "an address of this host", "127.0.0.1",
      "where the listener for metadata is reached"},
     read_into<&Settings::listen_host>},
    {{"TOKEN_FILE", "a file of mode 0600", "on one host the user's own",
      "the token that listeners and their clients share"},
     read_into<&Settings::token_file>},
    {{"TLS_CERT_FILE", "a file", "none",
      "certificate for the same, instead of a token, and for data in TLS"},
     read_into<&Settings::tls_cert_file>},
    {{"TLS_KEY_FILE", "a file", "none", "its key"}, read_into<&Settings::tls_key_file>},
    {{"TLS_CA_FILE", "a file", "none", "authorities for that of the other side"},
     read_into<&Settings::tls_ca_file>},
    {{"ETCD_ENDPOINTS", "http://host:port, several with commas", "no etcd",
      "where agents exchange metadata"},
     read_into<&Settings::etcd_endpoints>},
    {{"ETCD_NAMESPACE", "a text", "/nixl/agents/", "in front of every key there"},
     [](std::string_view text, Settings& into) {
       return !text.empty() && read(text, into.etcd_namespace);
     }},
    {{"ETCD_USER", "a name", "no login", "of etcd"}, read_into<&Settings::etcd_user>},
    {{"ETCD_PASSWORD_FILE", "a file", "none", "that user's password"},
     read_into<&Settings::etcd_password_file>},
    {{"ETCD_CA_FILE", "a file", "the system's", "authorities for etcd's certificate"},
     read_into<&Settings::etcd_ca_file>},
    {{"ETCD_CERT_FILE", "a file", "none is shown", "certificate for etcd"},
     read_into<&Settings::etcd_cert_file>},
    {{"ETCD_KEY_FILE", "a file", "none", "its key"}, read_into<&Settings::etcd_key_file>},
}};

Reading read_variable(std::string_view name, std::string_view value, Settings& into) {
  const auto* const reader =
      std::ranges::find(kReaders, name, [](const Reader& one) { return one.setting.name; });
  if (reader == kReaders.end()) return Reading::unknown;
  return reader->read(value, into) ? Reading::good : Reading::bad;
}

struct Known {
  std::string_view name;  // after the prefix; with a '_' behind it what names begin with
  std::string_view why;   // empty: not worth a word

  bool is(std::string_view other) const {
    return name.ends_with('_') ? other.starts_with(name) : other == name;
  }
};

// What others read, or what NIXL reads and Towpath has no use for.
constexpr std::array<Known, 12> kWithoutEffect = {{
    {"PREFIX", ""},             // nixl-sys, when it is built
    {"NO_STUBS_FALLBACK", ""},  // the same
    {"TEST_", ""},              // its tests
    {"UCX_", "the UCX backend is configured by its parameters and by UCX_*"},
    {"LIBFABRIC_",
     "there is no libfabric backend; use UCX, whose devices and rails are chosen by "
     "UCX_NET_DEVICES "
     "and UCX_MAX_RNDV_RAILS"},
    {"MOONCAKE_", "there is no Mooncake backend; use UCX"},
    {"TCPSTORE_",
     "there is no TCPStore client, so metadata does not go there; use NIXL_ETCD_ENDPOINTS, send it "
     "to an address, or put what get_agent_metadata() gives into that store yourself"},
    {"CONFIG_FILE", ""},  // config_file.h
    {"TRACE_BACKENDS", "there are no trace plug-ins; see the flight recorder"},
    {"TELEMETRY_", ""},  // telemetry_environment.h
    {"COMMAND", ""},     // of Python: the command that serves (towpath/_server.py)
    {"SECURITY", ""},    // wire_security.h, compat/nixl/backends.h
}};

std::optional<std::string> remark_on_unknown(std::string_view prefix, std::string_view name) {
  if (prefix != kOurPrefix && (name.starts_with("SHMEM_") || name == "SECURITY"))
    return cat("has no effect: it is called ", kOurPrefix, name);
  if (is_shmem_variable(name)) return std::nullopt;
  for (const Known& known : kWithoutEffect) {
    if (!known.is(name)) continue;
    if (known.why.empty()) return std::nullopt;
    return cat("has no effect: ", known.why);
  }
  return "is not known";
}

void read_all(std::string_view prefix, const Environment& environment, Settings& into) {
  for (const auto& [name, value] : environment) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = std::string_view(name).substr(prefix.size());
    const Reading reading = read_variable(rest, value, into);
    if (reading == Reading::bad) {
      into.remarks.push_back({name, cat("cannot be read: '", printable(value), "'")});
    } else if (reading == Reading::unknown) {
      if (auto why = remark_on_unknown(prefix, rest))
        into.remarks.push_back({name, *std::move(why)});
    }
  }
}

}  // namespace

std::vector<Setting> Settings::all() {
  std::vector<Setting> all;
  for (const Reader& reader : kReaders) all.push_back(reader.setting);
  return all;
}

Settings Settings::from(const Environment& environment) {
  Settings settings;
  for (const std::string_view prefix : kVariablePrefixes) read_all(prefix, environment, settings);
  std::ranges::sort(settings.remarks, {}, &Remark::variable);
  return settings;
}

}  // namespace towpath::standard
