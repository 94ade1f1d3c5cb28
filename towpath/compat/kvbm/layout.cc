#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <towpath/compat/kvbm/layout.h>
#include <towpath/compat/kvbm/words.h>
#include <towpath/core/format.h>

namespace towpath::kvbm {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;  // KVBM's order of fields
using Names = std::initializer_list<const char*>;

constexpr std::size_t kDeepest = 8;  // of brackets; version 1 has 5
constexpr const char* kHint = "write it as KVBM's LayoutDescriptor::to_json() does";

Status refuse(Code code, std::string_view path, std::string_view why) {
  return error(code, cat("KVBM's layout descriptor: ", path, " ", why), kHint);
}

/// A value as it may stand in a message.
std::string shown(const Json& value) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Status wrong(std::string_view path, const Json& value, std::string_view wanted) {
  return refuse(Code::corrupt, path, cat("is ", shown(value), ", not ", wanted));
}

// ---- text to JSON ----

/// Reads it once before a tree is made of it: who keeps a tree has forgotten what stood twice.
class Watch final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    refused = refuse(Code::corrupt, printable(name), "stands twice in one object");
    return false;
  }

  bool parse_error(std::size_t, const std::string&, const Json::exception& e) override {
    refused = refuse(Code::corrupt, "it", cat("is no JSON: ", printable(e.what(), 160)));
    return false;
  }

  Status refused;

 private:
  bool open() {
    open_.emplace_back();
    if (open_.size() <= kDeepest) return true;
    refused = refuse(Code::corrupt, "it", cat("is nested deeper than ", kDeepest));
    return false;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> open_;  // keys of what is open; of a list none
};

Result<Json> parse(std::string_view text) {
  if (text.size() > kMaxKvbmJsonBytes)
    return refuse(Code::out_of_range, "it",
                  cat("is ", text.size(), " bytes long, at most ", kMaxKvbmJsonBytes, " are read"));
  Watch watch;
  if (!Json::sax_parse(text, &watch)) return watch.refused;
  return Json::parse(text);  // it is JSON
}

// ---- JSON to words ----

Status check_object(const Json& value, std::string_view path, Names required, Names optional = {}) {
  if (!value.is_object()) return wrong(path, value, "an object");
  for (const char* name : required)
    if (!value.contains(name)) return refuse(Code::corrupt, path, cat("has no ", name));
  for (const auto& [key, unused] : value.items()) {
    const auto is_key = [&, &name = key](const char* each) { return name == each; };
    if (std::ranges::none_of(required, is_key) && std::ranges::none_of(optional, is_key))
      return refuse(Code::unsupported, path,
                    cat("has a field that version 1 has not: ", printable(key)));
  }
  return {};
}

Result<std::uint64_t> number_of(const Json& value, std::string_view path,
                                std::uint64_t max = UINT64_MAX) {
  if (!value.is_number_unsigned()) return wrong(path, value, "a whole number below 2^64");
  const auto number = value.get<std::uint64_t>();
  if (number <= max) return number;
  return refuse(Code::out_of_range, path, cat("is ", number, ", over its bound ", max));
}

Result<std::string> text_of(const Json& value, std::string_view path, std::size_t max) {
  if (!value.is_string()) return wrong(path, value, "text");
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() <= max) return text;
  return refuse(Code::out_of_range, path,
                cat("is ", text.size(), " bytes long, over its bound ", max));
}

template <typename Enum, std::size_t N>
Result<Enum> word_in(const std::array<std::string_view, N>& words, const std::string& word,
                     std::string_view path) {
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<Enum>(found - words.begin());
  std::string known;
  for (const std::string_view each : words) known += cat(known.empty() ? "" : ", ", each);
  return refuse(Code::unsupported, path,
                cat("is '", printable(word), "'; version 1 knows ", known));
}

template <typename Enum, std::size_t N>
Result<Enum> plain_word(const std::array<std::string_view, N>& words, const Json& value,
                        std::string_view path) {
  if (!value.is_string()) return wrong(path, value, "a word");
  return word_in<Enum>(words, value.get_ref<const std::string&>(), path);
}

/// "System", or {"Device": 3}: a word, with what it says where it says more.
struct Tagged {
  std::string word;
  const Json* payload = nullptr;
};
Result<Tagged> tagged(const Json& value, std::string_view path) {
  if (value.is_string()) return Tagged{value.get<std::string>(), nullptr};
  if (!value.is_object() || value.size() != 1)
    return wrong(path, value, "a word, or an object of one");
  return Tagged{value.begin().key(), &value.begin().value()};
}

Status check_payload(const Tagged& tag, bool wanted, std::string_view path) {
  if ((tag.payload != nullptr) == wanted) return {};
  return refuse(Code::corrupt, path,
                cat("is ", printable(tag.word), wanted ? " and does not say which" : " with more"));
}

Status take_config(const Json& json, layout::LayoutConfig& config) {
  const struct {
    const char* name;
    std::uint64_t& into;
  } numbers[] = {{"num_blocks", config.num_blocks},
                 {"num_layers", config.num_layers},
                 {"outer_dim", config.outer_dim},
                 {"page_size", config.page_size},
                 {"inner_dim", config.inner_dim},
                 {"alignment", config.alignment},
                 {"dtype_width_bytes", config.dtype_width_bytes}};
  TOWPATH_TRY(check_object(json, "layout_config",
                           {"num_blocks", "num_layers", "outer_dim", "page_size", "inner_dim",
                            "alignment", "dtype_width_bytes"},
                           {"num_heads"}));
  for (const auto& [name, into] : numbers) {
    TOWPATH_TRY(into, number_of(json.at(name), cat("layout_config.", name)));
  }
  const auto heads = json.find("num_heads");
  if (heads == json.end() || heads->is_null()) return {};
  TOWPATH_TRY(config.num_heads, number_of(*heads, "layout_config.num_heads"));
  return {};
}

Status take_location(const Json& json, Words& words) {
  constexpr std::string_view kPath = "location";
  TOWPATH_TRY(const Tagged tag, tagged(json, kPath));
  TOWPATH_TRY(words.storage, word_in<Storage>(kStorageWords, tag.word, kPath));
  TOWPATH_TRY(check_payload(tag, has_number(words.storage), kPath));
  if (tag.payload == nullptr) return {};
  const bool is_ordinal = words.storage == Storage::device;
  TOWPATH_TRY(words.storage_number, number_of(*tag.payload, cat(kPath, ".", tag.word),
                                              is_ordinal ? UINT32_MAX : UINT64_MAX));
  return {};
}

Status take_nixl(const Json& json, Words& words) {
  TOWPATH_TRY(check_object(json, "nixl_metadata", {"agent_name", "mem_type", "device_id"}));
  TOWPATH_TRY(words.agent_name,
              text_of(json.at("agent_name"), "nixl_metadata.agent_name", kMaxAgentName));
  TOWPATH_TRY(words.memory, plain_word<NixlMemory>(kNixlMemoryWords, json.at("mem_type"),
                                                   "nixl_metadata.mem_type"));
  TOWPATH_TRY(words.device_id, number_of(json.at("device_id"), "nixl_metadata.device_id"));
  return {};
}

Status take_regions(const Json& json, std::vector<layout::RegionExtent>& into) {
  if (!json.is_array()) return wrong("memory_descriptors", json, "a list");
  if (json.size() > layout::kMaxRegions)
    return refuse(Code::out_of_range, "memory_descriptors",
                  cat("has ", json.size(), " regions, at most ", layout::kMaxRegions, " are read"));
  into.reserve(json.size());
  for (const Json& each : json) {
    const std::string path = cat("memory_descriptors[", into.size(), "]");
    TOWPATH_TRY(check_object(each, path, {"addr", "size"}));
    layout::RegionExtent region;
    TOWPATH_TRY(region.address, number_of(each.at("addr"), cat(path, ".addr")));
    TOWPATH_TRY(region.length, number_of(each.at("size"), cat(path, ".size")));
    into.push_back(region);
  }
  return {};
}

Status take_order(const Json& details, const std::string& above, Words& words) {
  const auto found = details.find("kv_block_layout");
  if (found == details.end()) return {};  // as KVBM: Unknown
  const std::string path = cat(above, ".kv_block_layout");
  TOWPATH_TRY(Tagged tag, tagged(*found, path));
  if (tag.word == "Universal") tag.word = word_of(Order::universal_tp);  // its later name
  TOWPATH_TRY(words.order, word_in<Order>(kOrderWords, tag.word, path));
  return check_payload(tag, words.order == Order::custom, path);
}

Status take_details(const Json& json, Words& words) {
  constexpr std::string_view kPath = "layout_type_details";
  TOWPATH_TRY(const Tagged tag, tagged(json, kPath));
  TOWPATH_TRY(words.kind, word_in<Kind>(kKindWords, tag.word, kPath));
  TOWPATH_TRY(check_payload(tag, true, kPath));
  const std::string path = cat(kPath, ".", tag.word);
  const bool is_whole = words.kind == Kind::fully_contiguous;
  const char* const first = is_whole ? "block_format" : "block_dim";
  TOWPATH_TRY(check_object(*tag.payload, path, {first}, {"kv_block_layout"}));
  const Json& said = tag.payload->at(first);
  const std::string of_first = cat(path, ".", first);
  if (is_whole) {
    TOWPATH_TRY(plain_word<int>(kFormatWords, said, of_first));
  } else {
    TOWPATH_TRY(words.dimension,
                plain_word<layout::BlockDimension>(kDimensionWords, said, of_first));
  }
  return take_order(*tag.payload, path, words);
}

Result<Words> words_of(const Json& json) {
  if (!json.is_object()) return wrong("it", json, "an object");
  // Before all else: another version may have other fields.
  if (!json.contains("version")) return refuse(Code::corrupt, "it", "has no version");
  TOWPATH_TRY(const std::uint64_t version, number_of(json.at("version"), "version"));
  TOWPATH_TRY(check_kvbm_version(version));
  TOWPATH_TRY(check_object(json, "it",
                           {"version", "layout_config", "location", "nixl_metadata",
                            "memory_descriptors", "layout_type_details"}));
  Words words;
  TOWPATH_TRY(take_config(json.at("layout_config"), words.config));
  TOWPATH_TRY(take_location(json.at("location"), words));
  TOWPATH_TRY(take_nixl(json.at("nixl_metadata"), words));
  TOWPATH_TRY(take_regions(json.at("memory_descriptors"), words.regions));
  TOWPATH_TRY(take_details(json.at("layout_type_details"), words));
  return words;
}

// ---- words to JSON ----

Ordered config_of(const layout::LayoutConfig& config) {
  return {{"num_blocks", config.num_blocks},
          {"num_layers", config.num_layers},
          {"outer_dim", config.outer_dim},
          {"page_size", config.page_size},
          {"inner_dim", config.inner_dim},
          {"alignment", config.alignment},
          {"dtype_width_bytes", config.dtype_width_bytes},
          {"num_heads", config.num_heads ? Ordered(*config.num_heads) : Ordered()}};
}

Ordered location_of(const Words& words) {
  const std::string word(word_of(words.storage));
  if (!has_number(words.storage)) return word;
  return {{word, words.storage_number}};
}

Ordered regions_of(const std::vector<layout::RegionExtent>& regions) {
  Ordered list = Ordered::array();
  for (const layout::RegionExtent& region : regions)
    list.push_back({{"addr", region.address}, {"size", region.length}});
  return list;
}

Ordered details_of(const Words& words) {
  Ordered details;
  if (words.kind == Kind::fully_contiguous) {
    details["block_format"] = kFormatWords[0];
  } else {
    details["block_dim"] = word_of(words.dimension);
  }
  details["kv_block_layout"] = word_of(words.order);
  return {{std::string(word_of(words.kind)), details}};
}

}  // namespace

Result<layout::LayoutDescriptor> parse_kvbm_layout(std::string_view json, const Terms& terms) {
  TOWPATH_TRY(const Json parsed, parse(json));
  TOWPATH_TRY(Words words, words_of(parsed));
  return descriptor_of(std::move(words), terms);
}

Result<std::string> to_kvbm_json(const layout::LayoutDescriptor& descriptor) {
  TOWPATH_TRY(const Words words, kvbm_words_of(descriptor));
  Ordered json;
  json["version"] = kLayoutVersion;
  json["layout_config"] = config_of(words.config);
  json["location"] = location_of(words);
  json["nixl_metadata"] = {{"agent_name", words.agent_name},
                           {"mem_type", word_of(words.memory)},
                           {"device_id", words.device_id}};
  json["memory_descriptors"] = regions_of(words.regions);
  json["layout_type_details"] = details_of(words);
  return json.dump();
}

}  // namespace towpath::kvbm
