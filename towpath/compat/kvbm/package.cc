#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <towpath/agent/metadata.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/compat/kvbm/bincode.h>
#include <towpath/compat/kvbm/package.h>
#include <towpath/compat/kvbm/words.h>
#include <towpath/core/format.h>
#include <towpath/layout/layout_codec.h>

namespace towpath::kvbm {
namespace {

using layout::RegionExtent;

constexpr std::array<std::string_view, 4> kTiers = {"g1", "g2", "g3", "g4"};  // at their places
constexpr std::uint64_t kLayoutIdBits = 16;  // of the handle's upper half; the rest is reserved

// ---- the words of a layout ----

Result<layout::LayoutConfig> read_config(BincodeReader& in) {
  layout::LayoutConfig config;
  TOWPATH_TRY(config.num_blocks, in.number("num_blocks"));
  TOWPATH_TRY(config.num_layers, in.number("num_layers"));
  TOWPATH_TRY(config.outer_dim, in.number("outer_dim"));
  TOWPATH_TRY(config.page_size, in.number("page_size"));
  TOWPATH_TRY(config.inner_dim, in.number("inner_dim"));
  TOWPATH_TRY(config.alignment, in.number("alignment"));
  TOWPATH_TRY(config.dtype_width_bytes, in.number("dtype_width_bytes"));
  TOWPATH_TRY(config.num_heads, in.optional_number("num_heads"));
  return config;
}

void write_config(BincodeWriter& out, const layout::LayoutConfig& config) {
  for (const std::uint64_t number :
       {config.num_blocks, config.num_layers, config.outer_dim, config.page_size, config.inner_dim,
        config.alignment, config.dtype_width_bytes})
    out.number(number);
  out.optional_number(config.num_heads);
}

Result<std::vector<RegionExtent>> read_regions(BincodeReader& in) {
  TOWPATH_TRY(const std::uint64_t count, in.number("count of regions", layout::kMaxRegions));
  std::vector<RegionExtent> regions;
  for (std::uint64_t i = 0; i < count; ++i) {  // as many as there are bytes for
    RegionExtent& region = regions.emplace_back();
    TOWPATH_TRY(region.address, in.number("addr of a region"));
    TOWPATH_TRY(region.length, in.number("size of a region"));
  }
  return regions;
}

Status read_details(BincodeReader& in, Words& words) {
  TOWPATH_TRY(words.kind, in.variant<Kind>("kind of layout", kKindWords.size()));
  if (words.kind == Kind::fully_contiguous) {
    TOWPATH_TRY(in.number("block_format", kFormatWords.size() - 1));
  } else {
    TOWPATH_TRY(words.dimension,
                in.variant<layout::BlockDimension>("block_dim", kDimensionWords.size()));
  }
  TOWPATH_TRY(words.order, in.variant<Order>("kv_block_layout", kOrderWords.size()));
  if (words.order != Order::custom) return {};
  for (int axis = 0; axis < 4; ++axis) TOWPATH_TRY(in.number("axis of a custom order", 3));
  return {};
}

Result<Words> read_words(BincodeReader& in) {
  TOWPATH_TRY(const std::uint64_t version, in.number("version", UINT32_MAX));
  TOWPATH_TRY(check_kvbm_version(version));
  Words words;
  TOWPATH_TRY(words.config, read_config(in));
  TOWPATH_TRY(words.storage, in.variant<Storage>("location", kStorageWords.size()));
  if (has_number(words.storage)) {
    const bool is_ordinal = words.storage == Storage::device;
    TOWPATH_TRY(words.storage_number,
                in.number("number of the location", is_ordinal ? UINT32_MAX : UINT64_MAX));
  }
  TOWPATH_TRY(words.agent_name, in.text("agent_name of a layout", kMaxAgentName));
  TOWPATH_TRY(words.memory, in.variant<NixlMemory>("mem_type", kNixlMemoryWords.size()));
  TOWPATH_TRY(words.device_id, in.number("device_id"));
  TOWPATH_TRY(words.regions, read_regions(in));
  TOWPATH_TRY(read_details(in, words));
  return words;
}

void write_words(BincodeWriter& out, const Words& words) {
  out.number(kLayoutVersion);
  write_config(out, words.config);
  out.variant(words.storage);
  if (has_number(words.storage)) out.number(words.storage_number);
  out.text(words.agent_name);
  out.variant(words.memory);
  out.number(words.device_id);
  out.number(words.regions.size());
  for (const RegionExtent& region : words.regions) {
    out.number(region.address);
    out.number(region.length);
  }
  out.variant(words.kind);
  if (words.kind == Kind::fully_contiguous) {
    out.number(0);  // Operational, all that there is
  } else {
    out.variant(words.dimension);
  }
  out.variant(words.order);
}

// ---- theirs to ours ----

struct Worker {
  std::uint64_t id = 0;
  AgentIdentity agent;
};

/// The agent whose metadata the metadata is.
Result<AgentIdentity> agent_of(ConstByteSpan metadata, std::string_view name) {
  const auto opened = agent::open_metadata(metadata);
  if (!opened.ok())
    return error(Code::unsupported,
                 cat("the NIXL metadata of '", printable(name), "', ", metadata.size(),
                     " bytes, is no metadata of a Towpath agent: nothing could reach its memory"),
                 "run that KVBM over Towpath's libnixl_capi.so, so that its metadata is metadata")
        .because(opened.status());
  const AgentIdentity& agent = opened->metadata.identity;
  if (agent.name == name) return agent;
  return error(Code::invalid_argument,
               cat("the address of the worker names the agent '", printable(name),
                   "', its NIXL metadata is the metadata of ", to_string(agent)),
               "export the package anew, with the metadata of its own agent");
}

Result<std::uint64_t> read_layout_id(BincodeReader& in, std::uint64_t worker_id) {
  TOWPATH_TRY(const WideNumber handle, in.wide("handle"));
  if (handle.low != worker_id)
    return error(
        Code::invalid_argument,
        cat("a layout of worker ", handle.low, " comes with the address of worker ", worker_id),
        "a worker exports its own layouts only");
  if (handle.high >> kLayoutIdBits == 0) return handle.high;
  return error(Code::unsupported,
               cat("the handle of a layout has reserved bits set: ", hex(handle.high)),
               "use a newer Towpath, or export version 1");
}

Result<blockcopy::PackedLayout> read_layout(BincodeReader& in, const Worker& worker,
                                            std::optional<layout::BlockFormat> unknown_order) {
  blockcopy::PackedLayout packed;
  TOWPATH_TRY(packed.id, read_layout_id(in, worker.id));
  TOWPATH_TRY(const std::uint64_t tier, in.number("logical_type", kTiers.size() - 1));
  packed.tier = kTiers.at(tier);
  TOWPATH_TRY(Words words, read_words(in));
  TOWPATH_TRY(const auto descriptor,
              descriptor_of(std::move(words), {worker.agent, unknown_order}));
  TOWPATH_TRY(packed.layout, layout::encode(descriptor));
  return packed;
}

Status check_end(const BincodeReader& in) {
  if (in.left() == 0) return {};
  return error(Code::unsupported,
               cat(in.left(),
                   " bytes follow the layouts: a later KVBM wrote it, whose layouts say "
                   "the orders of blocks by other numbers"),
               "send the layouts as JSON, or export from the KVBM whose metadata ends with them");
}

// ---- ours to theirs ----

Status write_layout(BincodeWriter& out, const blockcopy::OpenPackage::Entry& entry,
                    std::uint64_t worker_id) {
  if (entry.id >> kLayoutIdBits != 0)
    return no_kvbm_word_for(cat("the layout id ", entry.id), "use ids of at most 16 bits");
  const auto tier = std::ranges::find(kTiers, lower(entry.tier));
  if (tier == kTiers.end())
    return no_kvbm_word_for(cat("the tier '", printable(entry.tier), "'"),
                            "register the layout with one of the tiers g1, g2, g3 and g4");
  if (entry.first_layer != 0 || entry.first_head != 0)
    return no_kvbm_word_for(
        cat("a share that begins at layer ", entry.first_layer, " and head ", entry.first_head),
        "send the package of Towpath's own, which says so");
  TOWPATH_TRY(const Words words, kvbm_words_of(entry.layout.layout().descriptor()));
  out.wide({worker_id, entry.id});
  out.number(static_cast<std::uint64_t>(tier - kTiers.begin()));
  write_words(out, words);
  return {};
}

}  // namespace

Result<Bytes> package_from_kvbm(ConstByteSpan packed,
                                std::optional<layout::BlockFormat> unknown_order) {
  BincodeReader in(packed);
  Worker worker;
  TOWPATH_TRY(worker.id, in.number("worker_id"));
  TOWPATH_TRY(const std::string name, in.text("nixl_agent_name", kMaxAgentName));
  TOWPATH_TRY(const ConstByteSpan metadata, in.bytes("nixl_metadata", agent::kMaxMetadataBytes));
  TOWPATH_TRY(worker.agent, agent_of(metadata, name));
  blockcopy::LayoutPackage package{.metadata = Bytes(metadata.begin(), metadata.end()),
                                   .layouts = {}};
  TOWPATH_TRY(const std::uint64_t count,
              in.number("count of layouts", blockcopy::kMaxPackedLayouts));
  for (std::uint64_t i = 0; i < count; ++i) {
    TOWPATH_TRY(package.layouts.emplace_back(), read_layout(in, worker, unknown_order));
  }
  TOWPATH_TRY(check_end(in));
  TOWPATH_TRY(Bytes ours, blockcopy::encode(package));
  TOWPATH_TRY(
      blockcopy::open_package(ours));  // it proves the metadata, and that the layouts go together
  return ours;
}

Result<Bytes> package_to_kvbm(ConstByteSpan package, std::uint64_t worker_id) {
  TOWPATH_TRY(const blockcopy::OpenPackage open, blockcopy::open_package(package));
  TOWPATH_TRY(check_kvbm_name(open.agent.name));
  BincodeWriter out;
  out.number(worker_id);
  out.text(open.agent.name);
  out.bytes(open.metadata);
  out.number(open.layouts.size());
  for (const blockcopy::OpenPackage::Entry& entry : open.layouts)
    TOWPATH_TRY(write_layout(out, entry, worker_id));
  return std::move(out).finish();
}

}  // namespace towpath::kvbm
