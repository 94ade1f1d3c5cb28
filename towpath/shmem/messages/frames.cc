#include <towpath/core/text.h>
#include <towpath/shmem/messages/frames.h>
#include <towpath/wire/little_endian.h>

namespace towpath::shmem {
namespace {

using wire::append;
using wire::load;
using wire::store;

constexpr std::uint32_t kFrameMagic = 0x02535054;  // "TPS" and version 2
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

void encode_header(const FrameHeader& header, ByteSpan room) noexcept {
  store(room, kFrameMagic);
  store(room.subspan(4), static_cast<std::uint8_t>(header.kind));
  store(room.subspan(5), static_cast<std::uint8_t>(header.op));
  store(room.subspan(6), header.word_bytes);
  store(room.subspan(7), std::uint8_t{0});
  store(room.subspan(8), header.key);
  store(room.subspan(16), header.from);
  store(room.subspan(20), header.aux);
  store(room.subspan(24), header.sequence);
  store(room.subspan(32), header.ticket);
  store(room.subspan(40), header.offset);
  store(room.subspan(48), header.operand);
  store(room.subspan(56), header.expected);
}

Result<Frame> decode_frame(ConstByteSpan bytes) {
  if (bytes.size() < kFrameHeaderBytes) return broken_frame("too short");
  if (load<std::uint32_t>(bytes) != kFrameMagic) return broken_frame("it begins with other bytes");
  const auto kind = load<std::uint8_t>(bytes.subspan(4));
  const auto op = load<std::uint8_t>(bytes.subspan(5));
  if (kind < 1 || kind > static_cast<std::uint8_t>(FrameKind::end_all) || op >= kChangeOps)
    return broken_frame(cat("kind ", kind, ", operation ", op));
  const FrameHeader header{.kind = static_cast<FrameKind>(kind),
                           .op = static_cast<ChangeOp>(op),
                           .word_bytes = load<std::uint8_t>(bytes.subspan(6)),
                           .key = load<std::uint64_t>(bytes.subspan(8)),
                           .from = load<std::uint32_t>(bytes.subspan(16)),
                           .aux = load<std::uint32_t>(bytes.subspan(20)),
                           .sequence = load<std::uint64_t>(bytes.subspan(24)),
                           .ticket = load<std::uint64_t>(bytes.subspan(32)),
                           .offset = load<std::uint64_t>(bytes.subspan(40)),
                           .operand = load<std::uint64_t>(bytes.subspan(48)),
                           .expected = load<std::uint64_t>(bytes.subspan(56))};
  return Frame{.header = header, .payload = bytes.subspan(kFrameHeaderBytes)};
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
