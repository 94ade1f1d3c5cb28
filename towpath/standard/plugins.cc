#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include <dlfcn.h>

#include <towpath/core/format.h>
#include <towpath/standard/plugin_backend.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/os_error.h>

namespace towpath::standard {
namespace {

constexpr std::string_view kBegin = "libtowpath_backend_";
constexpr std::string_view kEnd = ".so";

Result<std::vector<std::string>> files_in(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code failure;
  std::filesystem::directory_iterator entries(directory, failure);
  if (failure)
    return sys::os_error(failure.value(),
                         cat("cannot look into '", printable(directory, 256), "'"));
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kBegin) && name.ends_with(kEnd)) files.push_back(entry.path().string());
  }
  std::ranges::sort(files);
  return files;
}

Result<backend::BackendType> load(const std::string& file) {
  // Its symbols are nobody else's, and all of them are there from the beginning.
  const std::shared_ptr<void> library(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL), [](void* it) {
    if (it != nullptr) ::dlclose(it);
  });
  if (!library) return error(Code::invalid_argument, cat("cannot be loaded: ", ::dlerror()));
  using Entry = const towpath_backend_v1_t* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library.get(), "towpath_backend_v1"));
  const towpath_backend_v1_t* plugin = entry != nullptr ? entry() : nullptr;
  if (plugin == nullptr)
    return error(Code::unsupported, "offers no towpath_backend_v1()",
                 "see plugin_abi.h; plug-ins of NIXL have another interface");
  return plugin_type(*plugin, library);
}

}  // namespace

Result<std::vector<PluginFound>> load_plugins(const std::string& directory,
                                              backend::Registry& registry) {
  TOWPATH_TRY(const std::vector<std::string> files, files_in(directory));
  std::vector<PluginFound> found;
  for (const std::string& file : files) {
    PluginFound one{.file = file, .name = {}, .status = {}};
    auto type = load(file);
    if (type.ok()) {
      one.name = type->name;
      one.status = registry.add(*std::move(type));
    } else {
      one.status = type.status();
    }
    found.push_back(std::move(one));
  }
  return found;
}

backend::Registry make_registry(const Settings& settings, const telemetry::Log& log) {
  backend::Registry registry = make_registry();
  if (!settings.plugin_directory) return registry;
  const auto found = load_plugins(*settings.plugin_directory, registry);
  if (!found.ok()) {
    log.warning("no plug-ins are loaded", {{"why", found.status().to_string()}});
    return registry;
  }
  for (const PluginFound& one : *found) {
    if (one.status.ok()) continue;
    log.warning("a plug-in is not loaded", {{"file", one.file}, {"why", one.status.to_string()}});
  }
  return registry;
}

}  // namespace towpath::standard
