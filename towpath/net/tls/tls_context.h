// TlsContext: what one side of TLS 1.3 connections needs, and streams that speak it, by OpenSSL.
//
// Both sides prove themselves, either way: that they know one token (a pre-shared key made from it;
// the token itself never travels), or by certificates of an authority that both trust. Each
// connection has keys of its own by (EC)DHE, so who learns the token later cannot read what was
// said before. There are no tickets, no resumption and no early data: nothing that could be
// replayed.
// Thread: immutable; a stream: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <towpath/core/result.h>
#include <towpath/net/tls/tls_certificates.h>
#include <towpath/net/token.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {

/// What makes and opens the records of a socket, once the handshake is through: OpenSSL, or the
/// kernel (kTLS), which moves bytes from and to where they lie.
enum class TlsRecords : std::uint8_t { by_library, by_kernel };

/// Ok: records can be `by_kernel`. Errors: unsupported (with what the kernel has answered),
/// exhausted. Cost: a connection over the loopback.
Status can_kernel_do_tls();

class TlsContext : public std::enable_shared_from_this<TlsContext> {
 public:
  static std::shared_ptr<const TlsContext> from_token(const Token& token,
                                                      TlsRecords records = TlsRecords::by_library);
  /// Errors: invalid_argument (one of the files is not named, or is none), denied, not_found.
  static Result<std::shared_ptr<const TlsContext>> from_certificates(
      const TlsCertificates& files, TlsRecords records = TlsRecords::by_library);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// TLS over `stream`, which is connected or about to be. The handshake is made by the first calls
  /// of read_some() and write_some(), which give and take nothing before. Errors of both, besides
  /// the stream's own: denied (the other side has not proven itself, or did not believe us),
  /// corrupt (it does not speak TLS 1.3, or bytes were altered, or it changes its keys again and
  /// again with hardly any data), unsupported (the kernel does not take the records over).
  /// After write_some() has taken nothing, call it again with the same bytes, or those and more.
  std::unique_ptr<sys::ByteStream> client(std::unique_ptr<sys::ByteStream> stream,
                                          const std::string& host) const;
  std::unique_ptr<sys::ByteStream> server(std::unique_ptr<sys::ByteStream> stream) const;

  struct Library;  ///< OpenSSL's part

 private:
  explicit TlsContext(std::unique_ptr<Library> library);

  std::unique_ptr<Library> library_;
};

/// Asked when a connection needs it first: a token may have to be found, or made, before.
using TlsProvider = std::function<Result<std::shared_ptr<const TlsContext>>()>;
/// What it gives. Errors: its own; denied: there is none, or it gave nothing.
Result<std::shared_ptr<const TlsContext>> context_from(const TlsProvider& provider);

}  // namespace towpath::net
