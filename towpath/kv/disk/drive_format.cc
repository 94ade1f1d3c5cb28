#include <algorithm>
#include <set>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/kv/disk/drive_format.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/envelope.h>

namespace towpath::kv {
namespace {

using wire::Kind;
using wire::kOne;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
constexpr std::uint64_t kTablesAt = std::uint64_t{64} << 10U;
constexpr std::uint64_t kMaxSlots = 1'000'000;
constexpr std::uint64_t kMinSlots = 8;
constexpr std::uint64_t kMinSlotBytes = kMiB;
/// Of a file in a table: its name, and what is around it.
constexpr std::uint64_t kFileBytes = kMaxDriveName + 65;

constexpr wire::Tag kSlotBytes = wire::required(1), kSlots = wire::required(2);
constexpr wire::FieldRule kLabelRules[] = {
    {kSlotBytes, "slot bytes", Kind::number, kOne, UINT64_MAX / 2 / kMaxSlots},
    {kSlots, "slots", Kind::number, kOne, kMaxSlots},
};
constexpr wire::Schema kLabelSchema("drive label", kLabelRules);

constexpr wire::Tag kName = wire::required(1), kSlot = wire::required(2);
constexpr wire::FieldRule kFileRules[] = {
    {kName, "name", Kind::bytes, kOne, kMaxDriveName},
    {kSlot, "slot", Kind::number, kOne, kMaxSlots},
};
constexpr wire::Schema kFileSchema("file on a drive", kFileRules);

constexpr wire::Tag kSequence = wire::required(1), kFile = wire::required(2);
constexpr wire::FieldRule kTableRules[] = {
    {kSequence, "sequence", Kind::number, kOne},
    {kFile, "file", Kind::nested, wire::at_most(kMaxSlots), UINT64_MAX, &kFileSchema},
};
constexpr wire::Schema kTableSchema("drive table", kTableRules);

std::uint64_t whole(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

Bytes seal_in_pages(wire::MessageType type, wire::Encoder& fields) {
  const Result<Bytes> payload = std::move(fields).finish();
  TOWPATH_CHECK(payload.ok(), "what we write is what our schema allows");
  Bytes sealed = wire::seal({type, 1}, *payload);
  sealed.resize(static_cast<std::size_t>(whole(sealed.size(), kDrivePage)));
  return sealed;
}

}  // namespace

std::uint64_t DriveLabel::table_bytes() const noexcept {
  return whole(kDrivePage + slots * kFileBytes, kTablesAt);
}

std::uint64_t DriveLabel::table_at(std::uint64_t sequence) const noexcept {
  return kTablesAt + sequence % 2 * table_bytes();
}

std::uint64_t DriveLabel::slot_at(std::uint64_t slot) const noexcept {
  return whole(kTablesAt + 2 * table_bytes(), kMiB) + slot * slot_bytes;
}

Result<DriveLabel> divide_drive(std::uint64_t bytes) {
  const std::uint64_t small = std::clamp(bytes / 16, kMinSlotBytes, 16 * kMiB);
  const std::uint64_t usual = std::clamp(bytes / 256, small, 256 * kMiB);
  DriveLabel label;
  label.slot_bytes = whole(std::clamp(bytes / 1024, usual, kGiB), kDrivePage);
  label.slots = std::min(bytes / label.slot_bytes, kMaxSlots);
  while (label.slots > 0 && label.end() > bytes) --label.slots;
  if (label.slots >= kMinSlots) return label;
  return error(Code::exhausted, cat("a drive of ", format_bytes(bytes), " for KV blocks"),
               cat("it takes ", format_bytes(2 * kMinSlots * kMinSlotBytes), " or more"));
}

Bytes seal_drive_label(const DriveLabel& label) {
  wire::Encoder out(kLabelSchema);
  out.put_number(kSlotBytes, label.slot_bytes);
  out.put_number(kSlots, label.slots);
  return seal_in_pages(wire::MessageType::drive_label, out);
}

Result<DriveLabel> open_drive_label(ConstByteSpan page, std::uint64_t drive_bytes) {
  TOWPATH_TRY(const wire::Message message,
              wire::open_first(page, {wire::MessageType::drive_label, 1, kDrivePage}));
  DriveLabel label;
  TOWPATH_TRY(
      decode(wire::Decoder(message.payload, kLabelSchema), [&](const wire::Field& field) -> Status {
        if (field.tag() == kSlotBytes) label.slot_bytes = field.number();
        if (field.tag() == kSlots) label.slots = field.number();
        return {};
      }));
  // No product here exceeds 64 bits: the schema bounds its factors.
  if (label.slot_bytes >= kMinSlotBytes && label.slot_bytes % kDrivePage == 0 &&
      label.slots >= kMinSlots && label.end() <= drive_bytes)
    return label;
  return error(
      Code::corrupt,
      cat(label.slots, " slots of ", label.slot_bytes, " bytes on a drive of ", drive_bytes),
      "was it copied from a larger one?");
}

Bytes seal_drive_table(const DriveTable& table) {
  wire::Encoder out(kTableSchema);
  out.put_number(kSequence, table.sequence);
  for (const DriveFile& file : table.files) {
    out.put_nested(kFile, [&](wire::Encoder& inner) {
      inner.put_text(kName, file.name);
      inner.put_number(kSlot, file.slot);
    });
  }
  return seal_in_pages(wire::MessageType::drive_table, out);
}

Result<DriveTable> open_drive_table(ConstByteSpan bytes, const DriveLabel& label) {
  TOWPATH_TRY(const wire::Message message,
              wire::open_first(bytes, {wire::MessageType::drive_table, 1, label.table_bytes()}));
  DriveTable table;
  std::set<std::uint64_t> taken;
  std::set<std::string> names;
  const auto read_file = [&](const wire::Field& outer) -> Status {
    DriveFile& file = table.files.emplace_back();
    TOWPATH_TRY(decode(outer.nested(), [&](const wire::Field& field) -> Status {
      if (field.tag() == kName) file.name = field.text();
      if (field.tag() == kSlot) file.slot = field.number();
      return {};
    }));
    if (file.slot < label.slots && taken.insert(file.slot).second && names.insert(file.name).second)
      return {};
    return outer.refuse("a slot that is not there, or one of two files, or a name of two");
  };
  TOWPATH_TRY(
      decode(wire::Decoder(message.payload, kTableSchema), [&](const wire::Field& field) -> Status {
        if (field.tag() == kFile) return read_file(field);
        table.sequence = field.number();
        return {};
      }));
  return table;
}

}  // namespace towpath::kv
