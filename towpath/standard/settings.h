// Settings: what the environment asks of Towpath, as a value; and the environment itself, so that a
// test passes its own. Reading it races with setenv(3), as everywhere.
//
// Nothing below standard/ reads the environment; whoever composes an agent reads it once
// (configuration.h) and passes on what it says. NIXL's users set NIXL_*; each of these also works
// as TOWPATH_*, which wins.
//
// Which there are, and what each may be, is a table in settings.cc, which reads them by it;
// `towpath doctor --settings` prints it. TELEMETRY_* is read elsewhere (telemetry_environment.h),
// and so is SECURITY (wire_security.h). A name with one of the two prefixes that means nothing, and
// a value that cannot be read, are remarked on, never silent and never fatal. Thread: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/telemetry/log.h>

namespace towpath::standard {

/// Of the variables that are ours to read; those of the last one win.
inline constexpr std::string_view kOurPrefix = "TOWPATH_";
inline constexpr std::array<std::string_view, 2> kVariablePrefixes = {"NIXL_", kOurPrefix};

/// Names to values. A name that stands there twice has its first value, as getenv(3) says.
using Environment = std::map<std::string, std::string>;

Environment read_environment();

/// 1 true yes y on enable, 0 false no n off disable, in letters of either case; nothing for others.
std::optional<bool> parse_switch(std::string_view text);

/// What is to be said of a variable that means nothing here, or whose value cannot be read.
struct Remark {
  std::string variable;
  std::string why;  ///< "is not known", "has no effect: ...", "cannot be read: ..."
  friend bool operator==(const Remark&, const Remark&) = default;
};

/// What a process may be given from outside, as a row of a table: each file that reads variables
/// has its rows beside what reads them, `towpath doctor --settings` shows all (configuration.h).
struct Setting {
  std::string_view name;     ///< behind NIXL_ or TOWPATH_; the latter wins. Dialects have others
  std::string_view values;   ///< what it may be
  std::string_view unset;    ///< what holds when nobody gives it
  std::string_view what;     ///< it is for
  bool is_ours = false;      ///< behind TOWPATH_ alone
  bool is_secret = false;    ///< never shown
  bool is_variable = false;  ///< alone: where it is read there is no file
};

/// A setting as a process that started now would have it.
struct GivenSetting {
  Setting setting;
  std::string name{};    ///< of the variable, whole: "TOWPATH_LOG_LEVEL"
  std::string value{};   ///< as it was written
  std::string source{};  ///< the variable, or the file and its line; empty: nobody gives it
};

/// Of NIXL's users, whose transfers have no deadline of their own: long enough for any that is
/// still alive.
inline constexpr Duration kNixlTransferTimeout = std::chrono::minutes(5);

struct Settings {
  std::optional<std::string> plugin_directory;
  std::optional<telemetry::Level> log_level;
  std::optional<Duration> transfer_timeout;
  std::string listen_host = "127.0.0.1";
  std::optional<std::string> token_file;
  std::string tls_cert_file;  ///< empty: none
  std::string tls_key_file;
  std::string tls_ca_file;
  std::vector<std::string> etcd_endpoints;
  std::string etcd_namespace = "/nixl/agents/";
  std::string etcd_user;  ///< empty: no login
  std::optional<std::string> etcd_password_file;
  std::string etcd_ca_file;    ///< empty: the system's authorities
  std::string etcd_cert_file;  ///< empty: none is shown
  std::string etcd_key_file;

  std::vector<Remark> remarks;  ///< ordered by variable

  static Settings from(const Environment& environment);
  /// Those that from() reads, each once.
  static std::vector<Setting> all();
};

}  // namespace towpath::standard
