// Encoder: writes the fields of a message by its schema (schema.h). Equal values put in equal order
// give equal bytes, on every machine.
//
//   Encoder metadata(kMetadataSchema);
//   metadata.put_text(kName, name);
//   for (const Region& region : regions)
//     metadata.put_nested(kRegion, [&](Encoder& out) { out.put_number(kLength, region.length); });
//   TOWPATH_TRY(const Bytes payload, std::move(metadata).finish());
//
// What the schema does not allow is remembered; finish() reports it, so no put needs a check.
// A field's bytes: docs/formats/fields.md. Thread: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/wire/schema.h>

namespace towpath::wire {

class Encoder {
 public:
  /// The schema must outlive the encoder (constants do). `room_before`: so many bytes stay free
  /// before the fields, for the header of an envelope (seal_in_place()).
  explicit Encoder(const Schema& schema, std::size_t room_before = 0)
      : root_(this), tally_(schema, Tally::Side::writing, 0) {
    large_.resize(room_before > kSmall ? room_before : 0);
    used_ = large_.empty() ? room_before : 0;
    std::fill_n(small_.begin(), used_, std::byte{0});
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  /// For so many bytes in all, the room before included. Of a few there is no need.
  void reserve(std::size_t size_bytes) {
    if (size_bytes > kSmall) root_->large_.reserve(size_bytes);
  }

  void put_number(Tag tag, std::uint64_t value);
  void put_bytes(Tag tag, ConstByteSpan value);
  void put_text(Tag tag, std::string_view value) { put_bytes(tag, as_bytes(value)); }

  /// Calls `write(Encoder&)`, which puts the fields inside; not if the encoder has failed already.
  template <typename Write>
  void put_nested(Tag tag, Write&& write) {
    const FieldRule* rule = begin_nested(tag);
    if (rule == nullptr) return;
    Encoder inner(*rule->nested, *this);
    write(inner);
    end_nested(*rule, inner);
  }

  /// The payload, to be sealed (envelope.h), behind the room before it. Only of the encoder that
  /// put_nested() did not make.
  /// Errors: the first of invalid_argument (unknown tag, another kind, a field too often or
  /// missing), out_of_range (over the rule's max).
  Result<Bytes> finish() &&;

 private:
  Encoder(const Schema& schema, const Encoder& outer) noexcept
      : root_(outer.root_),
        tally_(schema, Tally::Side::writing, outer.tally_.depth() + 1),
        begin_(outer.root_->size()) {}

  // Of the root: what is written.
  std::size_t size() const noexcept { return large_.size() + used_; }
  void flush();
  /// Null: the field may not stand there.
  const FieldRule* begin_field(Tag tag, const FieldValue& value);
  /// Writes tag and kind; behind them is room for so many bytes, a few, which are to be written().
  std::byte* put_head(Tag tag, Kind kind, std::size_t room);
  void written(const std::byte* end) noexcept {
    root_->used_ = static_cast<std::size_t>(end - root_->small_.data());
  }
  const FieldRule* begin_nested(Tag tag);
  void end_nested(const FieldRule& rule, const Encoder& inner);
  /// Keeps the first failure; false when there is one.
  bool keep(const Status& status);

  Encoder* root_;  ///< holds the bytes and the failure; itself unless nested
  Tally tally_;
  std::size_t begin_ = 0;  ///< where its fields begin in the root's bytes
  // Of the root. Most messages are small: to grow a vector field by field takes longer than to
  // write the fields. The message is large_, and behind it what is used of small_.
  static constexpr std::size_t kSmall = 256;
  std::array<std::byte, kSmall> small_;
  std::size_t used_ = 0;
  Bytes large_;
  Status failure_;
};

}  // namespace towpath::wire
