// A small message with everything in it, for the tests of wire.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>

namespace towpath::wire::testing {

// Not inline: GCC 12 with -fsanitize=undefined does not take the address of an inline variable for
// a constant.
inline constexpr Tag kLength = required(1);
inline constexpr Tag kLabel = optional(2);
inline constexpr FieldRule kPartRules[] = {
    {kLength, "length", Kind::number, kOne, 1'000'000},
    {kLabel, "label", Kind::bytes, kAtMostOne, 8},
};
inline constexpr Schema kPartSchema("boat.part", kPartRules);

inline constexpr Tag kName = required(1);
inline constexpr Tag kNote = optional(2);
inline constexpr Tag kPart = required(3);
inline constexpr FieldRule kBoatRules[] = {
    {kName, "name", Kind::bytes, kOne, 16},
    {kNote, "note", Kind::number, kAtMostOne},
    {kPart, "part", Kind::nested, at_most(3), 64, &kPartSchema},
};
inline constexpr Schema kBoatSchema("boat", kBoatRules);

struct Part {
  std::uint64_t length = 0;
  std::string label;

  friend bool operator==(const Part&, const Part&) = default;
};

struct Boat {
  std::string name;
  std::uint64_t note = 0;
  std::vector<Part> parts;

  friend bool operator==(const Boat&, const Boat&) = default;
};

inline Boat sample_boat() { return {"barge", 300, {{7, "bow"}, {1'000'000, ""}}}; }

inline Result<Bytes> encode_boat(const Boat& boat) {
  Encoder out(kBoatSchema);
  out.put_text(kName, boat.name);
  if (boat.note != 0) out.put_number(kNote, boat.note);
  for (const Part& part : boat.parts)
    out.put_nested(kPart, [&](Encoder& inner) {
      inner.put_number(kLength, part.length);
      if (!part.label.empty()) inner.put_text(kLabel, part.label);
    });
  return std::move(out).finish();
}

inline Status decode_part(const Field& outer, Part& part) {
  return decode(outer.nested(), [&](const Field& field) -> Status {
    switch (field.tag()) {
      case kLength: part.length = field.number(); break;
      case kLabel: part.label = field.text(); break;
      default: break;
    }
    return {};
  });
}

inline Result<Boat> decode_boat(ConstByteSpan payload) {
  Boat boat;
  TOWPATH_TRY(decode(Decoder(payload, kBoatSchema), [&](const Field& field) -> Status {
    switch (field.tag()) {
      case kName: boat.name = field.text(); break;
      case kNote: boat.note = field.number(); break;
      case kPart: return decode_part(field, boat.parts.emplace_back());
      default: break;
    }
    return {};
  }));
  return boat;
}

/// A node that may contain a node: how deep is not the sender's choice.
extern const Schema kNodeSchema;
inline constexpr Tag kChild = optional(1);
inline constexpr FieldRule kNodeRules[] = {
    {kChild, "child", Kind::nested, kAtMostOne, UINT64_MAX, &kNodeSchema}};
inline constexpr Schema kNodeSchema("node", kNodeRules);

/// Bytes from hexadecimal digits; spaces are for the eye.
inline Bytes from_hex(std::string_view digits) {
  Bytes bytes;
  int high = -1;
  for (const char letter : digits) {
    if (letter == ' ') continue;
    const int value = letter <= '9' ? letter - '0' : letter - 'a' + 10;
    if (high < 0) {
      high = value;
    } else {
      bytes.push_back(static_cast<std::byte>(high * 16 + value));
      high = -1;
    }
  }
  return bytes;
}

inline std::string to_hex(ConstByteSpan bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : bytes) {
    out.push_back(kDigits[static_cast<std::size_t>(byte) >> 4U]);
    out.push_back(kDigits[static_cast<std::size_t>(byte) & 15U]);
  }
  return out;
}

}  // namespace towpath::wire::testing
