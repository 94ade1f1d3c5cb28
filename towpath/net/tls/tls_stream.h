// One connection of TlsContext. Private to net/tls. Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <towpath/net/tls/tls_library.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {

enum class TlsRole : std::uint8_t { client, server };

struct TlsStreamParts {
  std::shared_ptr<const TlsContext> context;  // keeps the library's part
  const TlsContext::Library* library = nullptr;
  std::unique_ptr<sys::ByteStream> inner;
  TlsRole role = TlsRole::client;
  std::string host = {};  // whom the client dialled
  /// That are written with one key. AES-GCM is good for 2^24.5 full ones (RFC 8446, 5.5).
  std::uint64_t records_per_key = std::uint64_t{1} << 23U;
};

std::unique_ptr<sys::ByteStream> make_tls_stream(TlsStreamParts parts);

}  // namespace towpath::net
