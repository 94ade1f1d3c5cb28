// OpenSSL's part of TlsContext, and its errors as a Status. Private to net/tls.
// Thread: immutable.
#pragma once

#include <memory>

#include <openssl/ssl.h>

#include <towpath/net/keys.h>
#include <towpath/net/tls/tls_context.h>

namespace towpath::net {

struct TlsContext::Library {
  explicit Library(TlsRecords maker = TlsRecords::by_library);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> client, server;
  std::optional<SymmetricKey> key;  // of the token
  const TlsRecords records;
};

/// Makes both sides of `library` prove themselves with `key`, and with nothing else.
void use_pre_shared_key(TlsContext::Library& library, const SymmetricKey& key);

/// Of a record's plain bytes, at most (RFC 8446, 5.1).
inline constexpr std::size_t kRecordBytes = 16 * 1024;

/// Counts what the other side sends after the handshake and is no data: new keys, tickets. OpenSSL
/// and the kernel take any number, so that a peer could keep its reader at them. (OpenSSL itself
/// takes 32 empty records or 4 warnings in a row.)
class ControlRecords {
 public:
  /// For each full record's bytes of data. An honest side changes its key after millions of
  /// records.
  static constexpr std::uint64_t kMost = 32;

  /// One has come. Errors: corrupt (it is one too many).
  Status came();
  void data_came(std::size_t bytes) noexcept;

 private:
  std::uint64_t count_ = 0;
  std::uint64_t data_bytes_ = 0;
};

inline constexpr const char* kAlteredHint =
    "bytes were altered on their path, or one side is faulty";
inline constexpr const char* kCertificateHint =
    "use certificates that name the host and come from the authority of both";

/// Whether the other side refuses us by this alert: a client of TLS 1.3 is through before its
/// certificate is read (RFC 8446, 6.2).
bool is_refusal(int alert) noexcept;

/// The oldest error that OpenSSL has noted on this thread, or 0; and in words.
unsigned long take_error() noexcept;
std::string to_text(unsigned long openssl_error);

}  // namespace towpath::net
