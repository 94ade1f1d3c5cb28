#include <towpath/shmem/bootstrap_words.h>
#include <towpath/shmem/job.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>

namespace towpath::shmem {
namespace {

// docs/formats/shmem_frame.md
constexpr wire::Tag kBootstrapPe = wire::required(1), kBootstrapPes = wire::required(2),
                    kBootstrapSaid = wire::required(3), kBootstrapRefusal = wire::required(4);
constexpr wire::FieldRule kBootstrapRules[] = {
    {kBootstrapPe, "pe", wire::Kind::number, wire::kAtMostOne, UINT32_MAX},
    {kBootstrapPes, "pes", wire::Kind::number, wire::kAtMostOne, UINT32_MAX},
    {kBootstrapSaid, "said", wire::Kind::bytes, wire::at_most(kMaxPes), kMaxSaidBytes},
    {kBootstrapRefusal, "refusal", wire::Kind::bytes, wire::kAtMostOne, 1024},
};
constexpr wire::Schema kBootstrapSchema("meeting", kBootstrapRules);
constexpr std::size_t kAroundOneSaid = 64;

}  // namespace

wire::OpenLimits bootstrap_limits(int count) noexcept {
  const auto times = static_cast<std::uint64_t>(count);
  return {.type = wire::MessageType::pe_exchange,
          .max_version = 1,
          .max_payload_bytes = 2048 + times * (kMaxSaidBytes + kAroundOneSaid)};
}

Result<Bytes> encode_bootstrap_words(const BootstrapWords& words) {
  wire::Encoder out(kBootstrapSchema);
  if (words.pe) {
    out.put_number(kBootstrapPe, *words.pe);
    out.put_number(kBootstrapPes, words.pes);
  }
  for (const Bytes& said : words.said) out.put_bytes(kBootstrapSaid, said);
  if (!words.refusal.empty())
    out.put_text(kBootstrapRefusal, std::string_view(words.refusal).substr(0, 1024));
  TOWPATH_TRY(const Bytes payload, std::move(out).finish());
  return wire::seal({.type = wire::MessageType::pe_exchange, .version = 1}, payload);
}

Result<BootstrapWords> decode_bootstrap_words(ConstByteSpan payload) {
  BootstrapWords words;
  TOWPATH_TRY(wire::decode(wire::Decoder(payload, kBootstrapSchema), [&](const wire::Field& field) {
    switch (field.tag()) {
      case kBootstrapPe: words.pe = static_cast<std::uint32_t>(field.number()); break;
      case kBootstrapPes: words.pes = static_cast<std::uint32_t>(field.number()); break;
      case kBootstrapSaid:
        words.said.emplace_back(field.bytes().begin(), field.bytes().end());
        break;
      case kBootstrapRefusal: words.refusal = field.text(); break;
    }
    return Status();
  }));
  return words;
}

}  // namespace towpath::shmem
