// What both sides of a handshake read before they know with whom they speak, and the seals of what
// comes afterwards. The first byte chooses the reader, and whether the rest gets a valid front or
// replaces a valid message's bytes from some place on. Nothing but what the true peer sent may
// pass.
#include <algorithm>
#include <cstdint>

#include <towpath/core/format.h>
#include <towpath/net/session/handshake.h>
#include <towpath/net/session/seal.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath;
using namespace towpath::net;

SessionTerms terms() { return {Secret("sixteen bytes!!!"), "tcp"}; }

/// `good`, with `bytes` in place of what begins at the place that its first byte names.
Bytes overwritten(ConstByteSpan good, ConstByteSpan bytes) {
  Bytes out(good.begin(), good.end());
  if (bytes.empty()) return out;
  const std::size_t at = std::to_integer<std::size_t>(bytes.front()) % out.size();
  bytes = bytes.subspan(1);
  out.resize(std::max(out.size(), at + bytes.size()));
  std::ranges::copy(bytes, out.begin() + static_cast<std::ptrdiff_t>(at));
  return out;
}

bool same(ConstByteSpan a, ConstByteSpan b) { return std::ranges::equal(a, b); }

void shake(unsigned reader, bool over, ConstByteSpan bytes) {
  const SessionParty near{.agent = {"near", 1}, .instance = 2, .data = Bytes(8)};
  const SessionParty far{.agent = {"far", 3}, .instance = 4, .data = {}};
  const auto dial = DialHandshake::begin(terms(), near, {far.agent, far.instance}).value();
  const auto accept = AcceptHandshake::begin(terms(), far, dial.hello()).value();
  const auto outcome = dial.take(accept.answer()).value();
  const auto input = [&](ConstByteSpan good) {
    return over ? overwritten(good, bytes) : Bytes(bytes.begin(), bytes.end());
  };
  if (reader == 0) {
    const Bytes hello = input(dial.hello());
    must(AcceptHandshake::begin(terms(), far, hello).ok() == same(hello, dial.hello()));
  } else if (reader == 1) {
    const Bytes answer = input(accept.answer());
    must(dial.take(answer).ok() == same(answer, accept.answer()));
  } else if (reader == 2) {
    const Bytes last = input(outcome.confirmation);
    must(accept.take(last).ok() == same(last, outcome.confirmation));
  } else {
    Sealer sealer(outcome.keys.sending);
    Bytes good(40 + kSealBytes);
    sealer.seal(good);
    const Bytes head = input(good);
    SealReader ordered(outcome.keys.sending, Delivery::ordered);
    SealReader unordered(outcome.keys.sending, Delivery::unordered);
    must(ordered.check(head).ok() == same(head, good));
    must(unordered.check(head).ok() == same(head, good));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  shake(data[0] % 4, (data[0] & 4) != 0, std::as_bytes(std::span(data, size)).subspan(1));
  return 0;
}
