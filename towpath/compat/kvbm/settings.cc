#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include <towpath/compat/kvbm/file.h>
#include <towpath/compat/kvbm/settings.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/kv/tiers/object_tier.h>
#include <towpath/sys/text_file.h>

namespace towpath::kvbm {
namespace {

constexpr double kGigabyte = 1e9;
constexpr double kMostBytes = 9e18;

/// All of `text` is one number.
template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return number;
}

class Reader {
 public:
  explicit Reader(Settings& out) : out_(out) {}

  /// False: the value cannot be read.
  bool cpu_gb(const std::string& text) { return size(text, out_.host.bytes); }
  bool cpu_blocks(const std::string& text) { return blocks(text, out_.host.blocks); }
  bool disk_gb(const std::string& text) { return size(text, out_.disk.bytes); }
  bool disk_blocks(const std::string& text) { return blocks(text, out_.disk.blocks); }
  bool disk_directory(const std::string& text) {
    out_.disk_directory = text;
    return true;
  }
  bool no_filter(const std::string& text) {
    const std::optional<bool> disabled = standard::parse_switch(text);
    if (disabled) out_.second_sight = !*disabled;
    return disabled.has_value();
  }
  /// `presence_lfu` counts how often a block was seen; no policy: the default.
  bool policies(const std::string& text) {
    if (!text.starts_with('[')) return false;
    if (text != "[]") out_.second_sight = text.find("presence_lfu") != std::string::npos;
    return true;
  }
  bool object_client(const std::string& text) {
    const bool is_known = text == "s3" || text == "nixl";
    if (is_known) out_.objects.enabled = true;
    return is_known;
  }
  bool objects(const std::string& text) {
    const std::optional<bool> enabled = standard::parse_switch(text);
    if (enabled) out_.objects.enabled = *enabled;
    return enabled.has_value();
  }
  bool object_blocks(const std::string& text) {
    std::optional<std::uint64_t> blocks;
    if (!count(text, blocks)) return false;
    out_.objects.blocks = *blocks;
    return true;
  }
  bool bucket(const std::string& text) {
    out_.objects.bucket = text;
    return true;
  }
  bool endpoint(const std::string& text) { return param("endpoint_override", text); }
  bool region(const std::string& text) { return param("region", text); }
  bool access_key(const std::string& text) { return param("access_key", text); }
  bool secret_key(const std::string& text) { return param("secret_key", text); }
  bool batch(const std::string& text) { return count(text, out_.batch_blocks); }
  bool priority(const std::string& text) {
    const auto least = number_in<unsigned>(text);
    if (!least || *least > UINT8_MAX) return false;
    out_.min_priority = static_cast<std::uint8_t>(*least);
    return true;
  }

 private:
  bool param(const char* name, const std::string& text) {
    out_.objects.params[name] = text;
    return true;
  }
  static bool size(const std::string& text, std::optional<std::uint64_t>& bytes) {
    const auto gigabytes = number_in<double>(text);
    if (!gigabytes || !(*gigabytes >= 0) || *gigabytes * kGigabyte > kMostBytes) return false;
    bytes = said(static_cast<std::uint64_t>(std::llround(*gigabytes * kGigabyte)));
    return true;
  }
  static bool blocks(const std::string& text, std::optional<std::uint64_t>& blocks) {
    const auto number = number_in<std::uint64_t>(text);
    if (number) blocks = said(*number);
    return number.has_value();
  }
  /// To KVBM a size of 0 is none: so a tier is switched off, and an override.
  static std::optional<std::uint64_t> said(std::uint64_t size) {
    return size > 0 ? std::optional(size) : std::nullopt;
  }
  static bool count(const std::string& text, std::optional<std::uint64_t>& into) {
    const auto number = number_in<std::uint64_t>(text);
    if (!number || *number == 0) return false;
    into = number;
    return true;
  }

  Settings& out_;
};

struct KnownKey {
  /// Its name is behind DYN_KVBM_; empty: it has none.
  standard::Setting setting;
  std::string_view path;  ///< in files; empty: it has none
  bool (Reader::*take)(const std::string&);
};

constexpr std::array kTaken{
    KnownKey{{"CPU_CACHE_GB", "a number", "none", "size of the host's pool, in 10^9 bytes"},
             "cache.host.cache_size_gb",
             &Reader::cpu_gb},
    KnownKey{{"CPU_CACHE_OVERRIDE_NUM_BLOCKS", "a number", "by the size", "the same, in blocks"},
             "cache.host.num_blocks",
             &Reader::cpu_blocks},
    KnownKey{{"DISK_CACHE_GB", "a number", "no disk", "size of the tier of files, in 10^9 bytes"},
             "cache.disk.cache_size_gb",
             &Reader::disk_gb},
    KnownKey{{"DISK_CACHE_OVERRIDE_NUM_BLOCKS", "a number", "by the size", "the same, in blocks"},
             "cache.disk.num_blocks",
             &Reader::disk_blocks},
    KnownKey{{"DISK_CACHE_DIR", "a directory", "none", "where the files are"},
             "cache.disk.storage_path",
             &Reader::disk_directory},
    KnownKey{{"DISABLE_DISK_OFFLOAD_FILTER", "0, 1", "0", "files take blocks at first sight"},
             "",
             &Reader::no_filter},
    KnownKey{{"", "[\"pass_all\"], [\"presence_lfu\"]", "presence_lfu", "the same"},
             "offload.g2_to_g3.policies",
             &Reader::policies},
    KnownKey{{"TRANSFER_BATCH_SIZE", "blocks", "the cache's own", "demoted at once, at most"},
             "",
             &Reader::batch},
    KnownKey{{"MAX_TRANSFER_BATCH_SIZE", "blocks", "the cache's own", "demoted at once, at most"},
             "offload.g1_to_g2.max_batch_size",
             &Reader::batch},
    KnownKey{{"HOST_OFFLOAD_PREFIX_MIN_PRIORITY", "0 to 255", "0", "less urgent blocks stay"},
             "offload.g1_to_g2.min_priority",
             &Reader::priority},
    KnownKey{{"OBJECT_ENABLED", "0, 1", "0", "a tier of objects"}, "", &Reader::objects},
    KnownKey{{"", "s3, nixl", "none", "the same"}, "object.client.type", &Reader::object_client},
    KnownKey{{"OBJECT_NUM_BLOCKS", "blocks", "none", "its size"}, "", &Reader::object_blocks},
    KnownKey{{"OBJECT_BUCKET", "a name, {worker_id} in it", "kvbm-blocks", "where it is"},
             "object.client.bucket",
             &Reader::bucket},
    KnownKey{{"OBJECT_ENDPOINT", "a URL", "by AWS_*", "of the store"},
             "object.client.endpoint_url",
             &Reader::endpoint},
    KnownKey{{"OBJECT_REGION", "a name", "by AWS_*", "of the store"},
             "object.client.region",
             &Reader::region},
    KnownKey{{"OBJECT_ACCESS_KEY", "a name", "by AWS_*", "its user"}, "", &Reader::access_key},
    KnownKey{{"OBJECT_SECRET_KEY", "a key", "by AWS_*", "its secret", false, true},
             "",
             &Reader::secret_key},
};

constexpr std::string_view kByTelemetry =
    "the flight recorder is switched by TOWPATH_TELEMETRY_ENABLE=1 and TOWPATH_TELEMETRY_DIR";
/// What KVBM has and this has otherwise, by the beginning of the name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kElsewhere{{
    {"CACHE_STATS_", "figures are always up to date: TieredCache::figures()"},
    {"DISK_ALLOCATOR_TYPE", "the room of a segment is reserved when it is begun, by fallocate(2)"},
    {"DISK_DISABLE_O_DIRECT",
     "files go through the page cache unless the connector's `direct` is set"},
    {"DISK_ZEROFILL_FALLBACK", "a segment is filled with zeros where there is no fallocate(2)"},
    {"ENABLE_NUMA", "memory is placed as its region was asked to"},
    {"ENABLE_RECORD", kByTelemetry},
    {"KV_EVENTS_ENABLE_CONSOLIDATOR", "kv::BlockDirectory gives one stream of all tiers"},
    {"LEADER_", "there is no leader: agents meet at a rendezvous"},
    {"MAX_CONCURRENT_TRANSFERS", "each tier takes as many blocks at a time as suits it"},
    {"METRICS", "telemetry is switched by TOWPATH_TELEMETRY_*"},
    {"NCCL_MLA_MODE", "nothing is broadcast"},
    {"OBJECT_WRITE_THROUGH", "blocks are demoted ahead of eviction, to all tiers at once"},
    {"TRTLLM_ZMQ_PORT", "there is no leader: agents meet at a rendezvous"},
}};
/// The same of paths.
constexpr std::array<std::pair<std::string_view, std::string_view>, 20> kElsewhereByPath{{
    {"cache.disk.use_gds", "backends are named where the agent is opened"},
    {"cache.parallelism", "nothing is broadcast"},
    {"control.", "there is no control server: `towpath top` reads what telemetry writes"},
    {"debug.recording", kByTelemetry},
    {"disagg.", "there is no hub: agents meet at a rendezvous"},
    {"events.", "a scheduler's take_events() gives them to the engine, who publishes them"},
    {"hub.", "there is no hub: agents meet at a rendezvous"},
    {"leader.", "there is no leader"},
    {"messenger.", "agents meet at a rendezvous"},
    {"metrics.", "telemetry is switched by TOWPATH_TELEMETRY_*"},
    {"nixl.", "backends are named where the agent is opened"},
    {"nova.", "agents meet at a rendezvous"},
    {"object.client.",
     "the backend `object` has options of its own (docs/guides/object_storage.md)"},
    {"offload.g1_to_g2.", "what an engine computes is saved, layer by layer"},
    {"offload.g2_to_g3.", "one admission holds for all tiers below the host's"},
    {"onboard.mode", "loads are in the background from `background_from_tokens` on"},
    {"profiling.", kByTelemetry},
    {"rayon.", "there are no threads but those that are asked for"},
    {"tokio.", "there are no threads but those that are asked for"},
    {"worker.", "tiers are as large as the leader's settings say"},
}};
constexpr std::string_view kNoEffect = "has no effect: ";
constexpr std::string_view kNativePrefix = "KVBM_";
constexpr std::string_view kFileVariable = "KVBM_CONFIG_PATH";
constexpr std::string_view kBackend = "NIXL_BACKEND_";
constexpr std::string_view kNoNuma = "DYN_MEMORY_DISABLE_NUMA";  // KVBM's later name

std::string why_not_taken(std::string_view key) {
  if (key.starts_with(kBackend))
    return cat(kNoEffect, "backends are named where the agent is opened");
  for (const auto& [name, instead] : kElsewhere)
    if (key.starts_with(name)) return cat(kNoEffect, instead);
  return "is not known";
}

std::string why_not_taken_path(std::string_view path) {
  for (const auto& [name, instead] : kElsewhereByPath)
    if (path.starts_with(name)) return cat(kNoEffect, instead);
  return "is not known";
}

/// KVBM_CACHE_HOST_NUM_BLOCKS, of cache.host.num_blocks; of a beginning of it its beginning.
std::string variable_of(std::string_view path) {
  std::string name(kNativePrefix);
  for (const char c : path)
    name.push_back(c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  return name;
}

std::string why_not_taken_variable(std::string_view name) {
  for (const auto& [path, instead] : kElsewhereByPath)
    if (name.starts_with(variable_of(path))) return cat(kNoEffect, instead);
  return "is not known";
}

/// Hears all that the sources say, a later one after those that it wins over.
class Listener {
 public:
  Listener() {
    for (const KnownKey& key : kTaken)
      rows_.push_back({.setting = key.setting,
                       .name = key.setting.name.empty() ? variable_of(key.path)
                                                        : cat(kPrefix, key.setting.name)});
  }
  void known(const KnownKey& key, const std::string& name, const std::string& value) {
    if (!(Reader(settings_).*key.take)(value))
      return unknown(name, cat("cannot be read: '", printable(value), "'"));
    standard::GivenSetting& row = rows_[static_cast<std::size_t>(&key - kTaken.data())];
    row.value = key.setting.is_secret ? "(hidden)" : value;
    row.source = name;
  }
  void unknown(const std::string& name, std::string why) {
    settings_.remarks.push_back({name, std::move(why)});
  }

  Settings take_settings() { return std::move(settings_); }
  std::vector<standard::GivenSetting> take_rows() { return std::move(rows_); }

 private:
  Settings settings_;
  std::vector<standard::GivenSetting> rows_;  // as kTaken
};

void hear_variables(const standard::Environment& environment, Listener& listener) {
  for (const auto& [name, text] : environment) {
    if (name == kNoNuma) listener.unknown(name, why_not_taken("ENABLE_NUMA"));
    if (!name.starts_with(kPrefix) || text.empty()) continue;
    const std::string_view key = std::string_view(name).substr(kPrefix.size());
    const auto* const found =
        std::ranges::find(kTaken, key, [](const KnownKey& one) { return one.setting.name; });
    if (key.empty() || found == kTaken.end())
      listener.unknown(name, why_not_taken(key));
    else
      listener.known(*found, name, text);
  }
}

void hear_native_variables(const standard::Environment& environment, Listener& listener) {
  for (const auto& [name, text] : environment) {
    if (!name.starts_with(kNativePrefix) || name == kFileVariable || text.empty()) continue;
    const auto* const found = std::ranges::find_if(kTaken, [&](const KnownKey& key) {
      return !key.path.empty() && variable_of(key.path) == name;
    });
    if (found == kTaken.end())
      listener.unknown(name, why_not_taken_variable(name));
    else
      listener.known(*found, name, text);
  }
}

/// Those of one section: "" is what stands in none.
void hear_section(const std::vector<Setting>& settings, std::string_view section,
                  Listener& listener) {
  constexpr std::array<std::string_view, 2> kSections{"default.", "leader."};
  for (const Setting& setting : settings) {
    std::string_view path = setting.path;
    if (path.starts_with("profile.")) path.remove_prefix(std::string_view("profile.").size());
    const auto* const named =
        std::ranges::find_if(kSections, [&](auto one) { return path.starts_with(one); });
    if ((named == kSections.end() ? "" : *named) != section) continue;
    path.remove_prefix(section.size());
    const std::string name = cat(setting.place, " ", setting.path);
    const auto* const found = std::ranges::find_if(
        kTaken, [&](const KnownKey& key) { return !key.path.empty() && key.path == path; });
    if (found == kTaken.end())
      listener.unknown(name, why_not_taken_path(path));
    else
      listener.known(*found, name, setting.value);
  }
}

void hear_settings(const std::vector<Setting>& settings, Listener& listener) {
  for (const std::string_view section : {"default.", "", "leader."})
    hear_section(settings, section, listener);
}

Status hear_file(const std::string& path, Listener& listener) {
  TOWPATH_TRY(const std::string text, sys::read_text_file(path));
  TOWPATH_TRY(const auto settings, parse_kvbm_toml(text, path));
  hear_settings(settings, listener);
  return {};
}

Status hear_all(const standard::Environment& environment, const Sources& sources,
                Listener& listener) {
  hear_variables(environment, listener);
  const Status system = hear_file(sources.system_file, listener);
  if (!system.ok() && system.code() != Code::not_found) return system;
  const auto named = environment.find(std::string(kFileVariable));
  if (named != environment.end() && !named->second.empty()) {
    Status read = hear_file(named->second, listener);
    if (read.code() == Code::not_found)
      return error(Code::not_found,
                   cat(kFileVariable, "='", printable(named->second, 256), "' is not there"),
                   "name a file, or unset it");
    TOWPATH_TRY(std::move(read));
  }
  hear_native_variables(environment, listener);
  if (!sources.json.empty()) {
    TOWPATH_TRY(const auto settings, parse_kvbm_json(sources.json, "JSON"));
    hear_settings(settings, listener);
  }
  return {};
}

/// What may have been meant by it is the cause where something is missing. Ok: there is none.
Status not_understood(const std::vector<standard::Remark>& remarks) {
  std::string all;
  for (const standard::Remark& remark : remarks)
    if (!remark.why.starts_with(kNoEffect))
      all += cat(all.empty() ? "" : "; ", printable(remark.variable), " ", remark.why);
  return all.empty() ? Status() : error(Code::invalid_argument, std::move(all));
}

}  // namespace

std::optional<std::uint64_t> Size::blocks_of(std::uint64_t block_bytes) const {
  if (blocks) return blocks;
  if (!bytes) return std::nullopt;
  return *bytes / block_bytes;
}

Settings Settings::from(const standard::Environment& environment) {
  Listener listener;
  hear_variables(environment, listener);
  hear_native_variables(environment, listener);
  return listener.take_settings();
}

Result<Settings> Settings::read(const standard::Environment& environment, const Sources& sources) {
  Listener listener;
  TOWPATH_TRY(hear_all(environment, sources, listener));
  return listener.take_settings();
}

Result<std::vector<standard::GivenSetting>> given_settings(const standard::Environment& environment,
                                                           const Sources& sources) {
  Listener listener;
  TOWPATH_TRY(hear_all(environment, sources, listener));
  return listener.take_rows();
}

Result<Settings::Shape> Settings::shape(std::uint64_t block_bytes, std::uint64_t worker) const {
  const std::uint64_t blocks = host.blocks_of(block_bytes).value_or(0);
  if (blocks == 0)
    return error(Code::invalid_argument,
                 cat(kPrefix, "CPU_CACHE_GB leaves no room for a block of ", block_bytes, " bytes"),
                 cat("set it, or ", kPrefix, "CPU_CACHE_OVERRIDE_NUM_BLOCKS"))
        .because(not_understood(remarks));
  Shape shape{.host_blocks = blocks,
              .cache = cache_options(),
              .disk = disk_options(block_bytes),
              .objects = object_place(block_bytes, worker)};
  if (shape.disk && shape.disk->directory.empty())
    return error(Code::invalid_argument, cat("a disk tier without ", kPrefix, "DISK_CACHE_DIR"),
                 "name a directory of its own: what lies there is found again")
        .because(not_understood(remarks));
  if (shape.objects && objects.blocks == 0)
    return error(Code::invalid_argument,
                 cat("a tier of objects without ", kPrefix, "OBJECT_NUM_BLOCKS"),
                 "say how many blocks the store may have: who must go is deleted")
        .because(not_understood(remarks));
  return shape;
}

kv::TieredCacheOptions Settings::cache_options() const {
  kv::TieredCacheOptions options;
  options.admission = {.min_accesses = second_sight ? 2U : 1U, .min_priority = min_priority};
  if (batch_blocks) {
    options.batch_blocks = *batch_blocks;
    options.batch_bytes = 0;  // theirs has blocks only
  }
  options.batch_at_least = std::min(options.batch_at_least, options.batch_blocks);
  return options;
}

std::optional<kv::BlockStoreOptions> Settings::disk_options(std::uint64_t block_bytes) const {
  if (!disk.bytes && !disk.blocks) return std::nullopt;
  kv::BlockStoreOptions options{.directory = disk_directory};
  const std::uint64_t with_header =
      kv::room_of({.kind = kv::RecordKind::block, .length = block_bytes});
  options.capacity_bytes =
      disk.blocks ? checked_multiply(*disk.blocks, with_header).value_or(UINT64_MAX) : *disk.bytes;
  return options;
}

std::optional<standard::ObjectPlace> Settings::object_place(std::uint64_t block_bytes,
                                                            std::uint64_t worker) const {
  constexpr std::string_view kWorker = "{worker_id}";
  if (!objects.enabled) return std::nullopt;
  std::string bucket = objects.bucket;
  if (const auto at = bucket.find(kWorker); at != std::string::npos)
    bucket.replace(at, kWorker.size(), cat(worker));
  return standard::ObjectPlace{
      .bucket = std::move(bucket),
      .prefix = "kvbm",
      .bound_bytes =
          checked_multiply(objects.blocks, kv::object_bytes_of(block_bytes)).value_or(UINT64_MAX),
      .params = objects.params};
}

}  // namespace towpath::kvbm
