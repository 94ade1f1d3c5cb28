// One connection of TlsContext. Private to net/tls. Thread: one at a time.
#pragma once

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
};

std::unique_ptr<sys::ByteStream> make_tls_stream(TlsStreamParts parts);

}  // namespace towpath::net
