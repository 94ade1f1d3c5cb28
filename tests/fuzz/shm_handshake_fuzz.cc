// What an shm backend reads from unauthenticated connections: connection info, memory keys and
// hellos. The first byte chooses the reader, and whether the rest is a whole record or the fields
// of one, to be sealed, so that the search is for fields. What is accepted says the same when it is
// written and read again.
#include <cstdint>

#include <towpath/backends/shm/handshake.h>
#include <towpath/wire/envelope.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath;
using namespace towpath::backends::shm;
using wire::MessageType;

void read_info(const Bytes& bytes) {
  const auto info = decode_info(bytes);
  if (!info.ok()) return;
  const auto again = decode_info(encode(*info));
  must(again.ok() && *again == *info);
}

void read_key(const Bytes& bytes) {
  const auto key = decode_key(bytes);
  if (!key.ok()) return;
  const auto again = decode_key(encode(*key));
  must(again.ok() && *again == *key);
}

void read_hello(const Bytes& bytes) {
  const auto hello = decode_hello(bytes);
  if (!hello.ok()) return;
  const auto written = encode_hello(*hello);
  must(written.ok());
  const auto again = decode_hello(*written);
  must(again.ok() && *again == *hello);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  const bool is_sealed = (data[0] & 4) == 0;
  const auto input = [&](MessageType type) {
    return is_sealed ? Bytes(rest.begin(), rest.end()) : wire::seal({type, 1}, rest);
  };
  switch (data[0] % 4) {
    case 0: read_info(input(MessageType::connection_info)); break;
    case 1: read_key(input(MessageType::memory_key)); break;
    default: read_hello(input(MessageType::peer_hello)); break;
  }
  return 0;
}
