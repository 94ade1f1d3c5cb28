#include <algorithm>

#include <towpath/net/messages/message_worker.h>

namespace towpath::net {

namespace {

/// Calls `copy` for each part and as much of the front of `whole`, which then begins behind it.
/// Returns the bytes.
template <typename Whole, typename Part, typename Copy>
std::uint64_t match_parts(Whole& whole, std::span<Part> parts, Copy copy) {
  const std::size_t begin = whole.size();
  for (const Part& part : parts) {
    const std::size_t size = std::min(part.size(), whole.size());
    copy(part.first(size), whole.first(size));
    whole = whole.subspan(size);
  }
  return begin - whole.size();
}

}  // namespace

void BodySource::copy_out(ByteSpan into) {
  PartArray<ConstByteSpan> some;
  const auto copy = [](ConstByteSpan from, ByteSpan to) { copy_bytes(from, to.data()); };
  while (!into.empty()) left(match_parts(into, some.all().first(parts(some.all())), copy));
}

bool BodySink::take(ConstByteSpan bytes) {
  PartArray<ByteSpan> parts;
  const auto copy = [](ByteSpan to, ConstByteSpan from) { copy_bytes(from, to.data()); };
  while (!bytes.empty()) {
    const std::size_t count = room(parts.all());
    if (count == 0) return false;
    came(match_parts(bytes, parts.all().first(count), copy));
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
