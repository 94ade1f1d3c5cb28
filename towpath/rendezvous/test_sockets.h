// For the tests of this module: addresses of their own, and a client without manners.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/endpoint.h>
#include <towpath/net/hello.h>
#include <towpath/net/listener.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/rendezvous/frame.h>
#include <towpath/rendezvous/scope.h>

namespace towpath::rendezvous {

/// Another for each test and each process, so that runs in parallel do not meet.
inline std::string test_scope() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return cat(getpid(), "-", std::string_view(test->name()).substr(0, 40));
}
inline net::Address test_address(std::string_view name = "a") {
  return address_in_scope(test_scope(), name).value();
}

inline std::shared_ptr<const net::TlsContext> test_tls(std::string_view secret) {
  return net::TlsContext::from_token(net::Token::make(secret).value());
}
inline net::TlsProvider provider_of(std::shared_ptr<const net::TlsContext> tls) {
  return [tls = std::move(tls)]() -> Result<std::shared_ptr<const net::TlsContext>> { return tls; };
}

/// A stream to who listens at `address`.
inline Result<std::unique_ptr<sys::ByteStream>> reach(const net::Address& address) {
  if (const auto* local = std::get_if<sys::LocalAddress>(&address))
    return sys::connect_stream(*local);
  return net::connect(net::resolve(std::get<net::TcpAddress>(address))->front());
}

/// Writes and reads what it likes. Non-blocking.
class RawClient {
 public:
  explicit RawClient(const net::Address& address) : stream_(reach(address).value()) {}
  explicit RawClient(std::unique_ptr<sys::ByteStream> stream) : stream_(std::move(stream)) {}

  /// How many bytes were taken.
  std::size_t write(ConstByteSpan bytes) {
    const auto sent = stream_->write_some(bytes);
    return sent.ok() ? *sent : 0;
  }
  std::size_t write(std::string_view text) { return write(as_bytes(text)); }
  /// As a client with manners begins. How many bytes that takes.
  std::size_t greet() { return write(net::make_hello(kMetadataService)); }
  /// Whether the other side has closed. Reads, and keeps, what came before.
  bool is_closed() {
    Bytes chunk(4096);
    while (true) {
      const auto read = stream_->read_some(chunk);
      if (!read.ok() || read->ended) return true;
      if (read->size_bytes == 0) return false;
      received_ += as_text(ConstByteSpan(chunk).first(read->size_bytes));
    }
  }
  /// Everything that is_closed() has read.
  const std::string& received() const { return received_; }

 private:
  std::unique_ptr<sys::ByteStream> stream_;
  std::string received_;
};

}  // namespace towpath::rendezvous
