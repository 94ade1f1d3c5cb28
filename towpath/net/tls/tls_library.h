// OpenSSL's part of TlsContext, and its errors as a Status. Private to net/tls.
// Thread: immutable.
#pragma once

#include <memory>

#include <openssl/ssl.h>

#include <towpath/net/keys.h>
#include <towpath/net/tls/tls_context.h>

namespace towpath::net {

struct TlsContext::Library {
  Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> client, server;
  std::optional<SymmetricKey> key;  // of the token
};

/// Makes both sides of `library` prove themselves with `key`, and with nothing else.
void use_pre_shared_key(TlsContext::Library& library, const SymmetricKey& key);

/// The oldest error that OpenSSL has noted on this thread, or 0; and in words.
unsigned long take_error() noexcept;
std::string to_text(unsigned long openssl_error);

}  // namespace towpath::net
