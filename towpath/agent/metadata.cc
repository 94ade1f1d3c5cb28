#include <towpath/agent/metadata.h>
#include <towpath/agent/metadata_table.h>
#include <towpath/core/check.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/envelope.h>

namespace towpath::agent {
namespace {

using namespace wire;

// docs/formats/metadata.md
constexpr std::uint16_t kMetadataVersion = 2;  // 1 had regions as fields, which are still read
constexpr std::uint32_t kMaxBackends = kMaxMetadataBackends;

constexpr Tag kBackendName = required(1), kConnectionInfo = required(2);
constexpr FieldRule kBackendRules[] = {
    {kBackendName, "name", Kind::bytes, kOne, 64},
    {kConnectionInfo, "connection info", Kind::bytes, kOne, kMaxConnectionInfo},
};
constexpr Schema kBackendSchema("backend", kBackendRules);

constexpr Tag kKeyBackend = required(1), kKeyBytes = required(2);
constexpr FieldRule kKeyRules[] = {
    {kKeyBackend, "backend", Kind::number, kOne, kMaxBackends - 1},
    {kKeyBytes, "bytes", Kind::bytes, kOne, kMaxRegionKey},
};
constexpr Schema kKeySchema("region key", kKeyRules);

constexpr Tag kMemory = required(1), kAddress = required(2), kLength = required(3),
              kDevice = required(4), kObject = required(5), kKey = required(6);
constexpr FieldRule kRegionRules[] = {
    {kMemory, "memory kind", Kind::number, kOne, 255},
    {kAddress, "address", Kind::number, kOne},
    {kLength, "length", Kind::number, kOne},
    {kDevice, "device", Kind::number, kAtMostOne},
    {kObject, "object key", Kind::bytes, kAtMostOne, kMaxObjectKey},
    {kKey, "key", Kind::nested, at_most(kMaxBackends), kMaxRegionKey + 64, &kKeySchema},
};
constexpr Schema kRegionSchema("region", kRegionRules);

constexpr Tag kName = required(1), kIncarnation = required(2), kGeneration = required(3),
              kPartial = required(4), kBackend = required(5), kRegion = required(6),
              kTable = required(7);
constexpr FieldRule kMetadataRules[] = {
    {kName, "name", Kind::bytes, kOne, kMaxAgentName},
    {kIncarnation, "incarnation", Kind::number, kOne},
    {kGeneration, "generation", Kind::number, kOne},
    {kPartial, "partial", Kind::number, kAtMostOne, 1},
    {kBackend, "backend", Kind::nested, at_most(kMaxBackends), kMaxConnectionInfo + 256,
     &kBackendSchema},
    {kRegion, "region", Kind::nested, at_most(kMaxMetadataRegions),
     kMaxBackends*(kMaxRegionKey + 64), &kRegionSchema},
    {kTable, "regions", Kind::bytes, kAtMostOne, kMaxMetadataBytes},
};
constexpr Schema kMetadataSchema("metadata", kMetadataRules);

Bytes to_bytes(ConstByteSpan span) { return {span.begin(), span.end()}; }

Result<AgentMetadata::Backend> decode_backend(const Field& outer) {
  AgentMetadata::Backend backend;
  TOWPATH_TRY(wire::decode(outer.nested(), [&](const Field& field) -> Status {
    if (field.tag() == kBackendName) backend.name = field.text();
    if (field.tag() == kConnectionInfo) backend.connection_info = to_bytes(field.bytes());
    return {};
  }));
  return backend;
}

Status decode_key(const Field& outer, std::size_t backends, AgentMetadata::Region& region) {
  std::uint64_t number = 0;
  Bytes bytes;
  TOWPATH_TRY(wire::decode(outer.nested(), [&](const Field& field) -> Status {
    if (field.tag() == kKeyBackend) {
      number = field.number();
      if (number >= backends)
        return field.refuse("no such backend stands before it in the metadata");
    }
    if (field.tag() == kKeyBytes) bytes = to_bytes(field.bytes());
    return {};
  }));
  region.keys.emplace_back(static_cast<std::uint32_t>(number), std::move(bytes));
  return {};
}

Status decode_region_field(const Field& field, std::size_t backends,
                           AgentMetadata::Region& region) {
  switch (field.tag()) {
    case kMemory: {
      const auto kind = memory_kind_from_number(field.number());
      if (!kind) return field.refuse("not a kind of memory");
      region.region.kind = *kind;
      return {};
    }
    case kAddress: region.region.address = field.number(); return {};
    case kLength: region.region.length = field.number(); return {};
    case kDevice: region.region.device_id = field.number(); return {};
    case kObject: region.region.key = field.text(); return {};
    case kKey: return decode_key(field, backends, region);
  }
  return {};
}

Result<AgentMetadata::Region> decode_region(const Field& outer, std::size_t backends) {
  AgentMetadata::Region region;
  TOWPATH_TRY(wire::decode(outer.nested(), [&](const Field& field) {
    return decode_region_field(field, backends, region);
  }));
  if (region.region.length == 0) return outer.refuse("an empty region");
  if (!checked_add(region.region.address, region.region.length))
    return outer.refuse("the region wraps around the end of the address space");
  return region;
}

Status decode_metadata_field(const Field& field, OpenedMetadata& opened) {
  AgentMetadata& metadata = opened.metadata;
  switch (field.tag()) {
    case kName: metadata.identity.name = field.text(); break;
    case kIncarnation: metadata.identity.incarnation = field.number(); break;
    case kGeneration: metadata.generation = field.number(); break;
    case kPartial: metadata.partial = field.number() != 0; break;
    case kBackend: {
      TOWPATH_TRY(AgentMetadata::Backend backend, decode_backend(field));
      metadata.backends.push_back(std::move(backend));
      break;
    }
    case kRegion: {
      TOWPATH_TRY(AgentMetadata::Region region, decode_region(field, metadata.backends.size()));
      metadata.regions.push_back(std::move(region));
      break;
    }
    case kTable: opened.table = field.bytes(); break;
  }
  return {};
}

}  // namespace

Result<Bytes> encode(const AgentMetadata& metadata) {
  TOWPATH_TRY(check_rows(metadata.regions.size()));
  TableWriter table(metadata.regions.size());
  TableRow before;
  for (const AgentMetadata::Region& advertised : metadata.regions) {
    TableRow row{.region = &advertised.region,
                 .keys = {advertised.keys.begin(), advertised.keys.end()}};
    TOWPATH_TRY(check_row(row));
    table.add(row, before);
    before = std::move(row);
  }
  return encode(metadata, table.bytes());
}

Result<Bytes> encode(const AgentMetadata& metadata, ConstByteSpan table) {
  Encoder out(kMetadataSchema, wire::kHeaderBytes);
  out.reserve(4096 + table.size());
  out.put_text(kName, metadata.identity.name);
  out.put_number(kIncarnation, metadata.identity.incarnation);
  out.put_number(kGeneration, metadata.generation);
  if (metadata.partial) out.put_number(kPartial, 1);
  for (const AgentMetadata::Backend& backend : metadata.backends) {
    out.put_nested(kBackend, [&](Encoder& inner) {
      inner.put_text(kBackendName, backend.name);
      inner.put_bytes(kConnectionInfo, backend.connection_info);
    });
  }
  if (!table.empty()) out.put_bytes(kTable, table);
  TOWPATH_TRY(Bytes message, std::move(out).finish());
  wire::seal_in_place({.type = wire::MessageType::metadata, .version = kMetadataVersion}, message);
  return message;
}

Result<OpenedMetadata> open_metadata(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message message,
              wire::open(bytes, {.type = wire::MessageType::metadata,
                                 .max_version = kMetadataVersion,
                                 .max_payload_bytes = kMaxMetadataBytes}));
  OpenedMetadata opened;
  TOWPATH_TRY(
      wire::decode(wire::Decoder(message.payload, kMetadataSchema),
                   [&](const Field& field) { return decode_metadata_field(field, opened); }));
  const AgentIdentity& identity = opened.metadata.identity;
  if (identity.name.empty() || identity.incarnation == 0 || opened.metadata.generation == 0)
    return error(Code::corrupt, "metadata without a name, an incarnation or a generation");
  return opened;
}

Result<AgentMetadata> decode_metadata(ConstByteSpan bytes) {
  TOWPATH_TRY(OpenedMetadata opened, open_metadata(bytes));
  TableReader table(opened.table, opened.metadata.backends.size());
  while (!table.at_end()) {
    TOWPATH_TRY(const AgentMetadata::Region* const row, table.next());
    opened.metadata.regions.push_back(*row);
  }
  return std::move(opened.metadata);
}

}  // namespace towpath::agent
