// KernelRecords: the records of a TLS 1.3 connection, made and opened by the kernel (kTLS), from
// where the handshake has ended. Private to net/tls.
//
// Plain bytes go into the socket and come out of it, from and to where they lie; the handshake, and
// each new key, are this side's. A kernel that cannot change a key (before 6.14) is not used: it
// would have to write more with one than AES-GCM is good for. The socket is readable when a whole
// record has come: half of one wakes nobody, though it lies in the socket (tls_sk_poll() of Linux,
// since 6.5).
// Source: Documentation/networking/tls.rst and include/uapi/linux/tls.h of Linux; RFC 8446, 4.6.3,
// 5.5, 7.2 and 7.3.
// Thread: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include <openssl/ssl.h>

#include <towpath/net/tls/tls_library.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {

/// By which the keys of one direction are made. It is wiped when it dies.
class TrafficSecret {
 public:
  static constexpr std::size_t kMostBytes = 48;

  TrafficSecret() = default;
  TrafficSecret(const TrafficSecret&) = default;
  TrafficSecret& operator=(const TrafficSecret&) = default;
  ~TrafficSecret();

  /// "20f3..", as OpenSSL logs it; false: it is none.
  bool parse(std::string_view hex);
  bool empty() const noexcept { return size_ == 0; }
  std::span<const unsigned char> bytes() const noexcept { return {bytes_.data(), size_}; }
  /// HKDF-Expand-Label(secret, label, "", size of `into`), with the digest of its size.
  void expand(const char* label, std::span<unsigned char> into) const;
  TrafficSecret next() const;

 private:
  std::array<unsigned char, kMostBytes> bytes_{};
  std::size_t size_ = 0;
};

struct TrafficSecrets {
  TrafficSecret client;
  TrafficSecret server;
};

class KernelRecords {
 public:
  struct Parts {
    sys::ByteStream* inner = nullptr;  ///< a socket's; it outlives this
    std::uint16_t cipher = 0;          ///< RFC 8446, B.4: an AES-GCM
    TrafficSecret ours = {};
    TrafficSecret theirs = {};
    std::uint64_t records_per_key = 0;
  };
  /// Before anything but the handshake was read or written here. Null: the other side has closed
  /// already, and the kernel takes no such connection: who made the handshake reads what has come.
  /// Errors: unsupported.
  static Result<std::unique_ptr<KernelRecords>> take_over(Parts parts);

  /// As ByteStream's. Errors besides the socket's: corrupt (bytes were altered, or the other side
  /// has broken off, or changes its keys again and again with hardly any data).
  Result<sys::ByteStream::Read> read_parts(std::span<const ByteSpan> parts);
  Result<std::size_t> write_parts(std::span<const ConstByteSpan> parts);

 private:
  explicit KernelRecords(Parts parts) : parts_(std::move(parts)) {}

  Status use_key(int direction, const TrafficSecret& secret);
  /// What stands before the next bytes, if it is no data. `cause`: why these could not be read.
  /// True: the other side has ended.
  Result<bool> take_control(const Status& cause);
  Status take_handshake(std::span<const unsigned char> message);
  /// False: the socket is full.
  Result<bool> renew_key();

  Parts parts_;
  std::uint64_t records_ = 0;  // that were written with this key, or more
  bool must_renew_ = false;    // the other side has asked for it
  ControlRecords controls_;
};

}  // namespace towpath::net
