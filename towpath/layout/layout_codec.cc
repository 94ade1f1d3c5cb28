#include <optional>
#include <utility>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/layout/layout_codec.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/envelope.h>

namespace towpath::layout {
namespace {

using namespace wire;

constexpr Tag kAddress = required(1), kLength = required(2), kObject = required(3);
constexpr FieldRule kRegionRules[] = {
    {kAddress, "address", Kind::number, kOne},
    {kLength, "length", Kind::number, kOne},
    {kObject, "object's id", Kind::number, kAtMostOne},
};
constexpr Schema kRegionSchema("layout region", kRegionRules);

constexpr Tag kStride = required(1), kRegionStep = required(2);
constexpr FieldRule kAxisRules[] = {
    {kStride, "stride", Kind::number, kOne},
    {kRegionStep, "region step", Kind::number, kAtMostOne},
};
constexpr Schema kAxisSchema("layout axis", kAxisRules);

constexpr Tag kNumBlocks = required(1), kNumLayers = required(2), kOuterDim = required(3),
              kPageSize = required(4), kInnerDim = required(5), kAlignment = required(6),
              kDtypeWidth = required(7), kNumHeads = required(8), kLayoutKind = required(9),
              kMemoryKind = required(10), kDeviceId = required(11), kAgentName = required(12),
              kIncarnation = required(13), kRegion = required(14), kFormat = required(15),
              kAxis = required(16);
constexpr FieldRule kLayoutRules[] = {
    {kNumBlocks, "num_blocks", Kind::number, kOne},
    {kNumLayers, "num_layers", Kind::number, kOne},
    {kOuterDim, "outer_dim", Kind::number, kOne},
    {kPageSize, "page_size", Kind::number, kOne},
    {kInnerDim, "inner_dim", Kind::number, kOne},
    {kAlignment, "alignment", Kind::number, kOne},
    {kDtypeWidth, "dtype_width_bytes", Kind::number, kOne},
    {kNumHeads, "num_heads", Kind::number, kAtMostOne},
    {kLayoutKind, "layout kind", Kind::number, kOne, UINT8_MAX},
    {kMemoryKind, "memory kind", Kind::number, kOne, UINT8_MAX},
    {kDeviceId, "device_id", Kind::number, kOne},
    {kAgentName, "agent name", Kind::bytes, kOne, kMaxAgentName},
    {kIncarnation, "incarnation", Kind::number, kOne},
    {kRegion, "region", Kind::nested, at_most(kMaxRegions), 64, &kRegionSchema},
    {kFormat, "block format", Kind::number, kAtMostOne, UINT8_MAX},
    {kAxis, "axis", Kind::nested, at_most(kAxes.size()), 64, &kAxisSchema},
};
constexpr Schema kLayoutSchema("layout", kLayoutRules);

void put_config(Encoder& out, const LayoutConfig& config) {
  out.put_number(kNumBlocks, config.num_blocks);
  out.put_number(kNumLayers, config.num_layers);
  out.put_number(kOuterDim, config.outer_dim);
  out.put_number(kPageSize, config.page_size);
  out.put_number(kInnerDim, config.inner_dim);
  out.put_number(kAlignment, config.alignment);
  out.put_number(kDtypeWidth, config.dtype_width_bytes);
  if (config.num_heads) out.put_number(kNumHeads, *config.num_heads);
}

void put_axes(Encoder& out, const Axes& axes) {
  for (const AxisShape& shape : axes.shapes)
    out.put_nested(kAxis, [&](Encoder& inner) {
      inner.put_number(kStride, shape.stride);
      if (shape.region_step != 0) inner.put_number(kRegionStep, shape.region_step);
    });
}

std::optional<LayoutKind> layout_kind_from_number(std::uint64_t number) {
  if (number > static_cast<std::uint64_t>(LayoutKind::strided)) return std::nullopt;
  return static_cast<LayoutKind>(number);
}

Status take_format(const Field& field, LayoutDescriptor& into) {
  if (field.number() > static_cast<std::uint64_t>(BlockFormat::universal))
    return field.refuse("not a block format that this version knows");
  into.config.format = static_cast<BlockFormat>(field.number());
  return {};
}

Status take_kinds(const Field& field, LayoutDescriptor& into) {
  if (field.tag() == kLayoutKind) {
    const auto kind = layout_kind_from_number(field.number());
    if (!kind) return field.refuse("not a kind of layout that this version knows");
    into.kind = *kind;
    return {};
  }
  const auto kind = memory_kind_from_number(field.number());
  if (!kind) return field.refuse("not a kind of memory that this version knows");
  into.location.kind = *kind;
  return {};
}

Status take_region(const Field& field, LayoutDescriptor& into) {
  RegionExtent region;
  TOWPATH_TRY(wire::decode(field.nested(), [&](const Field& inner) -> Status {
    switch (inner.tag()) {
      case kAddress: region.address = inner.number(); break;
      case kLength: region.length = inner.number(); break;
      default: region.device_id = inner.number();
    }
    return {};
  }));
  into.regions.push_back(region);
  return {};
}

/// What a message says, axes still without their extents.
struct Reported {
  LayoutDescriptor layout;
  std::vector<AxisShape> steps;
};

Status take_axis(const Field& field, Reported& reported) {
  AxisShape& shape = reported.steps.emplace_back();
  return wire::decode(field.nested(), [&](const Field& inner) -> Status {
    (inner.tag() == kStride ? shape.stride : shape.region_step) = inner.number();
    return {};
  });
}

/// Gives the layout the axes that were reported, in the order of kAxes; extents are the config's.
Status take_axes(Reported& reported) {
  const bool is_strided = reported.layout.kind == LayoutKind::strided;
  const std::size_t expected = is_strided ? kAxes.size() : 0;
  if (reported.steps.size() != expected)
    return error(Code::corrupt,
                 cat("a ", name_of(reported.layout.kind), " layout with ", reported.steps.size(),
                     " axes: it has ", expected),
                 "write each axis of a strided layout once, and none of another");
  if (!is_strided) return {};
  TOWPATH_TRY(reported.layout.config.validate());
  reported.layout.axes = extents_of(reported.layout.config);
  for (std::size_t i = 0; i < expected; ++i) {
    AxisShape& shape = reported.layout.axes.shapes[i];
    shape.stride = reported.steps[i].stride;
    shape.region_step = reported.steps[i].region_step;
  }
  return {};
}

Status take(const Field& field, Reported& reported) {
  LayoutDescriptor& into = reported.layout;
  LayoutConfig& config = into.config;
  switch (field.tag()) {
    case kNumBlocks: config.num_blocks = field.number(); break;
    case kNumLayers: config.num_layers = field.number(); break;
    case kOuterDim: config.outer_dim = field.number(); break;
    case kPageSize: config.page_size = field.number(); break;
    case kInnerDim: config.inner_dim = field.number(); break;
    case kAlignment: config.alignment = field.number(); break;
    case kDtypeWidth: config.dtype_width_bytes = field.number(); break;
    case kNumHeads: config.num_heads = field.number(); break;
    case kDeviceId: into.location.device_id = field.number(); break;
    case kAgentName: into.agent.name = field.text(); break;
    case kIncarnation: into.agent.incarnation = field.number(); break;
    case kRegion: return take_region(field, into);
    case kFormat: return take_format(field, into);
    case kAxis: return take_axis(field, reported);
    default: return take_kinds(field, into);
  }
  return {};
}

Status check_agent(const AgentIdentity& agent) {
  if (!agent.name.empty() && agent.incarnation != 0) return {};
  return error(Code::invalid_argument,
               cat("a layout of agent '", printable(agent.name), "', incarnation ",
                   hex(agent.incarnation), ": both must be there"),
               "name the agent that registered the regions, and its incarnation");
}

}  // namespace

Result<Bytes> encode(const LayoutDescriptor& descriptor) {
  TOWPATH_TRY(check_agent(descriptor.agent));
  TOWPATH_TRY(descriptor.validate());
  Encoder out(kLayoutSchema);
  put_config(out, descriptor.config);
  out.put_number(kLayoutKind, static_cast<std::uint64_t>(descriptor.kind));
  out.put_number(kMemoryKind, static_cast<std::uint64_t>(descriptor.location.kind));
  out.put_number(kDeviceId, descriptor.location.device_id);
  out.put_text(kAgentName, descriptor.agent.name);
  out.put_number(kIncarnation, descriptor.agent.incarnation);
  for (const RegionExtent& region : descriptor.regions)
    out.put_nested(kRegion, [&](Encoder& inner) {
      inner.put_number(kAddress, region.address);
      inner.put_number(kLength, region.length);
      if (region.device_id != 0) inner.put_number(kObject, region.device_id);
    });
  // Where it is the usual one, readers that know no formats understand the layout.
  if (descriptor.config.format != BlockFormat::nhd)
    out.put_number(kFormat, static_cast<std::uint64_t>(descriptor.config.format));
  if (descriptor.kind == LayoutKind::strided) put_axes(out, descriptor.axes);
  TOWPATH_TRY(const Bytes payload, std::move(out).finish());
  return wire::seal({.type = wire::MessageType::layout, .version = kLayoutVersion}, payload);
}

Result<LayoutDescriptor> decode_layout(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message message,
              wire::open(bytes, {.type = wire::MessageType::layout,
                                 .max_version = kLayoutVersion,
                                 .max_payload_bytes = kMaxLayoutBytes}));
  Reported reported;
  TOWPATH_TRY(wire::decode(Decoder(message.payload, kLayoutSchema),
                           [&](const Field& field) { return take(field, reported); }));
  TOWPATH_TRY(check_agent(reported.layout.agent));
  TOWPATH_TRY(take_axes(reported));
  TOWPATH_TRY(reported.layout.validate());
  return std::move(reported.layout);
}

}  // namespace towpath::layout
