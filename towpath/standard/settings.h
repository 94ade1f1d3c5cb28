// Settings: what the environment asks of Towpath, as a value.
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

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/standard/environment.h>
#include <towpath/standard/setting.h>
#include <towpath/telemetry/log.h>

namespace towpath::standard {

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
