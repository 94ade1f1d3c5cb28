#include <algorithm>

#include <towpath/core/format.h>
#include <towpath/net/session/seal.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {

using wire::load;
using wire::store;

void Sealer::seal(ByteSpan head) noexcept {
  const ByteSpan seal = head.last(kSealBytes);
  store(seal, ++counter_);
  const Mac::Proof proof = macs_.heads.prove(head.first(head.size() - Mac::kProofBytes));
  store(seal.subspan(8), proof.low);
  store(seal.subspan(16), proof.high);
}

Status SealReader::check(ConstByteSpan head) {
  if (head.size() < kSealBytes)
    return error(Code::denied, cat("a message of ", head.size(), " bytes has no seal"));
  const ConstByteSpan seal = head.last(kSealBytes);
  const Mac::Proof claimed{load<std::uint64_t>(seal.subspan(8)),
                           load<std::uint64_t>(seal.subspan(16))};
  if (!(macs_.heads.prove(head.first(head.size() - Mac::kProofBytes)) == claimed)) {
    return error(Code::denied, "a message was forged or altered on its way: its seal does not fit",
                 "somebody interferes with the network between the two");
  }
  const auto counter = load<std::uint64_t>(seal);
  if (is_in_turn(counter)) return {};
  return error(Code::denied,
               cat("a message was repeated, left out or put in another place: number ", counter,
                   " came when the newest was ", newest_),
               "somebody interferes with the network between the two");
}

bool SealReader::is_in_turn(std::uint64_t counter) noexcept {
  if (delivery_ == Delivery::unordered) return is_first(counter);
  if (counter != newest_ + 1) return false;
  newest_ = counter;
  return true;
}

bool SealReader::is_first(std::uint64_t counter) noexcept {
  if (counter == 0 || counter + kMaxOvertaken <= newest_) return false;
  const auto bit_of = [](std::uint64_t n) { return std::uint64_t{1} << (n % 64); };
  const auto word_of = [this](std::uint64_t n) -> std::uint64_t& {
    return seen_[n % kMaxOvertaken / 64];
  };
  if (counter > newest_) {
    // Their places belonged to counters that are too old by now.
    const std::uint64_t passed = std::min(counter - newest_, kMaxOvertaken);
    for (std::uint64_t i = 0; i < passed; ++i) word_of(counter - i) &= ~bit_of(counter - i);
    newest_ = counter;
  }
  std::uint64_t& word = word_of(counter);
  if ((word & bit_of(counter)) != 0) return false;
  word |= bit_of(counter);
  return true;
}

}  // namespace towpath::net
