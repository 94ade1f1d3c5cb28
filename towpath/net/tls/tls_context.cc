#include <utility>

#include <towpath/core/format.h>
#include <towpath/net/tls/tls_library.h>
#include <towpath/net/tls/tls_stream.h>

namespace towpath::net {

namespace {

constexpr std::string_view kKeyPurpose = "towpath tls 1.3 pre-shared key v1";

Status not_usable(std::string_view what, const std::string& file, const char* hint) {
  return error(Code::invalid_argument,
               cat("cannot use ", what, " '", printable(file, 256), "': ", to_text(take_error())),
               hint);
}

// Nobody is asked: else OpenSSL does it, at the terminal.
int no_pass_phrase(char*, int, int, void*) { return 0; }

Status load(SSL_CTX* into, const TlsCertificates& files) {
  SSL_CTX_set_default_passwd_cb(into, no_pass_phrase);
  if (SSL_CTX_use_certificate_chain_file(into, files.certificate_file.c_str()) != 1)
    return not_usable("the certificate", files.certificate_file, "name a file in PEM");
  if (SSL_CTX_use_PrivateKey_file(into, files.key_file.c_str(), SSL_FILETYPE_PEM) != 1)
    return not_usable("the key", files.key_file,
                      "name the certificate's own key, in PEM and without a pass phrase");
  if (SSL_CTX_load_verify_locations(into, files.authority_file.c_str(), nullptr) != 1)
    return not_usable("the authority", files.authority_file, "name a file in PEM");
  return {};
}

}  // namespace

TlsContext::TlsContext(std::unique_ptr<Library> library) : library_(std::move(library)) {}
TlsContext::~TlsContext() = default;

std::shared_ptr<const TlsContext> TlsContext::from_token(const Token& token, TlsRecords records) {
  auto library = std::make_unique<Library>(records);
  use_pre_shared_key(*library, derive_key(as_bytes(token.secret()), {}, kKeyPurpose));
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(library)));
}

Result<std::shared_ptr<const TlsContext>> TlsContext::from_certificates(
    const TlsCertificates& files, TlsRecords records) {
  if (files.certificate_file.empty() || files.key_file.empty() || files.authority_file.empty())
    return error(Code::invalid_argument, "TLS by certificates needs three files",
                 "name the certificate, its key, and the authority that both sides trust");
  auto library = std::make_unique<Library>(records);
  TOWPATH_TRY(load(library->client.get(), files));
  TOWPATH_TRY(load(library->server.get(), files));
  return std::shared_ptr<const TlsContext>(new TlsContext(std::move(library)));
}

Result<std::shared_ptr<const TlsContext>> context_from(const TlsProvider& provider) {
  std::shared_ptr<const TlsContext> context;
  if (provider) {
    TOWPATH_TRY(context, provider());
  }
  if (context) return context;
  return error(Code::denied, "metadata over TCP needs a token or a certificate",
               "give both sides the same token file, or use a Unix socket");
}

std::unique_ptr<sys::ByteStream> TlsContext::client(std::unique_ptr<sys::ByteStream> stream,
                                                    const std::string& host) const {
  return make_tls_stream({.context = shared_from_this(),
                          .library = library_.get(),
                          .inner = std::move(stream),
                          .role = TlsRole::client,
                          .host = host});
}

std::unique_ptr<sys::ByteStream> TlsContext::server(std::unique_ptr<sys::ByteStream> stream) const {
  return make_tls_stream({.context = shared_from_this(),
                          .library = library_.get(),
                          .inner = std::move(stream),
                          .role = TlsRole::server});
}

}  // namespace towpath::net
