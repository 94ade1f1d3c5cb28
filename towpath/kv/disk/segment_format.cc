#include <algorithm>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/kv/disk/drive_format.h>
#include <towpath/kv/disk/segment_format.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/envelope.h>

namespace towpath::kv {
namespace {

using wire::Kind;
using wire::kOne;

constexpr wire::Tag kNumber = wire::required(1), kIncarnation = wire::required(2),
                    kDirectory = wire::optional(3);
constexpr wire::FieldRule kSegmentRules[] = {
    {kNumber, "number", Kind::number, kOne},
    {kIncarnation, "incarnation", Kind::number, kOne},
    {kDirectory, "directory", Kind::bytes, wire::at_most(1), kMaxDriveName},
};
constexpr wire::Schema kSegmentSchema("segment header", kSegmentRules);

constexpr wire::Tag kRecordKind = wire::required(1), kHash = wire::required(2),
                    kLength = wire::required(3), kAlgorithm = wire::required(4),
                    kSalt = wire::required(5), kValue = wire::required(6),
                    kSegmentNumber = wire::required(7), kSegmentIncarnation = wire::required(8),
                    kOffset = wire::required(9);
constexpr wire::FieldRule kRecordRules[] = {
    {kRecordKind, "kind", Kind::number, kOne, 2},
    {kHash, "hash", Kind::number, kOne},
    {kLength, "length", Kind::number, kOne, kMaxBlockBytes},
    {kAlgorithm, "digest algorithm", Kind::number, kOne, 2},
    {kSalt, "digest salt", Kind::number, kOne},
    {kValue, "digest", Kind::number, kOne},
    {kSegmentNumber, "segment number", Kind::number, kOne},
    {kSegmentIncarnation, "segment incarnation", Kind::number, kOne},
    {kOffset, "offset", Kind::number, kOne},
};
constexpr wire::Schema kRecordSchema("block record", kRecordRules);

Bytes seal_page(wire::MessageType type, wire::Encoder& fields) {
  const Result<Bytes> payload = std::move(fields).finish();
  TOWPATH_CHECK(payload.ok(), "what we write is what our schema allows");
  Bytes page = wire::seal({type, 1}, *payload);
  TOWPATH_CHECK(page.size() <= kSegmentPage, "a header fits a page");
  page.resize(kSegmentPage);
  return page;
}

/// The payload of the envelope that a page begins with.
Result<ConstByteSpan> open_page(ConstByteSpan page, wire::MessageType type) {
  const wire::OpenLimits limits{type, 1, kSegmentPage - wire::kMaxHeaderBytes};
  TOWPATH_TRY(const wire::Message message, wire::open_first(page, limits));
  return message.payload;
}

struct RecordFields {
  Record record;
  RecordPlace place;
};

Status read_field(const wire::Field& field, RecordFields& into) {
  Record& record = into.record;
  switch (field.tag()) {
    case kRecordKind:
      if (field.number() == 0) return field.refuse("not a kind of record");
      record.kind = static_cast<RecordKind>(field.number());
      break;
    case kHash: record.hash = field.number(); break;
    case kLength: record.length = field.number(); break;
    case kAlgorithm:
      if (field.number() == 0) return field.refuse("not a digest algorithm");
      record.digest.algorithm = static_cast<DigestAlgorithm>(field.number());
      break;
    case kSalt: record.digest.salt = field.number(); break;
    case kValue: record.digest.value = field.number(); break;
    case kSegmentNumber: into.place.segment.number = field.number(); break;
    case kSegmentIncarnation: into.place.segment.incarnation = field.number(); break;
    case kOffset: into.place.offset = field.number(); break;
  }
  return {};
}

}  // namespace

std::uint64_t room_of(const Record& record) {
  const std::uint64_t pages =
      (std::min(record.length, kMaxBlockBytes) + kSegmentPage - 1) / kSegmentPage;
  return (1 + pages) * kSegmentPage;
}

Bytes seal_segment_header(const SegmentHeader& header) {
  wire::Encoder out(kSegmentSchema);
  out.put_number(kNumber, header.name.number);
  out.put_number(kIncarnation, header.name.incarnation);
  if (!header.directory.empty()) out.put_text(kDirectory, header.directory);
  return seal_page(wire::MessageType::segment_header, out);
}

Bytes seal_record(const Record& record, const RecordPlace& place) {
  wire::Encoder out(kRecordSchema);
  out.put_number(kRecordKind, static_cast<std::uint64_t>(record.kind));
  out.put_number(kHash, record.hash);
  out.put_number(kLength, record.length);
  out.put_number(kAlgorithm, static_cast<std::uint64_t>(record.digest.algorithm));
  out.put_number(kSalt, record.digest.salt);
  out.put_number(kValue, record.digest.value);
  out.put_number(kSegmentNumber, place.segment.number);
  out.put_number(kSegmentIncarnation, place.segment.incarnation);
  out.put_number(kOffset, place.offset);
  return seal_page(wire::MessageType::block_header, out);
}

Result<SegmentHeader> open_segment_header(ConstByteSpan page) {
  TOWPATH_TRY(const ConstByteSpan payload, open_page(page, wire::MessageType::segment_header));
  SegmentHeader header;
  TOWPATH_TRY(
      decode(wire::Decoder(payload, kSegmentSchema), [&](const wire::Field& field) -> Status {
        switch (field.tag()) {
          case kNumber: header.name.number = field.number(); break;
          case kIncarnation: header.name.incarnation = field.number(); break;
          case kDirectory: header.directory = field.text(); break;
        }
        return {};
      }));
  return header;
}

Result<Record> open_record(ConstByteSpan page, const RecordPlace& place) {
  TOWPATH_TRY(const ConstByteSpan payload, open_page(page, wire::MessageType::block_header));
  RecordFields found;
  TOWPATH_TRY(decode(wire::Decoder(payload, kRecordSchema),
                     [&](const wire::Field& field) { return read_field(field, found); }));
  if (found.place.segment != place.segment || found.place.offset != place.offset)
    return error(Code::corrupt, cat("a record of segment ", found.place.segment.number, ", offset ",
                                    found.place.offset, " stands in segment ", place.segment.number,
                                    " at ", place.offset));
  if (found.record.kind == RecordKind::removal && found.record.length != 0)
    return error(Code::corrupt, cat("a removal of ", found.record.length, " bytes"));
  return found.record;
}

}  // namespace towpath::kv
