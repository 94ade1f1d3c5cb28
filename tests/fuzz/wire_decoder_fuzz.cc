// Fields from a peer or a disk, by a schema of every kind, count and bound that contains itself.
// What the decoder accepts, the encoder writes; what it wrote reads as the same message, in bytes
// that do not change again.
#include <cstddef>
#include <cstdint>

#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath::wire;  // NOLINT: the words of this file
using towpath::Bytes;
using towpath::ConstByteSpan;
using towpath::Result;
using towpath::Status;

extern const Schema kNodeSchema;
constexpr FieldRule kNodeRules[] = {
    {required(1), "name", Kind::bytes, kAtMostOne, 8},
    {optional(2), "size", Kind::number, kAtMostOne, 1000},
    {required(3), "child", Kind::nested, at_most(4), 4096, &kNodeSchema},
    {optional(4), "any", Kind::number, at_most(3)},
    {optional(5), "pair", Kind::number, {2, 2}},
};
constexpr Schema kNodeSchema("node", kNodeRules);

Status copy(Decoder from, Encoder& to);

Status copy_field(const Field& field, Encoder& to) {
  switch (number_of(field.tag())) {
    case 1: to.put_bytes(field.tag(), field.bytes()); return {};
    case 3: {
      Status inside;
      to.put_nested(field.tag(), [&](Encoder& inner) { inside = copy(field.nested(), inner); });
      return inside;
    }
    default: to.put_number(field.tag(), field.number()); return {};
  }
}

Status copy(Decoder from, Encoder& to) {
  return decode(from, [&](const Field& field) { return copy_field(field, to); });
}

Result<Bytes> read_and_write(ConstByteSpan payload) {
  Encoder out(kNodeSchema);
  TOWPATH_TRY(copy(Decoder(payload, kNodeSchema), out));
  auto written = std::move(out).finish();
  must(written.ok());  // both sides obey one schema
  return written;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConstByteSpan payload(reinterpret_cast<const std::byte*>(data), size);
  const auto once = read_and_write(payload);
  if (!once.ok()) return 0;
  must(once->size() <= size);  // only unknown fields are left out
  const auto twice = read_and_write(*once);
  must(twice.ok() && *twice == *once);
  return 0;
}
