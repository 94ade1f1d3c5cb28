#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include <towpath/compat/nixl/params.h>
#include <towpath/core/format.h>

namespace towpath::nixl {
namespace {

struct OnlyNixls {
  std::string_view backend;  // of ours, or several
  std::string_view name;
  std::string_view why;
};

/// What ours calls by another name.
struct Renamed {
  std::string_view backend;
  std::string_view nixls;
  std::string_view ours;
};

constexpr std::array<Renamed, 1> kRenamed = {{{"ucx", "device_list", "devices"}}};

constexpr std::string_view kUcxConfigures = "set UCX_* variables or the backend's own parameters";
constexpr std::string_view kCopyThreads = "copy_threads";
constexpr std::string_view kOneEngine = "the backend chooses between io_uring and threads: engine";
constexpr std::string_view kEnginesOwn = "the engine's own";
constexpr std::string_view kFiles = "posix and gds";
constexpr std::string_view kStorage = "posix, gds and object";

// shm is used instead where there is no UCX, so it hears the same.
constexpr std::array<OnlyNixls, 27> kOnlyNixls = {{
    {"ucx", "device_list", "it leaves no host"},
    {"ucx", "ucx_devices", kUcxConfigures},
    {"ucx", "num_workers", "one worker serves an agent"},
    {"ucx", "num_threads", "the agent's progress thread serves all backends"},
    {"ucx", "split_batch_size", "large lists are posted in slices"},
    {"ucx", "ucx_num_device_channels", "no transfer is started by a GPU"},
    {"ucx", "ucx_error_handling_mode", "failures of peers are always reported"},
    {"ucx", "ucx_ep_close_force", "a lost connection is always cut"},
    {"ucx", "engine_config", "there is no UCX here"},
    {"posix", "use_aio", kOneEngine},
    {"posix", "use_uring", kOneEngine},
    {"posix", "use_posix_aio", kOneEngine},
    {"posix", "ios_pool_size", "there is no such pool"},
    {"posix", "kernel_queue_size", "use depth"},
    {"gds", "batch_pool_size", "each thread has a batch of its own: thread_count"},
    {"gds", "max_request_size", "use chunk_bytes"},
    // LMCache and SGLang pass on all that they were configured with.
    {kFiles, "file_path", kEnginesOwn},
    {kFiles, "file_size", kEnginesOwn},
    {kFiles, "shard_dirs", kEnginesOwn},
    {kFiles, "use_direct_io", kEnginesOwn},
    {kStorage, "active", kEnginesOwn},
    {kStorage, "file_storage_path", kEnginesOwn},
    {kStorage, "hicache_storage_pass_prefix_keys", kEnginesOwn},
    {kStorage, "max_capacity_gb", kEnginesOwn},
    {kStorage, "prefetch_threshold", kEnginesOwn},
    {kStorage, "prefetch_timeout_base", kEnginesOwn},
    {kStorage, "prefetch_timeout_per_ki_token", kEnginesOwn},
}};

bool reads(const backend::BackendType& type, std::string_view name) {
  return std::ranges::find(type.params, name, &backend::ParamInfo::name) != type.params.end();
}

bool is_of(std::string_view backends, std::string_view type) {
  const bool has_files = type == "posix" || type == "gds";
  if (backends == kFiles) return has_files;
  if (backends == kStorage) return has_files || type == "object";
  return backends == (type == "shm" ? "ucx" : type);
}

const OnlyNixls* find_nixls(std::string_view type, std::string_view name) {
  for (const OnlyNixls& known : kOnlyNixls) {
    if (is_of(known.backend, type) && known.name == name) return &known;
  }
  return nullptr;
}

std::string_view our_name(const backend::BackendType& type, std::string_view name) {
  for (const Renamed& known : kRenamed) {
    if (known.backend == type.name && known.nixls == name && reads(type, known.ours))
      return known.ours;
  }
  return name;
}

constexpr std::string_view kEngineConfig = "engine_config";
constexpr std::string_view kSettings = "settings";
constexpr std::string_view kTransports = "transports";

/// "NAME=VALUE,UCX_NAME=VALUE" is what NIXL hands to UCX; "NAME=VALUE;NAME=VALUE" is what ours
/// does. What decides on shared memory, too, has a parameter of its own.
void take_engine_config(std::string_view text, backend::Params& into) {
  std::string& settings = into[std::string(kSettings)];
  while (!text.empty()) {
    std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    if (one.starts_with("UCX_")) one.remove_prefix(4);
    if (one.starts_with("TLS="))
      into.try_emplace(std::string(kTransports), one.substr(4));
    else if (!one.empty())
      settings += cat(settings.empty() ? "" : ";", one);
  }
}

backend::Params with_engine_config(const backend::BackendType& type, backend::Params given) {
  const auto found = given.find(std::string(kEngineConfig));
  if (found == given.end() || !reads(type, kSettings)) return given;
  const std::string text = std::move(found->second);
  given.erase(found);
  take_engine_config(text, given);
  return given;
}

}  // namespace

TranslatedParams translate_params(const backend::BackendType& type, const backend::Params& said) {
  TranslatedParams translated;
  const backend::Params given = with_engine_config(type, said);
  for (const auto& [reported, value] : given) {
    const std::string_view name = our_name(type, reported);
    const OnlyNixls* nixls = reads(type, name) ? nullptr : find_nixls(type.name, name);
    if (nixls == nullptr) {
      if (name == reported || !given.contains(std::string(name)))
        translated.params.emplace(name, value);
      else
        translated.remarks.push_back(
            cat(reported, "=", printable(value), " has no effect: ", name, " is given, too"));
    } else {
      translated.remarks.push_back(
          cat(name, "=", printable(value), " has no effect on ", type.name, ": ", nixls->why));
    }
  }
  // Elsewhere the library starts no thread unless asked; NIXL's users have some for their
  // transfers.
  if (reads(type, kCopyThreads)) translated.params.try_emplace(std::string(kCopyThreads), "auto");
  return translated;
}

backend::Params with_defaults(const backend::BackendType& type, const backend::Params& set) {
  backend::Params all = set;
  for (const backend::ParamInfo& known : type.params)
    all.try_emplace(known.name, known.default_value);
  return all;
}

backend::Params nixl_answer(backend::Params answer) {
  if (const auto mode = answer.find("mode"); mode != answer.end()) {
    std::uint32_t bits = 0;
    const std::string& octal = mode->second;
    const char* const end = octal.data() + octal.size();
    if (std::from_chars(octal.data(), end, bits, 8).ptr == end) mode->second = cat(bits);
  }
  if (const auto time = answer.find("mtime"); time != answer.end())
    time->second = time->second.substr(0, time->second.find('.'));
  return answer;
}

backend::Params nixl_defaults(const backend::BackendType& type) {
  return with_defaults(type, translate_params(type, {}).params);
}

}  // namespace towpath::nixl
