#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <sys/socket.h>

#include <towpath/core/format.h>
#include <towpath/net/openssl_memory.h>
#include <towpath/net/tls/kernel_records.h>
#include <towpath/net/tls/tls_library.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/os_error.h>

namespace towpath::net {

namespace {

#ifndef TCP_ULP
constexpr int TCP_ULP = 31;
#endif
#ifndef SOL_TLS
constexpr int SOL_TLS = 282;
#endif

constexpr std::uint16_t kShortCipher = 0x1301;  // TLS_AES_128_GCM_SHA256: RFC 8446, B.4
constexpr std::uint16_t kLongCipher = 0x1302;   // TLS_AES_256_GCM_SHA384
constexpr std::size_t kSha256Bytes = 32;
// More than a KeyUpdate, an alert or a ticket has.
constexpr std::size_t kMostControlBytes = 4096;

// RFC 8446, 4 and 5.1
constexpr unsigned char kAlert = 21, kHandshake = 22, kKeyUpdate = 24;
constexpr std::array<unsigned char, 5> kKeyUpdateMessage{kKeyUpdate, 0, 0, 1, 0};
constexpr unsigned char kCloseNotify = 0;

constexpr const char* kHint = "leave out ktls=on";

// The kernel's form of a key: `size` bytes of one of its structures, from 0 on.
struct KernelKey {
  union {
    tls12_crypto_info_aes_gcm_128 short_key;
    tls12_crypto_info_aes_gcm_256 long_key;
  };
  socklen_t size = 0;

  KernelKey() { std::memset(static_cast<void*>(this), 0, sizeof *this); }
  KernelKey(const KernelKey&) = delete;
  KernelKey& operator=(const KernelKey&) = delete;
  ~KernelKey() { OPENSSL_cleanse(this, sizeof *this); }
};

template <typename Info>
void fill(Info& info, std::uint16_t cipher, const TrafficSecret& secret) {
  info.info.version = TLS_1_3_VERSION;
  info.info.cipher_type = cipher;
  secret.expand("key", info.key);
  std::array<unsigned char, sizeof info.salt + sizeof info.iv> nonce{};
  secret.expand("iv", nonce);
  std::memcpy(info.salt, nonce.data(), sizeof info.salt);
  std::memcpy(info.iv, nonce.data() + sizeof info.salt, sizeof info.iv);
}

int set_key(int socket, int direction, std::uint16_t cipher, const TrafficSecret& secret) {
  KernelKey key;
  if (cipher == kShortCipher) {
    fill(key.short_key, TLS_CIPHER_AES_GCM_128, secret);
    key.size = sizeof key.short_key;
  } else {
    fill(key.long_key, TLS_CIPHER_AES_GCM_256, secret);
    key.size = sizeof key.long_key;
  }
  return ::setsockopt(socket, SOL_TLS, direction, &key, key.size);
}

int ask_for_tls(int socket) {
  constexpr std::string_view kName = "tls";
  return ::setsockopt(socket, IPPROTO_TCP, TCP_ULP, kName.data(), kName.size());
}

Status unsupported(std::string_view what, int errno_value, const char* hint = kHint) {
  return error(Code::unsupported, cat(what, ": ", sys::errno_text(errno_value)), hint);
}

struct Connection {
  sys::Fd ours;
  sys::Fd theirs;  // open, or the kernel takes no TLS over
};

Result<Connection> connect_over_loopback() {
  const sys::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  Connection made{.ours = sys::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), .theirs = {}};
  if (!listener || !made.ours) return sys::os_error(errno, "cannot make a socket");
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  if (::bind(listener.get(), address, size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), address, &size) != 0 ||
      ::connect(made.ours.get(), address, size) != 0)
    return unsupported("no connection over the loopback to try kernel TLS on", errno);
  made.theirs.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!made.theirs) return sys::os_error(errno, "cannot accept a connection over the loopback");
  return made;
}

// A record that is no data, and beside it what type it is of.
class ControlRecord {
 public:
  explicit ControlRecord(std::span<unsigned char> bytes) noexcept
      : part_{bytes.data(), bytes.size()} {
    message_.msg_iov = &part_;
    message_.msg_iovlen = 1;
    message_.msg_control = beside_.data();
    message_.msg_controllen = beside_.size();
  }
  ControlRecord(const ControlRecord&) = delete;
  ControlRecord& operator=(const ControlRecord&) = delete;

  ssize_t send(int socket, unsigned char type) noexcept {
    cmsghdr* const head = CMSG_FIRSTHDR(&message_);
    head->cmsg_level = SOL_TLS;
    head->cmsg_type = TLS_SET_RECORD_TYPE;
    head->cmsg_len = CMSG_LEN(sizeof type);
    *CMSG_DATA(head) = type;
    return ::sendmsg(socket, &message_, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  ssize_t receive(int socket) noexcept { return ::recvmsg(socket, &message_, MSG_DONTWAIT); }
  /// Of what was received; none: the kernel does not say.
  std::optional<unsigned char> type() const noexcept {
    const cmsghdr* const head = CMSG_FIRSTHDR(&message_);
    if (head == nullptr || head->cmsg_level != SOL_TLS || head->cmsg_type != TLS_GET_RECORD_TYPE)
      return {};
    return *CMSG_DATA(head);
  }

 private:
  iovec part_;
  msghdr message_{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(unsigned char))> beside_{};
};

Status broken_by_alert(int alert) {
  const std::string what = cat(": ", SSL_alert_desc_string_long(alert), " (alert ", alert, ")");
  if (is_refusal(alert))
    return error(Code::denied, cat("the TLS handshake failed", what), kCertificateHint);
  return error(Code::corrupt, cat("the other side broke TLS off", what), kAlteredHint);
}

int value_of(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

}  // namespace

// ---- Secrets

TrafficSecret::~TrafficSecret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

bool TrafficSecret::parse(std::string_view hex) {
  size_ = 0;
  if (hex.size() != 2 * kSha256Bytes && hex.size() != 2 * kMostBytes) return false;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = value_of(hex[i]), low = value_of(hex[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes_[i / 2] = static_cast<unsigned char>(high * 16 + low);
  }
  size_ = hex.size() / 2;
  return true;
}

void TrafficSecret::expand(const char* label, std::span<unsigned char> into) const {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
      allocated(EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_TLS1_3_KDF, nullptr)), &EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      allocated(EVP_KDF_CTX_new(kdf.get())), &EVP_KDF_CTX_free);
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  char digest[] = "SHA2-256", long_digest[] = "SHA2-384", prefix[] = "tls13 ";
  auto* const secret = const_cast<unsigned char*>(bytes_.data());
  const std::array params{
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST,
                                       size_ == kSha256Bytes ? digest : long_digest, 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret, size_),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, prefix, sizeof prefix - 1),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, const_cast<char*>(label),
                                        std::strlen(label)),
      OSSL_PARAM_construct_end()};
  done(EVP_KDF_derive(context.get(), into.data(), into.size(), params.data()));
}

TrafficSecret TrafficSecret::next() const {
  TrafficSecret next;
  next.size_ = size_;
  expand("traffic upd", {next.bytes_.data(), size_});
  return next;
}

// ---- The kernel

Status can_kernel_do_tls() {
  constexpr const char* kOld = "use Linux 6.14 or newer, or leave out ktls=on";
  TOWPATH_TRY(const Connection connection, connect_over_loopback());
  const int socket = connection.ours.get();
  if (ask_for_tls(socket) != 0)
    return unsupported("this kernel has no TLS of its own", errno,
                       "load its module (`modprobe tls`), or leave out ktls=on");
  TrafficSecret secret;
  secret.parse(std::string(2 * kSha256Bytes, '0'));
  for (const int direction : {TLS_TX, TLS_RX}) {
    if (set_key(socket, direction, kShortCipher, secret) != 0)
      return unsupported("this kernel's TLS does not take a key of TLS 1.3", errno, kOld);
    if (set_key(socket, direction, kShortCipher, secret.next()) != 0)
      return unsupported("this kernel's TLS does not take a second key", errno, kOld);
  }
  return {};
}

Result<std::unique_ptr<KernelRecords>> KernelRecords::take_over(Parts parts) {
  if (parts.cipher != kShortCipher && parts.cipher != kLongCipher)
    return error(Code::unsupported, "kernel TLS speaks AES-GCM alone, and the other side does not");
  std::unique_ptr<KernelRecords> made(new KernelRecords(std::move(parts)));
  if (ask_for_tls(made->parts_.inner->fd()) != 0) {
    if (errno == ENOTCONN) return std::unique_ptr<KernelRecords>();  // tls_init() of Linux
    return unsupported("the kernel does not take the connection's TLS over", errno);
  }
  TOWPATH_TRY(made->use_key(TLS_TX, made->parts_.ours));
  TOWPATH_TRY(made->use_key(TLS_RX, made->parts_.theirs));
  return made;
}

Status KernelRecords::use_key(int direction, const TrafficSecret& secret) {
  if (set_key(parts_.inner->fd(), direction, parts_.cipher, secret) == 0) return {};
  return unsupported("the kernel does not take a key of TLS", errno);
}

Result<sys::ByteStream::Read> KernelRecords::read_parts(std::span<const ByteSpan> parts) {
  while (true) {
    auto read = parts_.inner->read_parts(parts);
    // What is no data fails to be read as data, and stays (EIO). A record of another version is
    // EINVAL (tls_rx_msg_size() of Linux), as a read into nothing is.
    const bool is_of_another = read.code() == Code::invalid_argument && !parts.empty();
    if (read.ok()) controls_.data_came(read->size_bytes);
    if (read.ok() || (read.code() != Code::io_error && !is_of_another)) return read;
    TOWPATH_TRY(const bool has_ended, take_control(read.status()));
    if (has_ended) return sys::ByteStream::Read{.ended = true};
  }
}

Result<bool> KernelRecords::take_control(const Status& cause) {
  std::array<unsigned char, kMostControlBytes> bytes;
  ControlRecord record(bytes);
  const ssize_t got = record.receive(parts_.inner->fd());
  const auto type = got > 0 ? record.type() : std::nullopt;
  if (!type)
    return error(Code::corrupt, cat("TLS was broken off: ", cause.message()), kAlteredHint);
  const std::span message(bytes.data(), static_cast<std::size_t>(got));
  if (*type == kHandshake) {
    TOWPATH_TRY(take_handshake(message));
    return false;
  }
  if (*type != kAlert || message.size() != 2)
    return error(Code::corrupt, cat("the other side sends TLS a record of type ", int{*type}));
  if (message[1] == kCloseNotify) return true;
  return broken_by_alert(message[1]);
}

// After the handshake our side of this protocol has one message: nobody gives tickets.
Status KernelRecords::take_handshake(std::span<const unsigned char> message) {
  if (message.size() != kKeyUpdateMessage.size() ||
      std::memcmp(message.data(), kKeyUpdateMessage.data(), message.size() - 1) != 0 ||
      message.back() > 1)
    return error(Code::corrupt, "the other side says in TLS what nobody has asked for");
  TOWPATH_TRY(controls_.came());
  parts_.theirs = parts_.theirs.next();
  must_renew_ = must_renew_ || message.back() == 1;
  return use_key(TLS_RX, parts_.theirs);
}

Result<std::size_t> KernelRecords::write_parts(std::span<const ConstByteSpan> parts) {
  if (must_renew_ || records_ >= parts_.records_per_key) {
    TOWPATH_TRY(const bool is_new, renew_key());
    if (!is_new) return std::size_t{0};
  }
  TOWPATH_TRY(const std::size_t size, parts_.inner->write_parts(parts));
  if (size > 0) records_ += size / kRecordBytes + 1;
  return size;
}

Result<bool> KernelRecords::renew_key() {
  auto message = kKeyUpdateMessage;
  if (ControlRecord(message).send(parts_.inner->fd(), kHandshake) < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
    return sys::os_error(errno, "cannot announce a new key of TLS");
  }
  parts_.ours = parts_.ours.next();
  TOWPATH_TRY(use_key(TLS_TX, parts_.ours));
  records_ = 0;
  must_renew_ = false;
  return true;
}

}  // namespace towpath::net
