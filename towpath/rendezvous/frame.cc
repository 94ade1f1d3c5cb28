#include <algorithm>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/rendezvous/frame.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>

namespace towpath::rendezvous {

namespace {

using wire::FieldRule;
using wire::kAtMostOne;
using wire::Kind;
using wire::Tag;

// docs/formats/rendezvous_frame.md
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kMaxWhy = 512;
constexpr std::size_t kMaxBesidesMetadata = kMaxAgentName + kMaxLabel + kMaxWhy + 128;
constexpr Tag kKind = wire::required(1), kAgent = wire::required(2), kLabel = wire::required(3),
              kMetadata = wire::required(4), kCode = wire::required(5), kWhy = wire::required(6);
constexpr FieldRule kRules[] = {
    {kKind, "kind", Kind::number, wire::kOne, static_cast<std::uint64_t>(FrameKind::refused)},
    {kAgent, "agent", Kind::bytes, wire::kOne, kMaxAgentName},
    {kLabel, "label", Kind::bytes, kAtMostOne, kMaxLabel},
    {kMetadata, "metadata", Kind::bytes, kAtMostOne, UINT32_MAX},
    {kCode, "code", Kind::number, kAtMostOne, UINT8_MAX},
    {kWhy, "why", Kind::bytes, kAtMostOne, kMaxWhy},
};
constexpr wire::Schema kSchema("rendezvous frame", kRules);

// A code that this version does not know, or ok, cannot be acted on.
Code code_of(std::uint64_t reported) {
  const auto code = static_cast<Code>(reported);
  return code != Code::ok && name_of(code) != "unknown" ? code : Code::corrupt;
}

}  // namespace

wire::OpenLimits frame_limits(std::size_t max_metadata_bytes) noexcept {
  return {.type = wire::MessageType::rendezvous_frame,
          .max_version = kVersion,
          .max_payload_bytes =
              std::min<std::uint64_t>(max_metadata_bytes, UINT32_MAX) + kMaxBesidesMetadata};
}

Bytes encode(const Frame& frame) {
  wire::Encoder out(kSchema);
  out.reserve(frame.metadata.size() + kMaxBesidesMetadata);
  out.put_number(kKind, static_cast<std::uint64_t>(frame.kind));
  out.put_text(kAgent, frame.name.agent);
  if (!frame.name.label.empty()) out.put_text(kLabel, frame.name.label);
  if (!frame.metadata.empty()) out.put_bytes(kMetadata, frame.metadata);
  if (!frame.why.ok()) {
    out.put_number(kCode, static_cast<std::uint64_t>(frame.why.code()));
    out.put_text(kWhy, frame.why.message().substr(0, kMaxWhy));
  }
  const auto payload = std::move(out).finish();
  TOWPATH_CHECK(payload.ok(), "a frame whose name and metadata were checked");
  return wire::seal({.type = wire::MessageType::rendezvous_frame, .version = kVersion}, *payload);
}

Result<Frame> decode_frame(ConstByteSpan payload) {
  Frame frame;
  Code code = Code::ok;
  std::string_view why;
  TOWPATH_TRY(wire::decode(wire::Decoder(payload, kSchema), [&](const wire::Field& field) {
    switch (field.tag()) {
      case kKind:
        frame.kind = static_cast<FrameKind>(field.number());
        return field.number() == 0 ? field.refuse("no kind of frame") : Status();
      case kAgent: frame.name.agent = field.text(); break;
      case kLabel: frame.name.label = field.text(); break;
      case kMetadata: frame.metadata.assign(field.bytes().begin(), field.bytes().end()); break;
      case kCode: code = code_of(field.number()); break;
      case kWhy: why = field.text(); break;
      default: break;
    }
    return Status();
  }));
  if (frame.kind == FrameKind::refused)
    frame.why = error(code == Code::ok ? Code::corrupt : code,
                      cat("the peer refuses: ", printable(why, kMaxWhy)));
  return frame;
}

}  // namespace towpath::rendezvous
