#include <algorithm>
#include <array>
#include <cstring>

#include <towpath/net/messages/message_worker.h>

namespace towpath::net {

void append_rest(MessageBuffer& buffer, BodySource& rest) {
  std::array<ConstByteSpan, kMostParts> parts;
  while (const std::size_t count = rest.parts(parts)) {
    std::uint64_t bytes = 0;
    for (const ConstByteSpan part : std::span(parts).first(count)) {
      std::memcpy(buffer.room().data() + buffer.size, part.data(), part.size());
      buffer.size += part.size();
      bytes += part.size();
    }
    buffer.body_bytes += bytes;
    rest.left(bytes);
  }
  rest.done();
}

bool pour(ConstByteSpan bytes, BodySink& sink) {
  std::array<ByteSpan, kMostParts> parts;
  while (!bytes.empty()) {
    const std::size_t count = sink.room(parts);
    if (count == 0) return false;
    std::uint64_t put = 0;
    for (const ByteSpan part : std::span(parts).first(count)) {
      const std::size_t size = std::min(part.size(), bytes.size());
      if (size > 0) std::memcpy(part.data(), bytes.data(), size);
      bytes = bytes.subspan(size);
      put += size;
    }
    sink.came(put);
  }
  return true;
}

void deliver(const Message& message, ConstByteSpan body, MessageListener& listener) {
  BodySink* const sink = listener.on_message(message);
  if (sink == nullptr || body.empty()) return;
  (void)pour(body, *sink);
  sink->done(true);
}

}  // namespace towpath::net
