#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/kv/disk/index_format.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/envelope.h>
#include <towpath/wire/little_endian.h>

namespace towpath::kv {
namespace {

using wire::Kind;
using wire::kOne;

constexpr std::uint64_t kMaxSegments = 1'000'000;
// Hash, digest, salt and offset, u64 each; length and algorithm, u32 each.
static_assert(kIndexedBytes == 4 * sizeof(std::uint64_t) + 2 * sizeof(std::uint32_t));

constexpr wire::Tag kIndexedNumber = wire::required(1), kIndexedIncarnation = wire::required(2),
                    kEnd = wire::required(3), kBlocks = wire::required(4);
constexpr wire::FieldRule kIndexedSegmentRules[] = {
    {kIndexedNumber, "number", Kind::number, kOne},
    {kIndexedIncarnation, "incarnation", Kind::number, kOne},
    {kEnd, "end", Kind::number, kOne},
    {kBlocks, "blocks", Kind::bytes, kOne},
};
constexpr wire::Schema kIndexedSegmentSchema("indexed segment", kIndexedSegmentRules);

constexpr wire::Tag kSegment = wire::required(1);
constexpr wire::FieldRule kIndexRules[] = {
    {kSegment, "segment", Kind::nested, wire::at_most(kMaxSegments), UINT64_MAX,
     &kIndexedSegmentSchema},
};
constexpr wire::Schema kIndexSchema("block index", kIndexRules);

Bytes pack(const std::vector<IndexedBlock>& blocks) {
  Bytes packed;
  packed.reserve(blocks.size() * kIndexedBytes);
  for (const auto& [record, offset] : blocks) {
    wire::append(packed, record.hash);
    wire::append(packed, record.digest.value);
    wire::append(packed, record.digest.salt);
    wire::append(packed, offset);
    wire::append(packed, static_cast<std::uint32_t>(record.length));
    wire::append(packed, static_cast<std::uint32_t>(record.digest.algorithm));
  }
  return packed;
}

Result<std::vector<IndexedBlock>> unpack(const wire::Field& field) {
  ConstByteSpan packed = field.bytes();
  if (packed.size() % kIndexedBytes != 0) return field.refuse("not whole entries");
  std::vector<IndexedBlock> blocks(packed.size() / kIndexedBytes);
  for (auto& [record, offset] : blocks) {
    const auto algorithm = wire::load<std::uint32_t>(packed.subspan(36));
    if (algorithm != 1 && algorithm != 2) return field.refuse("not a digest algorithm");
    record.hash = wire::load<std::uint64_t>(packed);
    record.digest = {static_cast<DigestAlgorithm>(algorithm),
                     wire::load<std::uint64_t>(packed.subspan(16)),
                     wire::load<std::uint64_t>(packed.subspan(8))};
    offset = wire::load<std::uint64_t>(packed.subspan(24));
    record.length = wire::load<std::uint32_t>(packed.subspan(32));
    if (record.length > kMaxBlockBytes) return field.refuse("a block too long");
    packed = packed.subspan(kIndexedBytes);
  }
  return blocks;
}

Result<IndexedSegment> open_indexed_segment(const wire::Field& outer) {
  IndexedSegment segment;
  TOWPATH_TRY(decode(outer.nested(), [&](const wire::Field& field) -> Status {
    switch (field.tag()) {
      case kIndexedNumber: segment.name.number = field.number(); break;
      case kIndexedIncarnation: segment.name.incarnation = field.number(); break;
      case kEnd: segment.end = field.number(); break;
      case kBlocks: {
        TOWPATH_TRY(segment.blocks, unpack(field));
        break;
      }
    }
    return {};
  }));
  return segment;
}

}  // namespace

Bytes seal_index(const std::vector<IndexedSegment>& segments) {
  wire::Encoder out(kIndexSchema);
  for (const IndexedSegment& segment : segments) {
    out.put_nested(kSegment, [&](wire::Encoder& inner) {
      inner.put_number(kIndexedNumber, segment.name.number);
      inner.put_number(kIndexedIncarnation, segment.name.incarnation);
      inner.put_number(kEnd, segment.end);
      inner.put_bytes(kBlocks, pack(segment.blocks));
    });
  }
  const Result<Bytes> payload = std::move(out).finish();
  TOWPATH_CHECK(payload.ok(), "what we write is what our schema allows");
  return wire::seal({wire::MessageType::block_index, 1}, *payload);
}

Result<std::vector<IndexedSegment>> open_index(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message message,
              wire::open(bytes, {wire::MessageType::block_index, 1, UINT64_MAX / 2}));
  std::vector<IndexedSegment> segments;
  TOWPATH_TRY(
      decode(wire::Decoder(message.payload, kIndexSchema), [&](const wire::Field& field) -> Status {
        TOWPATH_TRY(IndexedSegment segment, open_indexed_segment(field));
        segments.push_back(std::move(segment));
        return {};
      }));
  return segments;
}

}  // namespace towpath::kv
