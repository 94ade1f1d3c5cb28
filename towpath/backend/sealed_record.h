// Sealed records: the small messages of a backend (connection info, key of a memory, hello), each
// in an envelope of its own, by a schema.
//
// A form says what a record is; seal_record() writes one, open_record() reads what an
// unauthenticated connection sent and fails as the contract of backends wants it.
//
//   constexpr RecordForm kHelloForm{{wire::MessageType::peer_hello, 1}, kHelloSchema};
//
// Thread: immutable.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/envelope.h>
#include <towpath/wire/fixed_fields.h>

namespace towpath::backend {

/// The most bytes of fields that a record usually may have, those of later versions included.
inline constexpr std::uint64_t kMaxRecordBytes = 4096;

struct RecordForm {
  wire::MessageKind kind;
  const wire::Schema& schema;  ///< its name is the record's
  std::uint16_t oldest = 1;    ///< version that can be read
  std::uint64_t max_bytes = kMaxRecordBytes;
};

/// `write(wire::Encoder&)` puts the fields. Errors: those of Encoder::finish().
template <typename Write>
Result<Bytes> seal_record(const RecordForm& form, Write&& write) {
  constexpr std::size_t kUsualBytes = 128;  // else its room grows six times on the way there
  wire::Encoder out(form.schema, wire::kHeaderBytes);
  out.reserve(kUsualBytes);
  write(out);
  TOWPATH_TRY(Bytes message, std::move(out).finish());
  wire::seal_in_place(form.kind, message);
  return message;
}

/// The same of fields that are known when it is compiled.
template <const RecordForm& Form, typename... Fields>
Bytes seal_fields(const Fields&... fields) {
  std::array<std::byte, wire::kHeaderBytes + wire::kMostBytes<Fields...>> room;
  const std::byte* const end =
      wire::put_fields<Form.schema>(room.data() + wire::kHeaderBytes, fields...);
  const ByteSpan message(room.data(), static_cast<std::size_t>(end - room.data()));
  wire::seal_in_place(Form.kind, message);
  return {message.begin(), message.end()};
}

/// "these bytes are no `form`", with the cause: corrupt, but unsupported stays (a newer version).
Status no_such_record(const RecordForm& form, Status why);

/// Of a record of a version before form.oldest: unsupported.
Status too_old(const RecordForm& form, std::uint16_t version);

/// `visit(const wire::Field&) -> Status` as for wire::decode(). Errors: corrupt, unsupported.
template <typename Visit>
Status open_record(const RecordForm& form, ConstByteSpan bytes, Visit&& visit) {
  const wire::OpenLimits limits{.type = form.kind.type,
                                .max_version = form.kind.version,
                                .max_payload_bytes = form.max_bytes};
  const auto message = wire::open(bytes, limits);
  if (!message.ok()) return no_such_record(form, message.status());
  if (message->kind.version < form.oldest) return too_old(form, message->kind.version);
  Status fields = wire::decode(wire::Decoder(message->payload, form.schema), visit);
  return fields.ok() ? Status() : no_such_record(form, std::move(fields));
}

}  // namespace towpath::backend
