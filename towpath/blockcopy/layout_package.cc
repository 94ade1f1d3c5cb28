#include <set>
#include <utility>

#include <towpath/agent/metadata.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/core/format.h>
#include <towpath/layout/layout_codec.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/envelope.h>

namespace towpath::blockcopy {
namespace {

using wire::Decoder;
using wire::Encoder;
using wire::Field;
using wire::Kind;
using wire::Tag;

constexpr std::uint64_t kMaxLayoutMessage = layout::kMaxLayoutBytes + 1024;

constexpr Tag kId = wire::required(1), kTier = wire::required(2), kFirstLayer = wire::required(3),
              kFirstHead = wire::required(4), kLayoutMessage = wire::required(5);
constexpr wire::FieldRule kPackedRules[] = {
    {kId, "id", Kind::number, wire::kOne},
    {kTier, "tier", Kind::bytes, wire::kOne, kMaxTierName},
    {kFirstLayer, "first layer", Kind::number, wire::kOne, UINT32_MAX},
    {kFirstHead, "first head", Kind::number, wire::kOne, UINT32_MAX},
    {kLayoutMessage, "layout", Kind::bytes, wire::kOne, kMaxLayoutMessage},
};
constexpr wire::Schema kPackedSchema("packed layout", kPackedRules);

constexpr Tag kMetadata = wire::required(1), kPacked = wire::required(2);
constexpr wire::FieldRule kPackageRules[] = {
    {kMetadata, "metadata", Kind::bytes, wire::kOne, agent::kMaxMetadataBytes},
    {kPacked, "layout", Kind::nested, wire::at_most(kMaxPackedLayouts), kMaxLayoutMessage + 1024,
     &kPackedSchema},
};
constexpr wire::Schema kPackageSchema("layout package", kPackageRules);
constexpr std::uint64_t kMaxPackageBytes = 2 * agent::kMaxMetadataBytes;

Result<PackedLayout> take_packed(const Field& field) {
  PackedLayout packed;
  TOWPATH_TRY(wire::decode(field.nested(), [&](const Field& inner) -> Status {
    switch (inner.tag()) {
      case kId: packed.id = inner.number(); break;
      case kTier: packed.tier = inner.text(); break;
      case kFirstLayer: packed.first_layer = inner.number(); break;
      case kFirstHead: packed.first_head = inner.number(); break;
      default: packed.layout.assign(inner.bytes().begin(), inner.bytes().end());
    }
    return {};
  }));
  return packed;
}

Result<LayoutPackage> decode_package(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message message,
              wire::open(bytes, {.type = wire::MessageType::layout_package,
                                 .max_version = kLayoutPackageVersion,
                                 .max_payload_bytes = kMaxPackageBytes}));
  LayoutPackage package;
  TOWPATH_TRY(
      wire::decode(Decoder(message.payload, kPackageSchema), [&](const Field& field) -> Status {
        if (field.tag() == kMetadata) {
          package.metadata.assign(field.bytes().begin(), field.bytes().end());
          return {};
        }
        TOWPATH_TRY(package.layouts.emplace_back(), take_packed(field));
        return {};
      }));
  return package;
}

Status check_agent(const layout::RemoteLayout& layout, const AgentIdentity& agent) {
  if (layout.agent() == agent) return {};
  return error(Code::invalid_argument,
               cat("a layout of ", to_string(layout.agent()), " comes with the metadata of ",
                   to_string(agent)),
               "an agent exports its own layouts only");
}

}  // namespace

Result<Bytes> encode(const LayoutPackage& package) {
  Encoder out(kPackageSchema);
  out.put_bytes(kMetadata, package.metadata);
  for (const PackedLayout& packed : package.layouts)
    out.put_nested(kPacked, [&](Encoder& inner) {
      inner.put_number(kId, packed.id);
      inner.put_text(kTier, packed.tier);
      inner.put_number(kFirstLayer, packed.first_layer);
      inner.put_number(kFirstHead, packed.first_head);
      inner.put_bytes(kLayoutMessage, packed.layout);
    });
  TOWPATH_TRY(const Bytes payload, std::move(out).finish());
  return wire::seal({.type = wire::MessageType::layout_package, .version = kLayoutPackageVersion},
                    payload);
}

Result<OpenPackage> open_package(ConstByteSpan bytes) {
  TOWPATH_TRY(LayoutPackage package, decode_package(bytes));
  TOWPATH_TRY(const agent::AgentMetadata metadata, agent::decode_metadata(package.metadata));
  OpenPackage open{
      .agent = metadata.identity, .metadata = std::move(package.metadata), .layouts = {}};
  std::set<std::uint64_t> ids;
  for (PackedLayout& packed : package.layouts) {
    TOWPATH_TRY(layout::RemoteLayout layout, layout::RemoteLayout::decode(packed.layout));
    TOWPATH_TRY(check_agent(layout, open.agent));
    if (!ids.insert(packed.id).second)
      return error(Code::invalid_argument, cat("layout id ", packed.id, " stands twice"),
                   "an agent gives each layout an id of its own");
    open.layouts.push_back({packed.id, std::move(packed.tier), packed.first_layer,
                            packed.first_head, std::move(layout)});
  }
  return open;
}

}  // namespace towpath::blockcopy
