#include "tools/replay/message.h"

#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/little_endian.h>

namespace towpath::tools::replay {
namespace {

using namespace wire;

constexpr std::uint64_t kMaxListBytes = 48 * 1024;
constexpr std::uint64_t kMaxSeriesBytes = 8 * 1024;
constexpr std::uint64_t kMaxEntryBytes = kMaxSeriesBytes + 4096;

constexpr Tag kEntryName = required(1), kEntryNumber = required(2), kEntryText = required(3),
              kEntrySeries = required(4);
constexpr FieldRule kEntryRules[] = {
    {kEntryName, "name", Kind::bytes, kOne, 64},
    {kEntryNumber, "number", Kind::number, kAtMostOne},
    {kEntryText, "text", Kind::bytes, kAtMostOne, 4096},
    {kEntrySeries, "series", Kind::bytes, kAtMostOne, kMaxSeriesBytes},
};
constexpr Schema kEntrySchema("summary entry", kEntryRules);

constexpr Tag kKind = required(1), kOrdinal = required(2), kBlocks = required(3),
              kDigests = required(4), kLayout = required(5), kEntry = required(6);
constexpr FieldRule kMessageRules[] = {
    {kKind, "kind", Kind::number, kOne, 6},
    {kOrdinal, "ordinal", Kind::number, kOne},
    {kBlocks, "blocks", Kind::bytes, kAtMostOne, kMaxListBytes},
    {kDigests, "digests", Kind::bytes, kAtMostOne, kMaxListBytes},
    {kLayout, "layout", Kind::bytes, kAtMostOne, kMaxListBytes},
    {kEntry, "entry", Kind::nested, at_most(256), kMaxEntryBytes, &kEntrySchema},
};
constexpr Schema kMessageSchema("replay message", kMessageRules);

Bytes pack(const std::vector<std::uint64_t>& numbers) {
  Bytes bytes(numbers.size() * 8);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    wire::store(ByteSpan(bytes).subspan(i * 8), numbers[i]);
  return bytes;
}

Result<std::vector<std::uint64_t>> unpack(const Field& field) {
  const ConstByteSpan bytes = field.bytes();
  if (bytes.size() % 8 != 0) return field.refuse("not a list of 64-bit numbers");
  std::vector<std::uint64_t> numbers(bytes.size() / 8);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = wire::load<std::uint64_t>(bytes.subspan(i * 8, 8));
  return numbers;
}

Status decode_entry(const Field& outer, Message& message) {
  std::string name;
  return wire::decode(outer.nested(), [&](const Field& field) -> Status {
    if (field.tag() == kEntryName) name = field.text();
    if (field.tag() == kEntryNumber) message.figures[name] = field.number();
    if (field.tag() == kEntryText) message.texts[name] = field.text();
    if (field.tag() == kEntrySeries) {
      TOWPATH_TRY(message.series[name], unpack(field));
    }
    return {};
  });
}

Status decode_field(const Field& field, Message& message) {
  switch (field.tag()) {
    case kKind:
      if (field.number() == 0) return field.refuse("not a kind of message");
      message.kind = static_cast<MessageKind>(field.number());
      break;
    case kOrdinal: message.ordinal = field.number(); break;
    case kBlocks: {
      TOWPATH_TRY(message.blocks, unpack(field));
      break;
    }
    case kDigests: {
      TOWPATH_TRY(message.digests, unpack(field));
      break;
    }
    case kLayout: message.layout.assign(field.bytes().begin(), field.bytes().end()); break;
    case kEntry: return decode_entry(field, message);
  }
  return {};
}

template <typename Value>
Value value_of(const std::map<std::string, Value>& all, const std::string& name) {
  const auto found = all.find(name);
  return found == all.end() ? Value() : found->second;
}

}  // namespace

std::uint64_t figure_of(const Message& message, const std::string& name) {
  return value_of(message.figures, name);
}
std::string text_of(const Message& message, const std::string& name) {
  return value_of(message.texts, name);
}
std::vector<std::uint64_t> series_of(const Message& message, const std::string& name) {
  return value_of(message.series, name);
}

Result<Bytes> encode(const Message& message) {
  Encoder out(kMessageSchema);
  out.put_number(kKind, static_cast<std::uint64_t>(message.kind));
  out.put_number(kOrdinal, message.ordinal);
  if (!message.blocks.empty()) out.put_bytes(kBlocks, pack(message.blocks));
  if (!message.digests.empty()) out.put_bytes(kDigests, pack(message.digests));
  if (!message.layout.empty()) out.put_bytes(kLayout, message.layout);
  for (const auto& [name, number] : message.figures) {
    out.put_nested(kEntry, [&](Encoder& inner) {
      inner.put_text(kEntryName, name);
      inner.put_number(kEntryNumber, number);
    });
  }
  for (const auto& [name, text] : message.texts) {
    out.put_nested(kEntry, [&](Encoder& inner) {
      inner.put_text(kEntryName, name);
      inner.put_text(kEntryText, text.substr(0, 4096));
    });
  }
  for (const auto& [name, numbers] : message.series) {
    out.put_nested(kEntry, [&](Encoder& inner) {
      inner.put_text(kEntryName, name);
      inner.put_bytes(kEntrySeries, pack(numbers));
    });
  }
  return std::move(out).finish();
}

Result<Message> decode(ConstByteSpan bytes) {
  Message message;
  TOWPATH_TRY(wire::decode(wire::Decoder(bytes, kMessageSchema),
                           [&](const Field& field) { return decode_field(field, message); }));
  return message;
}

}  // namespace towpath::tools::replay
