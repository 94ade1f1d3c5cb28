// What a worker over TCP reads: the address in metadata, the first message of somebody who has
// proven nothing, and what comes over a connection afterwards. The first byte chooses the reader
// and in which portions the stream comes. Whatever comes, no body is longer than was announced, nor
// than what was agreed on.
#include <algorithm>
#include <cstdint>

#include <towpath/net/tcp/tcp_address.h>
#include <towpath/net/tcp/tcp_first_message.h>
#include <towpath/net/tcp/tcp_receiver.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath;
using namespace towpath::net;

constexpr TcpReceiver::Limits kLimits{.head_bytes = 512, .body_bytes = 64 * 1024};

/// Wants no body, some of it, or all, as the head says.
struct Listener final : MessageListener, BodySink {
  BodySink* on_message(const Message& message) override {
    must(!is_open && message.head.size() <= kLimits.head_bytes);
    must(message.body_bytes <= kLimits.body_bytes);
    const auto choice = message.head.empty() ? 0U : static_cast<unsigned>(message.head.front());
    if (message.body_bytes == 0 || choice % 4 == 0) return nullptr;
    wanted.resize(choice % 4 == 1 ? message.body_bytes / 2 : message.body_bytes);
    announced = message.body_bytes;
    filled = 0;
    is_open = true;
    return this;
  }
  void on_broken(void*, const Status&) override {}
  std::size_t room(std::span<ByteSpan> into) override {
    must(is_open);
    const ByteSpan left = ByteSpan(wanted).subspan(filled);
    std::size_t count = 0;
    for (std::size_t at = 0; at < left.size() && count < into.size(); at += 100)
      into[count++] = left.subspan(at, std::min<std::size_t>(100, left.size() - at));
    return count;
  }
  void came(std::uint64_t bytes) override {
    filled += bytes;
    must(is_open && filled <= wanted.size());
  }
  void done(bool whole) override {
    must(is_open && (!whole || filled == wanted.size()));
    is_open = false;
  }

  Bytes wanted;
  std::size_t announced = 0;
  std::size_t filled = 0;
  bool is_open = false;
};

/// Hands `said` to `take` in portions, until that fails.
template <typename Take>
void hear(ConstByteSpan said, std::size_t portion, Take make_and_take) {
  auto [ours, theirs] = sys::make_memory_streams({.capacity_bytes = 1024 * 1024});
  make_and_take(*ours, [&, writer = theirs.get()]() mutable {
    const ConstByteSpan some = said.first(std::min(portion, said.size()));
    must(*writer->write_some(some) == some.size());
    said = said.subspan(some.size());
    return !said.empty();
  });
}

void read_messages(ConstByteSpan said, std::size_t portion) {
  Listener listener;
  hear(said, portion, [&](sys::ByteStream& stream, auto say_more) {
    TcpReceiver receiver(stream, 1, kLimits, listener);
    Status heard;
    for (bool more = true; heard.ok() && more;) {
      more = say_more();
      heard = receiver.take();
    }
    must(heard.ok() || heard.code() == Code::corrupt);
  });
  must(!listener.is_open);
}

void read_first(ConstByteSpan said, std::size_t portion) {
  constexpr std::size_t kMost = 300;
  hear(said, portion, [&](sys::ByteStream& stream, auto say_more) {
    TcpFirstMessage first(kMost);
    for (bool more = true; more;) {
      more = say_more();
      const auto whole = first.read(stream);
      must(whole.ok() || whole.code() == Code::corrupt);
      if (!whole.ok()) return;
      if (!*whole) continue;
      must(first.head().size() + first.body().size() <= kMost);
      first.clear();
    }
  });
}

void read_address(ConstByteSpan bytes) {
  const auto place = decode_tcp_place(bytes);
  if (!place.ok()) return;
  const auto again = decode_tcp_place(encode(*place));
  must(again.ok() && again->endpoints.size() == place->endpoints.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  if (rest.empty()) return 0;
  if (data[0] == 0)
    read_address(rest);
  else if (data[0] % 4 == 0)
    read_first(rest, data[0] * 3U);
  else
    read_messages(rest, data[0] * 37U);
  return 0;
}
