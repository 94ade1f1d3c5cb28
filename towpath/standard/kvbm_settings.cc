#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <towpath/core/checked.h>
#include <towpath/core/text.h>
#include <towpath/standard/kvbm_settings.h>

namespace towpath::standard {
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

class KvbmReader {
 public:
  explicit KvbmReader(KvbmSettings& out) : out_(out) {}

  /// False: the value cannot be read.
  bool cpu_gb(const std::string& text) { return size(text, out_.host.bytes); }
  bool cpu_blocks(const std::string& text) { return count(text, out_.host.blocks); }
  bool disk_gb(const std::string& text) { return size(text, out_.disk.bytes); }
  bool disk_blocks(const std::string& text) { return count(text, out_.disk.blocks); }
  bool disk_directory(const std::string& text) {
    out_.disk_directory = text;
    return true;
  }
  bool no_filter(const std::string& text) {
    const std::optional<bool> disabled = parse_switch(text);
    if (disabled) out_.second_sight = !*disabled;
    return disabled.has_value();
  }
  bool objects(const std::string& text) {
    const std::optional<bool> enabled = parse_switch(text);
    out_.objects.enabled = enabled.value_or(false);
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
    bytes = static_cast<std::uint64_t>(std::llround(*gigabytes * kGigabyte));
    return true;
  }
  static bool count(const std::string& text, std::optional<std::uint64_t>& into) {
    const auto number = number_in<std::uint64_t>(text);
    if (!number || *number == 0) return false;
    into = number;
    return true;
  }

  KvbmSettings& out_;
};

struct KnownKey {
  std::string_view name;
  bool (KvbmReader::*take)(const std::string&);
};

constexpr std::array kTaken{
    KnownKey{"CPU_CACHE_GB", &KvbmReader::cpu_gb},
    KnownKey{"CPU_CACHE_OVERRIDE_NUM_BLOCKS", &KvbmReader::cpu_blocks},
    KnownKey{"DISK_CACHE_GB", &KvbmReader::disk_gb},
    KnownKey{"DISK_CACHE_OVERRIDE_NUM_BLOCKS", &KvbmReader::disk_blocks},
    KnownKey{"DISK_CACHE_DIR", &KvbmReader::disk_directory},
    KnownKey{"DISABLE_DISK_OFFLOAD_FILTER", &KvbmReader::no_filter},
    KnownKey{"TRANSFER_BATCH_SIZE", &KvbmReader::batch},
    KnownKey{"MAX_TRANSFER_BATCH_SIZE", &KvbmReader::batch},
    KnownKey{"HOST_OFFLOAD_PREFIX_MIN_PRIORITY", &KvbmReader::priority},
    KnownKey{"OBJECT_ENABLED", &KvbmReader::objects},
    KnownKey{"OBJECT_NUM_BLOCKS", &KvbmReader::object_blocks},
    KnownKey{"OBJECT_BUCKET", &KvbmReader::bucket},
    KnownKey{"OBJECT_ENDPOINT", &KvbmReader::endpoint},
    KnownKey{"OBJECT_REGION", &KvbmReader::region},
    KnownKey{"OBJECT_ACCESS_KEY", &KvbmReader::access_key},
    KnownKey{"OBJECT_SECRET_KEY", &KvbmReader::secret_key},
};

/// What KVBM has and this has otherwise, by the beginning of the name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kElsewhere{{
    {"CACHE_STATS_", "figures are always up to date: TieredCache::figures()"},
    {"DISK_ALLOCATOR_TYPE", "segments are appended to, not allocated"},
    {"DISK_DISABLE_O_DIRECT", "bytes of the disk tier go through the page cache"},
    {"DISK_ZEROFILL_FALLBACK", "segments are appended to, not allocated"},
    {"ENABLE_NUMA", "memory is placed as its region was asked to"},
    {"ENABLE_RECORD", "the flight recorder is switched by TOWPATH_TELEMETRY_DIR"},
    {"KV_EVENTS_ENABLE_CONSOLIDATOR", "kv::Presence gives one stream of all tiers"},
    {"LEADER_", "there is no leader: agents meet at a rendezvous"},
    {"MAX_CONCURRENT_TRANSFERS", "one batch at a time goes each way"},
    {"METRICS", "telemetry is switched by TOWPATH_TELEMETRY_*"},
    {"NCCL_MLA_MODE", "nothing is broadcast"},
    {"OBJECT_WRITE_THROUGH", "blocks go down ahead of eviction, to all tiers at once"},
    {"TRTLLM_ZMQ_PORT", "there is no leader: agents meet at a rendezvous"},
}};
constexpr std::string_view kBackend = "NIXL_BACKEND_";
constexpr std::string_view kNoNuma = "DYN_MEMORY_DISABLE_NUMA";  // KVBM's later name

std::string why_not_taken(std::string_view key) {
  if (key.starts_with(kBackend))
    return "has no effect: backends are named where the agent is opened";
  for (const auto& [name, instead] : kElsewhere)
    if (key.starts_with(name)) return cat("has no effect: ", instead);
  return "is not known";
}

}  // namespace

std::optional<std::uint64_t> KvbmSize::blocks_of(std::uint64_t block_bytes) const {
  if (blocks) return blocks;
  if (!bytes) return std::nullopt;
  return *bytes / block_bytes;
}

KvbmSettings KvbmSettings::from(const Environment& environment) {
  KvbmSettings out;
  KvbmReader reader(out);
  for (const auto& [name, text] : environment) {
    if (name == kNoNuma) out.remarks.push_back({name, why_not_taken("ENABLE_NUMA")});
    if (!name.starts_with(kKvbmPrefix) || text.empty()) continue;
    const std::string_view key = std::string_view(name).substr(kKvbmPrefix.size());
    const auto taken = std::ranges::find(kTaken, key, &KnownKey::name);
    if (taken == kTaken.end())
      out.remarks.push_back({name, why_not_taken(key)});
    else if (!(reader.*taken->take)(text))
      out.remarks.push_back({name, cat("cannot be read: '", printable(text), "'")});
  }
  return out;
}

Result<KvbmSettings::Shape> KvbmSettings::shape(std::uint64_t block_bytes,
                                                std::uint64_t worker) const {
  const std::uint64_t blocks = host.blocks_of(block_bytes).value_or(0);
  if (blocks == 0)
    return error(
        Code::invalid_argument,
        cat(kKvbmPrefix, "CPU_CACHE_GB leaves no room for a block of ", block_bytes, " bytes"),
        cat("set it, or ", kKvbmPrefix, "CPU_CACHE_OVERRIDE_NUM_BLOCKS"));
  Shape shape{.host_blocks = blocks,
              .cache = cache_options(),
              .disk = disk_options(block_bytes),
              .objects = object_place(block_bytes, worker)};
  if (shape.disk && shape.disk->directory.empty())
    return error(Code::invalid_argument, cat("a disk tier without ", kKvbmPrefix, "DISK_CACHE_DIR"),
                 "name a directory of its own: what lies there is found again");
  if (shape.objects && objects.blocks == 0)
    return error(Code::invalid_argument,
                 cat("a tier of objects without ", kKvbmPrefix, "OBJECT_NUM_BLOCKS"),
                 "say how many blocks the store may have: who must go is deleted");
  return shape;
}

kv::TieredCacheOptions KvbmSettings::cache_options() const {
  kv::TieredCacheOptions options;
  options.admission = {.sightings = static_cast<std::uint8_t>(second_sight ? 2 : 1),
                       .min_priority = min_priority};
  if (batch_blocks) options.batch_blocks = *batch_blocks;
  options.batch_at_least = std::min(options.batch_at_least, options.batch_blocks);
  return options;
}

std::optional<kv::BlockStoreOptions> KvbmSettings::disk_options(std::uint64_t block_bytes) const {
  if (!disk.bytes && !disk.blocks) return std::nullopt;
  kv::BlockStoreOptions options{.directory = disk_directory};
  const std::uint64_t with_header =
      kv::room_of({.kind = kv::RecordKind::block, .length = block_bytes});
  options.capacity_bytes =
      disk.blocks ? checked_multiply(*disk.blocks, with_header).value_or(UINT64_MAX) : *disk.bytes;
  return options;
}

std::optional<ObjectPlace> KvbmSettings::object_place(std::uint64_t block_bytes,
                                                      std::uint64_t worker) const {
  constexpr std::string_view kWorker = "{worker_id}";
  if (!objects.enabled) return std::nullopt;
  std::string bucket = objects.bucket;
  if (const auto at = bucket.find(kWorker); at != std::string::npos)
    bucket.replace(at, kWorker.size(), cat(worker));
  return ObjectPlace{
      .bucket = std::move(bucket),
      .prefix = "kvbm",
      .bound_bytes =
          checked_multiply(objects.blocks, kv::object_bytes_of(block_bytes)).value_or(UINT64_MAX),
      .params = objects.params};
}

}  // namespace towpath::standard
