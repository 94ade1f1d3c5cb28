// Backends from outside: loads the plug-ins of a directory that its user names.
//
//   backend::Registry registry = make_registry();
//   for (const PluginFound& one : load_plugins(directory, registry)) ...   // and what became of
//   each
//
// Nothing is searched: no default directory, no loader path. A plug-in is a file
// libtowpath_backend_NAME.so with the C interface of plugin_abi.h; it runs in this process and is
// trusted as this process is.
// Thread: any.
#pragma once

#include <string>
#include <vector>

#include <towpath/backend/registry.h>
#include <towpath/core/result.h>
#include <towpath/standard/settings.h>
#include <towpath/telemetry/log.h>

namespace towpath::standard {

struct PluginFound {
  std::string file;
  std::string name;  ///< of its backend type; empty when it could not be loaded
  /// ok, or why it is not in the registry: it cannot be loaded, offers no towpath_backend_v1(), is
  /// for another version, or its name is taken.
  Status status;
};

/// Adds the backend types of all plug-ins in `directory`, in the order of their file names.
/// Errors: not_found, denied (the directory).
Result<std::vector<PluginFound>> load_plugins(const std::string& directory,
                                              backend::Registry& registry);

/// make_registry(), and the plug-ins of the directory that `settings` name. One that cannot be used
/// is no reason to do without the others: `log` reports it.
backend::Registry make_registry(const Settings& settings, const telemetry::Log& log);

}  // namespace towpath::standard
