// Decoder: gives the fields of a message one by one, each held against the schema (schema.h) before
// the caller sees it. It borrows the payload, allocates nothing, and never reads outside it.
//
//   TOWPATH_TRY(decode(Decoder(payload, kMetadataSchema), [&](const Field& field) -> Status {
//     switch (field.tag()) {
//       case kName: metadata.name = field.text(); break;
//       case kRegion: return decode(field.nested(), [&](const Field& in) -> Status { ... });
//     }
//     return {};
//   }));
//
// Unknown optional fields never arrive at the switch. Everything else that the schema does not
// allow is refused by name: an unknown required field, another kind, a number or length over its
// max, a field too often or missing. What only the author knows (is 7 a memory kind?) ends with
// field.refuse("why").
// Thread: one at a time; Field immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <towpath/core/bytes.h>
#include <towpath/core/check.h>
#include <towpath/core/result.h>
#include <towpath/wire/schema.h>

namespace towpath::wire {

class Decoder;

/// One field, as long-lived as the payload and the schema. Asking for another kind than its rule's
/// is a fault of the caller.
class Field {
 public:
  Tag tag() const noexcept { return rule_->tag; }
  std::string_view name() const noexcept { return rule_->name; }

  std::uint64_t number() const { return need(Kind::number), number_; }
  ConstByteSpan bytes() const { return need(Kind::bytes), bytes_; }
  std::string_view text() const { return as_text(bytes()); }
  Decoder nested() const;

  /// A failure that names this field: "metadata: field kind (required 2) at byte 12 is 9: not a
  /// memory kind". Code: corrupt.
  Status refuse(std::string_view why) const;

 private:
  friend class Decoder;

  void need(Kind kind) const {
    TOWPATH_CHECK(rule_->kind == kind, "a field read as another kind than its rule's");
  }

  const Schema* schema_ = nullptr;
  const FieldRule* rule_ = nullptr;
  std::uint64_t number_ = 0;
  ConstByteSpan bytes_;
  std::size_t offset_ = 0;        ///< of the field, from the payload's begin
  std::size_t value_offset_ = 0;  ///< of bytes_
  std::size_t depth_ = 0;
};

class Decoder {
 public:
  /// Both must outlive the decoder and its fields.
  Decoder(ConstByteSpan payload, const Schema& schema) noexcept
      : bytes_(payload), tally_(schema, Tally::Side::reading, 0) {}

  /// The next known field; nothing at the end, when the message has proven complete. A failure is
  /// final: it comes again. Prefer decode(), which cannot be left half-way.
  /// Errors: corrupt, unsupported (an unknown required field), out_of_range (over a max, too deep).
  Result<std::optional<Field>> next();

 private:
  friend class Field;

  explicit Decoder(const Field& outer) noexcept
      : bytes_(outer.bytes_),
        tally_(*outer.rule_->nested, Tally::Side::reading, outer.depth_ + 1),
        base_(outer.value_offset_) {}

  template <typename Visit>
  friend Status decode(Decoder decoder, Visit&& visit);

  enum class Step : std::uint8_t { field, end, failed };
  /// What next() does, into a field that is there: a key of a region is read in less than it takes
  /// to carry results with failures around. After `failed`, failure_ says why.
  Step step(Field& field);
  // False: failure_ says why.
  bool take_value(Kind kind, Field& field);
  bool take_number(std::uint64_t& number);
  bool take(std::size_t size_bytes, std::string_view what, ConstByteSpan& taken);
  bool fail(Status why);
  bool broken(std::string_view what);
  std::size_t offset() const noexcept { return base_ + at_; }

  ConstByteSpan bytes_;
  Tally tally_;
  std::size_t at_ = 0;
  std::size_t base_ = 0;  ///< where bytes_ begins in the outermost payload
  Status failure_;
};

inline Decoder Field::nested() const { return need(Kind::nested), Decoder(*this); }

/// Calls `visit(const Field&) -> Status` for each known field; stops at the first failure.
/// What a visitor has kept of a message that fails is of no worth.
template <typename Visit>
Status decode(Decoder decoder, Visit&& visit) {
  Field field;
  for (;;) {
    const Decoder::Step step = decoder.step(field);
    if (step != Decoder::Step::field) return std::move(decoder.failure_);
    if (Status visited = visit(std::as_const(field)); !visited.ok()) return visited;
  }
}

}  // namespace towpath::wire
