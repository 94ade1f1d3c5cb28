#include <algorithm>
#include <cstring>

#include <towpath/core/format.h>
#include <towpath/shmem/messages/frames.h>
#include <towpath/wire/little_endian.h>

namespace towpath::shmem {
namespace {

using wire::append;
using wire::load;
using wire::store;

constexpr std::uint32_t kFrameMagic = 0x535054;  // "TPS", and the version in the last byte
constexpr std::uint32_t kFrameVersion = 3;
constexpr std::size_t kReleasedWords = kBlockSlots / 64;

Status broken_frame(std::string_view what) {
  return error(Code::corrupt, cat("a frame of a job of PEs: ", what),
               "use the same release on all hosts");
}

/// Takes numbers off the front; those that are not there are 0 and remembered.
class Reader {
 public:
  explicit Reader(ConstByteSpan bytes) : left_(bytes) {}
  template <typename T>
  T take() {
    if (left_.size() < sizeof(T)) {
      short_ = true;
      return 0;
    }
    const T value = load<T>(left_);
    left_ = left_.subspan(sizeof(T));
    return value;
  }
  bool is_short() const noexcept { return short_; }
  bool is_empty() const noexcept { return left_.empty(); }

 private:
  ConstByteSpan left_;
  bool short_ = false;
};

}  // namespace

void encode_head(const FrameHeader& header, ConstByteSpan arrival, ByteSpan head) noexcept {
  store(head, kFrameMagic | kFrameVersion << 24U);
  store(head.subspan(4), static_cast<std::uint8_t>(header.kind));
  store(head.subspan(5), static_cast<std::uint8_t>(header.op));
  store(head.subspan(6), header.word_bytes);
  store(head.subspan(7), std::uint8_t{0});
  store(head.subspan(8), header.from);
  store(head.subspan(12), header.aux);
  store(head.subspan(16), header.sequence);
  store(head.subspan(24), header.ticket);
  store(head.subspan(32), header.offset);
  store(head.subspan(40), header.operand);
  store(head.subspan(48), header.expected);
  const ByteSpan rest = head.subspan(kFrameHeaderBytes);
  if (!arrival.empty()) std::memcpy(rest.data(), arrival.data(), arrival.size());
  std::ranges::fill(rest.subspan(arrival.size()), std::byte{0});
}

Result<Frame> decode_frame(ConstByteSpan head, std::uint64_t body_bytes) {
  if (head.size() < head_bytes(0) || head.size() > kMaxHeadBytes)
    return broken_frame(cat("a head of ", head.size(), " bytes"));
  const auto magic = load<std::uint32_t>(head);
  if ((magic & 0xffffffU) != kFrameMagic) return broken_frame("it begins with other bytes");
  if (magic >> 24U != kFrameVersion)
    return error(Code::unsupported,
                 cat("a frame of a job of PEs has version ", magic >> 24U, "; this release has ",
                     kFrameVersion),
                 "use the same release on all hosts");
  const auto kind = load<std::uint8_t>(head.subspan(4));
  const auto op = load<std::uint8_t>(head.subspan(5));
  if (kind < 1 || kind > static_cast<std::uint8_t>(FrameKind::handshake) || op >= kChangeOps)
    return broken_frame(cat("kind ", kind, ", operation ", op));
  const FrameHeader header{.kind = static_cast<FrameKind>(kind),
                           .op = static_cast<ChangeOp>(op),
                           .word_bytes = load<std::uint8_t>(head.subspan(6)),
                           .from = load<std::uint32_t>(head.subspan(8)),
                           .aux = load<std::uint32_t>(head.subspan(12)),
                           .sequence = load<std::uint64_t>(head.subspan(16)),
                           .ticket = load<std::uint64_t>(head.subspan(24)),
                           .offset = load<std::uint64_t>(head.subspan(32)),
                           .operand = load<std::uint64_t>(head.subspan(40)),
                           .expected = load<std::uint64_t>(head.subspan(48))};
  const std::size_t arrival = head.size() - head_bytes(0);
  return Frame{.header = header,
               .arrival = head.subspan(kFrameHeaderBytes, arrival),
               .body_bytes = body_bytes};
}

Bytes encode(const ArrivalFrame& arrival) {
  const ArrivalNews& news = arrival.news;
  Bytes out;
  for (const std::uint32_t number : {news.slot, news.member, news.members, news.round,
                                     static_cast<std::uint32_t>(news.call.kind)})
    append(out, number);
  for (const std::uint64_t argument : news.call.arguments) append(out, argument);
  append(out, news.note);
  append(out, static_cast<std::uint8_t>(arrival.reports_released));
  append(out, static_cast<std::uint32_t>(arrival.released.size()));
  for (const ReleasedWord& word : arrival.released) {
    append(out, word.index);
    append(out, word.bits);
  }
  return out;
}

Result<ArrivalFrame> decode_arrival(ConstByteSpan payload, std::uint32_t pes) {
  Reader in(payload);
  ArrivalFrame arrival;
  ArrivalNews& news = arrival.news;
  for (std::uint32_t* number : {&news.slot, &news.member, &news.members, &news.round})
    *number = in.take<std::uint32_t>();
  news.call.kind = static_cast<CallKind>(in.take<std::uint32_t>());
  for (std::uint64_t& argument : news.call.arguments) argument = in.take<std::uint64_t>();
  news.note = in.take<std::uint64_t>();
  arrival.reports_released = in.take<std::uint8_t>() != 0;
  const auto count = in.take<std::uint32_t>();
  if (news.slot >= kTeamSlots || news.members > pes || news.member >= news.members ||
      count > kReleasedWords)
    return broken_frame(cat("member ", news.member, " of ", news.members, " of team ", news.slot));
  for (std::uint32_t word = 0; word < count; ++word) {
    const auto index = in.take<std::uint32_t>();
    if (index >= kReleasedWords) return broken_frame(cat("released word ", index));
    arrival.released.push_back({.index = index, .bits = in.take<std::uint64_t>()});
  }
  if (in.is_short() || !in.is_empty()) return broken_frame("an arrival of another length");
  return arrival;
}

}  // namespace towpath::shmem
