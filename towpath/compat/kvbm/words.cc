#include <utility>

#include <towpath/compat/kvbm/words.h>
#include <towpath/core/format.h>
#include <towpath/core/utf8.h>

namespace towpath::kvbm {
namespace {

using layout::BlockFormat;
using layout::LayoutDescriptor;
using layout::LayoutKind;

// ---- one to one, both ways ----

struct StorageRow {
  Storage storage;
  MemoryKind kind;
  NixlMemory memory;
};
constexpr StorageRow kStorages[] = {
    {Storage::system, MemoryKind::system, NixlMemory::dram},
    {Storage::pinned, MemoryKind::pinned, NixlMemory::dram},
    {Storage::device, MemoryKind::device, NixlMemory::vram},
    {Storage::disk, MemoryKind::disk, NixlMemory::file},
};

struct KindRow {
  Kind kind;
  layout::BlockDimension dimension;  // of separate layers
  LayoutKind ours;
};
constexpr KindRow kKinds[] = {
    {Kind::fully_contiguous, layout::BlockDimension::first, LayoutKind::fully_contiguous},
    {Kind::layer_separate, layout::BlockDimension::first, LayoutKind::layer_separate_block_first},
    {Kind::layer_separate, layout::BlockDimension::second, LayoutKind::layer_separate_block_second},
};

struct OrderRow {
  Order order;
  BlockFormat format;
};
constexpr OrderRow kOrders[] = {
    {Order::operational_nhd, BlockFormat::nhd},
    {Order::operational_hnd, BlockFormat::hnd},
    {Order::universal_tp, BlockFormat::universal},
};

template <typename Row, std::size_t N, typename Matches>
const Row* row_of(const Row (&rows)[N], Matches matches) {
  for (const Row& row : rows)
    if (matches(row)) return &row;
  return nullptr;
}

const StorageRow& row_of(Storage storage) {
  return *row_of(kStorages, [&](const StorageRow& row) { return row.storage == storage; });
}

// ---- theirs to ours ----

LayoutKind kind_of(const Words& words) {
  if (words.kind == Kind::fully_contiguous) return LayoutKind::fully_contiguous;
  return layout::layer_separate(words.dimension);
}

Status check_agent(const Words& words, const AgentIdentity& agent) {
  if (agent.incarnation == 0)
    return error(Code::invalid_argument,
                 cat("a KVBM's layout of ", to_string(agent), ": which life of it is not said"),
                 "give the identity in the metadata that came with the layout");
  if (words.agent_name == agent.name) return {};
  return error(Code::invalid_argument,
               cat("a KVBM's layout of the agent '", printable(words.agent_name),
                   "' comes with the metadata of ", to_string(agent)),
               "take the metadata of the agent that registered the memory");
}

Status check_memory(const Words& words) {
  const bool agree = words.memory == row_of(words.storage).memory &&
                     (!has_number(words.storage) || words.storage_number == words.device_id);
  if (agree) return {};
  return error(Code::invalid_argument,
               cat("location is ", word_of(words.storage), " ", words.storage_number,
                   ", nixl_metadata says ", word_of(words.memory), " ", words.device_id),
               "System and Pinned are Dram, Device is Vram and Disk is File, of the same number");
}

Result<BlockFormat> format_of(const Words& words, const Terms& terms) {
  const OrderRow* row =
      row_of(kOrders, [&](const OrderRow& each) { return each.order == words.order; });
  if (row != nullptr) return row->format;
  if (words.order == Order::unknown && terms.unknown_order) return *terms.unknown_order;
  return error(Code::unsupported,
               cat("kv_block_layout is ", word_of(words.order),
                   ": which byte of a block is whose cannot be determined"),
               words.order == Order::unknown
                   ? "say what it is to be taken for (Terms::unknown_order), if you know"
                   : "export the cache as OperationalNHD, OperationalHND or UniversalTP");
}

// ---- ours to theirs ----

/// KVBM moves nothing by its alignment: a reader would look for blocks at other places.
Status check_alignment(const LayoutDescriptor& descriptor) {
  layout::LayoutConfig apart = descriptor.config;
  apart.alignment = 1;
  TOWPATH_TRY(const auto ours, layout::Geometry::make(descriptor.config, descriptor.kind));
  TOWPATH_TRY(const auto theirs, layout::Geometry::make(apart, descriptor.kind));
  if (ours.block_stride == theirs.block_stride) return {};
  return no_kvbm_word_for(
      cat("blocks that begin every ", ours.block_stride, " bytes where they have ",
          theirs.block_stride, ", by an alignment of ", descriptor.config.alignment),
      "lay the cache out with an alignment of 1");
}

Status take_location(const layout::Location& location, Words& words) {
  const StorageRow* row =
      row_of(kStorages, [&](const StorageRow& each) { return each.kind == location.kind; });
  if (row == nullptr)
    return no_kvbm_word_for(cat("memory of the kind ", name_of(location.kind)),
                            "export caches in system, pinned or device memory, or in a file");
  if (row->storage == Storage::device && location.device_id > UINT32_MAX)
    return no_kvbm_word_for(cat("the GPU ", location.device_id, ": its number has at most 32 bits"),
                            "use the GPU's ordinal");
  words.storage = row->storage;
  words.storage_number = has_number(row->storage) ? location.device_id : 0;
  words.memory = row->memory;
  words.device_id = location.device_id;
  return {};
}

}  // namespace

Status check_kvbm_version(std::uint64_t version) {
  if (version == kLayoutVersion) return {};
  return error(Code::unsupported,
               cat("a KVBM's layout descriptor of version ", version, "; this reads version ",
                   kLayoutVersion),
               version > kLayoutVersion ? "use a newer Towpath, or export version 1"
                                        : "no KVBM wrote it: export the layout again");
}

Status no_kvbm_word_for(std::string_view what, std::string_view hint) {
  return error(Code::unsupported, cat("version 1 of KVBM's layouts has no word for ", what),
               std::string(hint));
}

Status check_kvbm_name(const std::string& name) {
  if (!name.empty() && is_utf8(name)) return {};
  return no_kvbm_word_for(cat("the agent's name '", printable(name), "': it must be text in UTF-8"),
                          "give the agent such a name");
}

Result<LayoutDescriptor> descriptor_of(Words words, const Terms& terms) {
  TOWPATH_TRY(check_agent(words, terms.agent));
  TOWPATH_TRY(check_memory(words));
  LayoutDescriptor descriptor;
  descriptor.config = words.config;
  TOWPATH_TRY(descriptor.config.format, format_of(words, terms));
  TOWPATH_TRY(descriptor.config.validate());
  descriptor.config.alignment = 1;
  descriptor.kind = kind_of(words);
  descriptor.location = {row_of(words.storage).kind, words.device_id};
  descriptor.agent = terms.agent;
  descriptor.regions = std::move(words.regions);
  TOWPATH_TRY(descriptor.validate());
  return descriptor;
}

Result<Words> kvbm_words_of(const LayoutDescriptor& descriptor) {
  TOWPATH_TRY(descriptor.validate());
  TOWPATH_TRY(check_kvbm_name(descriptor.agent.name));
  const KindRow* kind =
      row_of(kKinds, [&](const KindRow& row) { return row.ours == descriptor.kind; });
  if (kind == nullptr)
    return no_kvbm_word_for(cat("a ", name_of(descriptor.kind), " layout"),
                            "export a fully_contiguous or layer_separate one");
  TOWPATH_TRY(check_alignment(descriptor));
  Words words{.config = descriptor.config,
              .agent_name = descriptor.agent.name,
              .regions = descriptor.regions,
              .kind = kind->kind,
              .dimension = kind->dimension};
  words.order = row_of(kOrders, [&](const OrderRow& row) {
                  return row.format == descriptor.config.format;
                })->order;
  TOWPATH_TRY(take_location(descriptor.location, words));
  return words;
}

}  // namespace towpath::kvbm
