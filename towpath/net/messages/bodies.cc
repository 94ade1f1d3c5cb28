#include <algorithm>
#include <array>

#include <towpath/net/messages/message_worker.h>

namespace towpath::net {

void BodySource::copy_out(ByteSpan into) {
  std::array<ConstByteSpan, kMostParts> some;
  while (!into.empty()) {
    const std::size_t count = parts(some);
    std::uint64_t bytes = 0;
    for (const ConstByteSpan part : std::span(some).first(count)) {
      const std::size_t size = std::min(part.size(), into.size());
      std::ranges::copy(part.first(size), into.begin());
      into = into.subspan(size);
      bytes += size;
    }
    left(bytes);
  }
}

bool BodySink::take(ConstByteSpan bytes) {
  std::array<ByteSpan, kMostParts> parts;
  while (!bytes.empty()) {
    const std::size_t count = room(parts);
    if (count == 0) return false;
    std::uint64_t put = 0;
    for (const ByteSpan part : std::span(parts).first(count)) {
      const std::size_t size = std::min(part.size(), bytes.size());
      std::ranges::copy(bytes.first(size), part.begin());
      bytes = bytes.subspan(size);
      put += size;
    }
    came(put);
  }
  return true;
}

void append_rest(MessageBuffer& buffer, BodySource& rest, std::uint64_t rest_bytes) {
  rest.copy_out(buffer.room().subspan(buffer.size, rest_bytes));
  buffer.size += rest_bytes;
  buffer.body_bytes += rest_bytes;
  rest.done();
}

void deliver(const Message& message, ConstByteSpan body, MessageListener& listener) {
  BodySink* const sink = listener.on_message(message);
  if (sink == nullptr || body.empty()) return;
  (void)sink->take(body);
  sink->done(true);
}

}  // namespace towpath::net
