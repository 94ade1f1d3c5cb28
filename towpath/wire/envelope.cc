// The streaming state of XXH3 on the stack is part of xxHash's interface under this name.
#define XXH_STATIC_LINKING_ONLY  // NOLINT(readability-identifier-naming): xxHash's name
#include <algorithm>
#include <array>
#include <string_view>

#include <xxhash.h>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/wire/envelope.h>
#include <towpath/wire/little_endian.h>

namespace towpath::wire {
namespace {

constexpr std::string_view kMagic = "TOWP";
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kHeaderLengthAt = 6;
constexpr std::size_t kTypeAt = 8;
constexpr std::size_t kMessageVersionAt = 10;
constexpr std::size_t kReservedAt = 12;
constexpr std::size_t kPayloadLengthAt = 16;
constexpr std::size_t kChecksumAt = 24;

template <typename T>
T at(ConstByteSpan bytes, std::size_t offset) {
  return load<T>(bytes.subspan(offset));
}

// Copied together, a message of this size is hashed at once: to set the streaming state up takes
// longer than to hash it, and of a pool's regions each has keys.
constexpr std::size_t kSmall = 256;

/// Over every byte except the checksum's own.
std::uint64_t checksum_of(ConstByteSpan envelope) {
  const ConstByteSpan before = envelope.first(kChecksumAt);
  const ConstByteSpan after = envelope.subspan(kHeaderBytes);
  if (before.size() + after.size() <= kSmall) {
    std::array<std::byte, kSmall> whole;  // what is hashed of it is written first
    const std::byte* const end = copy_bytes(after, copy_bytes(before, whole.data()));
    return XXH3_64bits(whole.data(), static_cast<std::size_t>(end - whole.data()));
  }
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, before.data(), before.size());
  XXH3_64bits_update(&state, after.data(), after.size());
  return XXH3_64bits_digest(&state);
}

Status check_frame(ConstByteSpan bytes) {
  if (bytes.size() < kHeaderBytes)
    return error(Code::corrupt,
                 cat("an envelope cut short: ", bytes.size(), " bytes of at least ", kHeaderBytes));
  TOWPATH_TRY(check_beginning(bytes));
  const auto version = at<std::uint16_t>(bytes, kVersionAt);
  if (version == 0) return error(Code::corrupt, "envelope version 0");
  if (version > kEnvelopeVersion)
    return error(Code::unsupported,
                 cat("envelope version ", version, "; this side knows up to ", kEnvelopeVersion),
                 "upgrade this side");
  const auto header_bytes = at<std::uint16_t>(bytes, kHeaderLengthAt);
  if (header_bytes < kHeaderBytes || header_bytes > kMaxHeaderBytes)
    return error(Code::corrupt, cat("an envelope's header of ", header_bytes, " bytes, not ",
                                    kHeaderBytes, " to ", kMaxHeaderBytes));
  const auto reserved = at<std::uint32_t>(bytes, kReservedAt);
  if (reserved != 0)
    return error(Code::corrupt, cat("an envelope's reserved word is ", hex(reserved), ", not 0"));
  return {};
}

Status check_kind(const MessageKind& kind, const OpenLimits& limits) {
  if (kind.type != limits.type)
    return error(Code::invalid_argument,
                 cat("a message of type ", name_of(kind.type), " (",
                     static_cast<std::uint16_t>(kind.type), ") instead of ", name_of(limits.type)),
                 "pass these bytes to the reader of their type");
  if (kind.version == 0) return error(Code::corrupt, cat(name_of(kind.type), " version 0"));
  if (kind.version > limits.max_version)
    return error(Code::unsupported,
                 cat(name_of(kind.type), " version ", kind.version, "; this side knows up to ",
                     limits.max_version),
                 "upgrade this side");
  return {};
}

}  // namespace

std::string_view name_of(MessageType type) noexcept {
  switch (type) {
    case MessageType::metadata: return "metadata";
    case MessageType::notification: return "notification";
    case MessageType::layout: return "layout";
    case MessageType::block_header: return "block_header";
    case MessageType::peer_hello: return "peer_hello";
    case MessageType::rendezvous_frame: return "rendezvous_frame";
    case MessageType::connection_info: return "connection_info";
    case MessageType::replay_control: return "replay_control";
    case MessageType::memory_key: return "memory_key";
    case MessageType::layout_package: return "layout_package";
    case MessageType::pe_exchange: return "pe_exchange";
    case MessageType::segment_header: return "segment_header";
    case MessageType::block_index: return "block_index";
    case MessageType::step_orders: return "step_orders";
    case MessageType::worker_report: return "worker_report";
    case MessageType::blob_header: return "blob_header";
    case MessageType::block_lease: return "block_lease";
    case MessageType::block_catalogue: return "block_catalogue";
    case MessageType::drive_label: return "drive_label";
    case MessageType::drive_table: return "drive_table";
  }
  return "unknown";
}

Bytes seal(MessageKind kind, ConstByteSpan payload) {
  Bytes sealed;
  sealed.reserve(kHeaderBytes + payload.size());
  sealed.resize(kHeaderBytes);
  sealed.insert(sealed.end(), payload.begin(), payload.end());
  seal_in_place(kind, sealed);
  return sealed;
}

void seal_in_place(MessageKind kind, ByteSpan out) {
  std::ranges::fill(out.first(kHeaderBytes), std::byte{0});
  copy_bytes(as_bytes(kMagic), out.data());
  store(out.subspan(kVersionAt), kEnvelopeVersion);
  store(out.subspan(kHeaderLengthAt), static_cast<std::uint16_t>(kHeaderBytes));
  store(out.subspan(kTypeAt), static_cast<std::uint16_t>(kind.type));
  store(out.subspan(kMessageVersionAt), kind.version);
  store(out.subspan(kPayloadLengthAt), static_cast<std::uint64_t>(out.size() - kHeaderBytes));
  store(out.subspan(kChecksumAt), checksum_of(out));
}

Status check_beginning(ConstByteSpan bytes) {
  const std::string_view magic = as_text(bytes.first(std::min(bytes.size(), kMagic.size())));
  if (kMagic.starts_with(magic)) return {};
  return error(Code::corrupt,
               cat("not an envelope: it begins with '", printable(magic), "', not TOWP"),
               "check that the other side speaks Towpath");
}

Result<Header> read_header(ConstByteSpan bytes, const OpenLimits& limits) {
  TOWPATH_TRY(check_frame(bytes));
  const Header header{.kind = {.type = static_cast<MessageType>(at<std::uint16_t>(bytes, kTypeAt)),
                               .version = at<std::uint16_t>(bytes, kMessageVersionAt)},
                      .header_bytes = at<std::uint16_t>(bytes, kHeaderLengthAt),
                      .payload_bytes = at<std::uint64_t>(bytes, kPayloadLengthAt)};
  TOWPATH_TRY(check_kind(header.kind, limits));
  // A limit near the top of the range must not let total_bytes() wrap.
  if (header.payload_bytes > limits.max_payload_bytes ||
      !checked_add(header.header_bytes, header.payload_bytes))
    return error(Code::out_of_range,
                 cat("a ", name_of(header.kind.type), " of ", header.payload_bytes,
                     " bytes; this side takes up to ", limits.max_payload_bytes));
  return header;
}

Result<Message> open(ConstByteSpan bytes, const OpenLimits& limits) {
  TOWPATH_TRY(const Header header, read_header(bytes, limits));
  if (header.total_bytes() != bytes.size())
    return error(Code::corrupt, cat("a ", name_of(header.kind.type), " says ", header.total_bytes(),
                                    " bytes, but ", bytes.size(), " are here"));
  const auto reported = at<std::uint64_t>(bytes, kChecksumAt);
  if (const auto found = checksum_of(bytes); found != reported)
    return error(Code::corrupt,
                 cat("a ", name_of(header.kind.type), " of ", bytes.size(), " bytes has checksum ",
                     hex(found), ", but says ", hex(reported)),
                 "have it sent, or written, again");
  return Message{.kind = header.kind,
                 .payload = bytes.subspan(static_cast<std::size_t>(header.header_bytes))};
}

Result<Message> open_first(ConstByteSpan bytes, const OpenLimits& limits) {
  TOWPATH_TRY(const Header header, read_header(bytes, limits));
  if (header.total_bytes() > bytes.size())
    return error(Code::corrupt, cat("a ", name_of(header.kind.type), " says ", header.total_bytes(),
                                    " bytes, but only ", bytes.size(), " are here"));
  return open(bytes.first(static_cast<std::size_t>(header.total_bytes())), limits);
}

}  // namespace towpath::wire
