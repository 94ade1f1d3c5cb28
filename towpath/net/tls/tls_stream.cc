#include <algorithm>
#include <atomic>
#include <climits>
#include <utility>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <towpath/core/format.h>
#include <towpath/net/openssl_memory.h>
#include <towpath/net/tls/kernel_records.h>
#include <towpath/net/tls/tls_stream.h>

namespace towpath::net {

namespace {

class TlsStream final : public sys::ByteStream {
 public:
  explicit TlsStream(TlsStreamParts parts);
  ~TlsStream() override { SSL_free(ssl_); }

  Result<Read> read_some(ByteSpan into) override;
  Result<std::size_t> write_some(ConstByteSpan from) override;
  Result<Read> read_parts(std::span<const ByteSpan> parts) override;
  Result<std::size_t> write_parts(std::span<const ConstByteSpan> parts) override;
  std::size_t buffered_bytes() const noexcept override {
    return ssl_ == nullptr ? 0 : static_cast<std::size_t>(SSL_pending(ssl_));
  }
  bool waits_for_input() const noexcept override { return waits_for_input_ && !is_through_; }
  bool moves_by_kernel() const noexcept override { return kernel_ != nullptr; }
  int fd() const noexcept override { return parts_.inner->fd(); }

 private:
  static const BIO_METHOD* method();
  static TlsStream& self(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }
  static int pull(BIO* bio, char* into, int size);
  static int push(BIO* bio, const char* from, int size);
  static long control(BIO* bio, int command, long, void*);
  std::size_t put(ConstByteSpan bytes);
  std::size_t put_in_order(ConstByteSpan bytes);
  Status read_record(ByteSpan into, std::size_t& size);
  void renew_key();
  Status hand_over();
  template <typename Size>
  static Result<Size> noted(Status& first, Result<Size> moved);

  bool is_proven() const;
  Status after(int returned);
  Status failed() const;

  TlsStreamParts parts_;
  SSL* const ssl_;
  Status broken_;      // from then on every call says it
  Status unwritable_;  // the same of writing alone, by the stream below
  bool ended_ = false;
  bool waits_for_input_ = false;
  bool is_drained_ = false;  // the stream below had no more, when OpenSSL read last
  ControlRecords controls_;
  bool is_through_ = false;    // with the handshake: OpenSSL forgets it at the first failure
  Bytes joined_;               // short parts, which go together
  std::uint64_t records_ = 0;  // that were written with this key
  bool is_renewing_ = false;   // it
  Bytes held_;                 // of the message about that, what the stream below has not taken
  std::unique_ptr<TrafficSecrets> secrets_;  // there until the kernel was asked to take over
  std::unique_ptr<KernelRecords> kernel_;    // if it did, everything goes by it from then on
};

/// Of a KeyUpdate, which has 27, to be held in memory that is there: it comes through OpenSSL.
constexpr std::size_t kMostKeyBytes = 256;

// OpenSSL reads and writes through these, so the stream below may be any, also a test's.
int TlsStream::pull(BIO* bio, char* into, int size) {
  TlsStream& stream = self(bio);
  BIO_clear_retry_flags(bio);
  const auto read = stream.parts_.inner->read_some(
      ByteSpan(reinterpret_cast<std::byte*>(into), static_cast<std::size_t>(size)));
  if (!read.ok()) stream.broken_ = read.status();
  if (!read.ok() || read->ended) {
    stream.ended_ = true;
    return 0;
  }
  if (read->size_bytes > 0) return static_cast<int>(read->size_bytes);
  stream.is_drained_ = true;
  BIO_set_retry_read(bio);
  return -1;
}

int TlsStream::push(BIO* bio, const char* from, int size) {
  TlsStream& stream = self(bio);
  BIO_clear_retry_flags(bio);
  const std::size_t sent = stream.put_in_order(
      ConstByteSpan(reinterpret_cast<const std::byte*>(from), static_cast<std::size_t>(size)));
  if (sent > 0) return static_cast<int>(sent);
  BIO_set_retry_write(bio);
  return -1;
}

// What the stream below takes. Once that takes no more at all, everything, and OpenSSL hears
// nothing of it: what has come can be read all the same.
std::size_t TlsStream::put(ConstByteSpan bytes) {
  if (!unwritable_.ok()) return bytes.size();
  const auto sent = parts_.inner->write_some(bytes);
  if (sent.ok()) return *sent;
  unwritable_ = sent.status();
  return bytes.size();
}

// All of a message about keys is taken: one that waits in OpenSSL would keep it from reading, and
// two sides that are both full would wait for each other.
std::size_t TlsStream::put_in_order(ConstByteSpan bytes) {
  if (!held_.empty())
    held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(put(held_)));
  const std::size_t sent = held_.empty() ? put(bytes) : 0;
  if (!is_renewing_) return sent;
  held_.insert(held_.end(), bytes.begin() + static_cast<std::ptrdiff_t>(sent), bytes.end());
  return bytes.size();
}

long TlsStream::control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  return command == BIO_CTRL_EOF && self(bio).ended_ ? 1 : 0;
}

// One for all streams. Null: libcrypto has no memory, now.
const BIO_METHOD* TlsStream::method() {
  static std::atomic<const BIO_METHOD*> known{nullptr};
  if (const BIO_METHOD* const made = known.load(std::memory_order_acquire)) return made;
  BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "towpath");
  if (made == nullptr) return nullptr;
  BIO_meth_set_read(made, pull);
  BIO_meth_set_write(made, push);
  BIO_meth_set_ctrl(made, control);
  const BIO_METHOD* of_another_thread = nullptr;
  if (known.compare_exchange_strong(of_another_thread, made)) return made;
  BIO_meth_free(made);
  return of_another_thread;
}

TlsStream::TlsStream(TlsStreamParts parts)
    : parts_(std::move(parts)),
      ssl_(SSL_new(parts_.role == TlsRole::client ? parts_.library->client.get()
                                                  : parts_.library->server.get())) {
  const BIO_METHOD* const how = method();
  BIO* const bio = how != nullptr ? BIO_new(how) : nullptr;
  if (ssl_ == nullptr || bio == nullptr) {
    BIO_free(bio);
    broken_ = error(Code::exhausted, "libssl has no memory for another connection");
    return;
  }
  if (parts_.library->records == TlsRecords::by_kernel && parts_.inner->fd() >= 0) {
    secrets_ = std::make_unique<TrafficSecrets>();
    done(SSL_set_app_data(ssl_, secrets_.get()));
  }
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_, bio, bio);  // which now owns it
  if (parts_.role == TlsRole::server) {
    SSL_set_accept_state(ssl_);
    return;
  }
  SSL_set_connect_state(ssl_);
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl_);
  // Which interface of ours leads to it no certificate says (RFC 4007, 11: "fe80::1%eth0").
  const std::string name = parts_.host.substr(0, parts_.host.find('%'));
  // Without one, OpenSSL believes a certificate of any host.
  if (name.empty() || (X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str()) != 1 &&
                       X509_VERIFY_PARAM_set1_host(wanted, name.c_str(), 0) != 1))
    broken_ = error(Code::exhausted, "there is no name of the other side, or no memory for it");
  ERR_clear_error();
}

Result<sys::ByteStream::Read> TlsStream::read_some(ByteSpan into) {
  std::size_t size = 0;
  TOWPATH_TRY(broken_);
  if (secrets_) TOWPATH_TRY(hand_over());
  if (kernel_) return noted(broken_, kernel_->read_parts({&into, 1}));
  if (secrets_) return Read{.ended = ended_};
  TOWPATH_TRY(read_record(into, size));
  // It waits though there was something: a record that is no data came.
  while (waits_for_input_ && !is_drained_) {
    TOWPATH_TRY(broken_ = controls_.came());
    TOWPATH_TRY(read_record(into, size));
  }
  controls_.data_came(size);
  if (!is_through_) TOWPATH_TRY(unwritable_);
  return Read{.size_bytes = size, .ended = ended_ && size == 0};
}

Status TlsStream::read_record(ByteSpan into, std::size_t& size) {
  is_drained_ = false;
  ERR_clear_error();
  return after(SSL_read_ex(ssl_, into.data(), into.size(), &size));
}

Result<std::size_t> TlsStream::write_some(ConstByteSpan from) {
  std::size_t size = 0;
  TOWPATH_TRY(broken_);
  TOWPATH_TRY(unwritable_);
  if (secrets_) TOWPATH_TRY(hand_over());
  if (kernel_) return noted(unwritable_, kernel_->write_parts({&from, 1}));
  if (secrets_ && !ended_) return size;
  ERR_clear_error();
  held_.reserve(held_.size() + kMostKeyBytes);  // before: what throws then has taken nothing
  TOWPATH_TRY(after(SSL_write_ex(ssl_, from.data(), from.size(), &size)));
  TOWPATH_TRY(unwritable_);
  if (size == 0 && ended_)
    return error(Code::peer_lost, "the peer closed during the TLS handshake");
  records_ += (size + kRecordBytes - 1) / kRecordBytes;
  if (records_ >= parts_.records_per_key) renew_key();
  return size;
}

// Of what this side writes. No record is half written now. The next call says what fails.
void TlsStream::renew_key() {
  is_renewing_ = true;
  int done = SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);
  if (done == 1) done = SSL_do_handshake(ssl_);
  is_renewing_ = false;
  records_ = 0;
  (void)after(done);
}

// As much as there is: a record at a time, and what is left of the last one.
Result<sys::ByteStream::Read> TlsStream::read_parts(std::span<const ByteSpan> parts) {
  if (kernel_) {
    TOWPATH_TRY(broken_);
    return noted(broken_, kernel_->read_parts(parts));
  }
  Read all;
  for (ByteSpan part : parts) {
    while (!part.empty()) {
      const auto some = read_some(part);
      if (!some.ok() && all.size_bytes == 0) return some;
      if (!some.ok() || some->size_bytes == 0) {
        all.ended = some.ok() && some->ended && all.size_bytes == 0;
        return all;
      }
      all.size_bytes += some->size_bytes;
      part = part.subspan(some->size_bytes);
    }
  }
  return all;
}

// A record for each short part would cost more than to put them together.
Result<std::size_t> TlsStream::write_parts(std::span<const ConstByteSpan> parts) {
  if (kernel_) {
    TOWPATH_TRY(broken_);
    TOWPATH_TRY(unwritable_);
    return noted(unwritable_, kernel_->write_parts(parts));
  }
  if (parts.size() == 1 || parts.front().size() >= kRecordBytes) return write_some(parts.front());
  joined_.clear();
  for (const ConstByteSpan part : parts) {
    const std::size_t some = std::min(part.size(), kRecordBytes - joined_.size());
    joined_.insert(joined_.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(some));
    if (joined_.size() == kRecordBytes) break;
  }
  return write_some(joined_);
}

// OpenSSL makes the handshake, and has read and written nothing beyond it then.
Status TlsStream::hand_over() {
  ERR_clear_error();
  TOWPATH_TRY(after(SSL_do_handshake(ssl_)));
  if (!is_through_ || ended_) return unwritable_;
  const bool is_client = parts_.role == TlsRole::client;
  auto taken =
      KernelRecords::take_over({.inner = parts_.inner.get(),
                                .cipher = SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl_)),
                                .ours = is_client ? secrets_->client : secrets_->server,
                                .theirs = is_client ? secrets_->server : secrets_->client,
                                .records_per_key = parts_.records_per_key});
  if (taken.ok())
    kernel_ = *std::move(taken);
  else
    broken_ = taken.status();
  done(SSL_set_app_data(ssl_, nullptr));
  secrets_.reset();
  return broken_;
}

// Memory that cannot be touched is no fault of the connection.
template <typename Size>
Result<Size> TlsStream::noted(Status& first, Result<Size> moved) {
  if (!moved.ok() && moved.code() != Code::out_of_range) first = moved.status();
  return moved;
}

// ok: bytes were moved, or none can be now, or the other side has ended.
Status TlsStream::after(int returned) {
  waits_for_input_ = false;
  is_through_ = is_through_ || SSL_is_init_finished(ssl_) == 1;
  if (returned == 1) {
    if (!is_proven()) broken_ = error(Code::denied, "the other side has proven nothing");
    return broken_;
  }
  switch (SSL_get_error(ssl_, returned)) {
    case SSL_ERROR_WANT_READ: waits_for_input_ = true; return {};
    case SSL_ERROR_WANT_WRITE: return {};
    // Also of a stream below that failed: OpenSSL cannot distinguish that from its end.
    case SSL_ERROR_ZERO_RETURN: ended_ = true; return broken_;
    default: break;
  }
  if (broken_.ok() && !ended_) broken_ = failed();
  ERR_clear_error();
  return broken_;
}

// OpenSSL lets nobody in without the key or a certificate; this is asked in case a change of its
// defaults, or of ours, ever would.
bool TlsStream::is_proven() const {
  return parts_.library->key ? SSL_session_reused(ssl_) == 1
                             : SSL_get_verify_result(ssl_) == X509_V_OK;
}

Status TlsStream::failed() const {
  const unsigned long first = take_error();
  const int reason = ERR_GET_REASON(first);
  if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
      reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_HTTPS_PROXY_REQUEST)
    return error(Code::corrupt, cat("the other side does not speak TLS 1.3: ", to_text(first)),
                 "use the same release on both sides, and see which program listens there");
  if (is_through_ && !is_refusal(reason - SSL_AD_REASON_OFFSET))
    return error(Code::corrupt, cat("TLS was broken off: ", to_text(first)), kAlteredHint);
  const long verdict = SSL_get_verify_result(ssl_);
  const std::string why =
      verdict == X509_V_OK ? std::string() : cat(": ", X509_verify_cert_error_string(verdict));
  return error(Code::denied, cat("the TLS handshake failed: ", to_text(first), why),
               parts_.library->key ? "give both sides the same token" : kCertificateHint);
}

}  // namespace

std::unique_ptr<sys::ByteStream> make_tls_stream(TlsStreamParts parts) {
  return std::make_unique<TlsStream>(std::move(parts));
}

}  // namespace towpath::net
