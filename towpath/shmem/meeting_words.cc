#include <towpath/shmem/job.h>
#include <towpath/shmem/meeting_words.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>

namespace towpath::shmem {
namespace {

// docs/formats/shmem_frame.md
constexpr wire::Tag kMeetingPe = wire::required(1), kMeetingPes = wire::required(2),
                    kMeetingSaid = wire::required(3), kMeetingRefusal = wire::required(4);
constexpr wire::FieldRule kMeetingRules[] = {
    {kMeetingPe, "pe", wire::Kind::number, wire::kAtMostOne, UINT32_MAX},
    {kMeetingPes, "pes", wire::Kind::number, wire::kAtMostOne, UINT32_MAX},
    {kMeetingSaid, "said", wire::Kind::bytes, wire::at_most(kMaxPes), kMaxSaidBytes},
    {kMeetingRefusal, "refusal", wire::Kind::bytes, wire::kAtMostOne, 1024},
};
constexpr wire::Schema kMeetingSchema("meeting", kMeetingRules);
constexpr std::size_t kAroundOneSaid = 64;

}  // namespace

wire::OpenLimits meeting_limits(int count) noexcept {
  const auto times = static_cast<std::uint64_t>(count);
  return {.type = wire::MessageType::pe_exchange,
          .max_version = 1,
          .max_payload_bytes = 2048 + times * (kMaxSaidBytes + kAroundOneSaid)};
}

Result<Bytes> encode_meeting_words(const MeetingWords& words) {
  wire::Encoder out(kMeetingSchema);
  if (words.pe) {
    out.put_number(kMeetingPe, *words.pe);
    out.put_number(kMeetingPes, words.pes);
  }
  for (const Bytes& said : words.said) out.put_bytes(kMeetingSaid, said);
  if (!words.refusal.empty())
    out.put_text(kMeetingRefusal, std::string_view(words.refusal).substr(0, 1024));
  TOWPATH_TRY(const Bytes payload, std::move(out).finish());
  return wire::seal({.type = wire::MessageType::pe_exchange, .version = 1}, payload);
}

Result<MeetingWords> decode_meeting_words(ConstByteSpan payload) {
  MeetingWords words;
  TOWPATH_TRY(wire::decode(wire::Decoder(payload, kMeetingSchema), [&](const wire::Field& field) {
    switch (field.tag()) {
      case kMeetingPe: words.pe = static_cast<std::uint32_t>(field.number()); break;
      case kMeetingPes: words.pes = static_cast<std::uint32_t>(field.number()); break;
      case kMeetingSaid: words.said.emplace_back(field.bytes().begin(), field.bytes().end()); break;
      case kMeetingRefusal: words.refusal = field.text(); break;
    }
    return Status();
  }));
  return words;
}

}  // namespace towpath::shmem
