#include <openssl/err.h>

#include <towpath/core/check.h>
#include <towpath/net/openssl_memory.h>
#include <towpath/net/tls/kernel_records.h>
#include <towpath/net/tls/tls_library.h>

namespace towpath::net {

namespace {

// The identity says nothing of the token: one that is guessed is found out by the binder alone.
constexpr std::string_view kIdentity = "towpath token 1";
constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};  // RFC 8446, B.4
constexpr unsigned char kContext[] = {'t', 'o', 'w', 'p', 'a', 't', 'h'};

SSL_CTX* make_context(const SSL_METHOD* method) {
  SSL_CTX* const made = allocated(SSL_CTX_new(method));
  TOWPATH_CHECK(SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) == 1, "libssl has no TLS 1.3");
  SSL_CTX_set_options(made, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                SSL_OP_IGNORE_UNEXPECTED_EOF);  // frames say where they end
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(made, 0);
  SSL_CTX_set_mode(made, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A read returns after each record that is no data, and they are counted.
  SSL_CTX_clear_mode(made, SSL_MODE_AUTO_RETRY);
  // The other side is asked for a certificate, and believed without one only where both know a key.
  SSL_CTX_set_verify(made, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return made;
}

// OpenSSL's form of a pre-shared key: a session that was never held.
SSL_SESSION* make_session(SSL* ssl) {
  const auto* library =
      static_cast<const TlsContext::Library*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  const ConstByteSpan key = library->key->bytes();
  SSL_SESSION* const made = SSL_SESSION_new();
  if (made != nullptr &&
      SSL_SESSION_set1_master_key(made, reinterpret_cast<const unsigned char*>(key.data()),
                                  key.size()) == 1 &&
      SSL_SESSION_set_cipher(made, SSL_CIPHER_find(ssl, kAes128GcmSha256)) == 1 &&
      SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION) == 1)
    return made;
  SSL_SESSION_free(made);
  return nullptr;
}

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
              std::size_t* identity_size, SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && EVP_MD_is_a(digest, "SHA256") != 1) return 1;  // without one: refused
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *identity_size = kIdentity.size();
  *session = make_session(ssl);
  return *session != nullptr ? 1 : 0;
}

int find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_size,
             SSL_SESSION** session) {
  const std::string_view offered(reinterpret_cast<const char*>(identity), identity_size);
  *session = offered == kIdentity ? make_session(ssl) : nullptr;
  return 1;
}

// A line of OpenSSL's log of keys: the label, the client's nonce, the secret. It is the only way to
// them; they go to the connection's own part alone.
void note_secret(const SSL* ssl, const char* line) {
  auto* const secrets = static_cast<TrafficSecrets*>(SSL_get_app_data(ssl));
  const std::string_view all(line);
  if (secrets == nullptr) return;
  const std::string_view hex = all.substr(all.rfind(' ') + 1);
  if (all.starts_with("CLIENT_TRAFFIC_SECRET_0 ")) secrets->client.parse(hex);
  if (all.starts_with("SERVER_TRAFFIC_SECRET_0 ")) secrets->server.parse(hex);
}

}  // namespace

TlsContext::Library::Library(TlsRecords maker)
    : client(make_context(TLS_client_method()), &SSL_CTX_free),
      server(make_context(TLS_server_method()), &SSL_CTX_free),
      records(maker) {
  for (SSL_CTX* const context : {client.get(), server.get()}) {
    done(SSL_CTX_set_app_data(context, this));
    if (records == TlsRecords::by_library) continue;
    SSL_CTX_set_keylog_callback(context, note_secret);
    done(SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384"));
  }
  TOWPATH_CHECK(SSL_CTX_set_session_id_context(server.get(), kContext, sizeof kContext) == 1,
                "a server that verifies its clients needs one, also for a key");
}

void use_pre_shared_key(TlsContext::Library& library, const SymmetricKey& key) {
  library.key = key;
  for (SSL_CTX* const context : {library.client.get(), library.server.get()})
    done(SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256"));
  SSL_CTX_set_psk_use_session_callback(library.client.get(), offer_key);
  SSL_CTX_set_psk_find_session_callback(library.server.get(), find_key);
}

Status ControlRecords::came() {
  if (count_++ < kMost) return {};
  return error(Code::corrupt,
               "the other side changes its keys of TLS again and again, with hardly any data",
               "see which program it is: none of ours does");
}

void ControlRecords::data_came(std::size_t bytes) noexcept {
  data_bytes_ += bytes;
  if (data_bytes_ >= kRecordBytes) *this = {};
}

bool is_refusal(int alert) noexcept {
  switch (alert) {
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_DECRYPT_ERROR:
    case SSL_AD_CERTIFICATE_REQUIRED: return true;
    default: return false;
  }
}

unsigned long take_error() noexcept {
  const unsigned long first = ERR_get_error();
  ERR_clear_error();
  return first;
}

std::string to_text(unsigned long openssl_error) {
  const char* const reason = ERR_reason_error_string(openssl_error);
  return reason != nullptr ? reason : "no reason given";
}

}  // namespace towpath::net
