// Workers that speak TLS, with somebody on the wire between them.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <towpath/core/format.h>
#include <towpath/net/tcp/tcp_address.h>
#include <towpath/net/tcp/tcp_worker.h>
#include <towpath/net/tls/test_authorities.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fd.h>

namespace towpath::net {
namespace {

/// A side that answers every hello and keeps the heads of what comes after.
struct Trusting final : MessageListener {
  BodySink* on_message(const Message& message) override {
    if (guest == nullptr && message.from != 0 && as_text(message.head) == "hello") {
      guest = worker->answer(message.from, this).value();
      (void)say(*worker, *guest, "answer");
      guest->admit();
      return nullptr;
    }
    heads.emplace_back(as_text(message.head));
    return nullptr;
  }
  Status on_answer(void*, const Message&, ConstByteSpan) override { return {}; }
  void on_broken(void*, const Status& status) override { ++broken, why = status; }
  void on_refused(std::string_view, const Status& status) override { ++refused, why = status; }

  static Status say(MessageWorker& worker, MessageEndpoint& to, std::string_view text) {
    auto buffer = worker.buffers().take();
    std::ranges::copy(as_bytes(text), buffer->room().begin());
    buffer->size = text.size();
    return to.send(std::move(buffer), nullptr, 0, {});
  }

  MessageWorker* worker = nullptr;
  std::unique_ptr<MessageEndpoint> guest;
  std::vector<std::string> heads;
  int broken = 0, refused = 0;
  Status why;
};

sockaddr_in at_loopback(std::uint16_t port = 0) {
  return {.sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

/// Hands on what two sides say to each other, keeps it, and may flip a bit.
class Wire {
 public:
  explicit Wire(const TcpPlace& to) {
    std::memcpy(&to_, to.endpoints.back().get(), sizeof to_);
    sockaddr_in at = at_loopback();
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(trap_.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(trap_.get(), 4), 0);
    EXPECT_EQ(::getsockname(trap_.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    place = to;
    place.endpoints.assign(1, Endpoint{.size_bytes = sizeof at});
    std::memcpy(&place.endpoints.front().storage, &at, sizeof at);
  }
  void hand_on() {
    if (near_.get() < 0) {
      near_ = sys::Fd(::accept4(trap_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (near_.get() < 0) return;
      far_ = sys::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(far_.get(), reinterpret_cast<const sockaddr*>(&to_), sizeof to_), 0);
    }
    for (const auto& [from, to] : {std::pair(near_.get(), far_.get()), {far_.get(), near_.get()}}) {
      std::string some(100'000, '\0');
      const ssize_t got = ::recv(from, some.data(), some.size(), MSG_DONTWAIT);
      if (got == 0) ::shutdown(to, SHUT_WR);
      if (got <= 0) continue;
      some.resize(static_cast<std::size_t>(got));
      if (flips && from == near_.get()) some.back() ^= 1;
      recorded += some;
      (void)::send(to, some.data(), some.size(), MSG_NOSIGNAL);
    }
  }

  TcpPlace place;  ///< where the dialler is led
  std::string recorded;
  bool flips = false;  ///< the last bit of what the dialler says next

 private:
  const sys::Fd trap_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  sockaddr_in to_{};
  sys::Fd near_, far_;
};

class TcpTlsTest : public ::testing::Test {
 protected:
  std::unique_ptr<MessageWorker> open(Trusting& side, bool tls, TlsCertificates shown = {}) {
    auto worker =
        open_tcp_worker({.tls = tls, .certificates = std::move(shown)}, side, clock_).value();
    side.worker = worker.get();
    return worker;
  }
  void open_both(bool near_tls, bool far_tls) {
    near_ = open(near_side_, near_tls);
    far_ = open(far_side_, far_tls);
  }
  Result<std::unique_ptr<MessageEndpoint>> dial(ConstByteSpan address) {
    auto hello = near_->buffers().take();
    std::ranges::copy(as_bytes(std::string_view("hello")), hello->room().begin());
    hello->size = 5;
    return near_->connect(address, std::move(hello), nullptr);
  }
  template <typename Condition>
  bool run_until(Wire* wire, Condition done) {
    return run::eventually([&] {
      near_->progress();
      far_->progress();
      if (wire != nullptr) wire->hand_on();
      return done();
    });
  }
  ~TcpTlsTest() override { far_side_.guest.reset(); }

  const sys::SystemClock clock_;
  Trusting near_side_, far_side_;
  std::unique_ptr<MessageWorker> near_, far_;
};

TEST_F(TcpTlsTest, who_is_on_the_wire_reads_nothing) {
  for (const bool tls : {false, true}) {
    far_side_.guest.reset();
    far_side_.heads.clear();
    open_both(tls, tls);
    Wire wire(decode_tcp_place(far_->address()).value());
    const auto way = dial(encode(wire.place)).value();
    ASSERT_TRUE(Trusting::say(*near_, *way, "the keys and values").ok());
    ASSERT_TRUE(run_until(&wire, [&] { return !far_side_.heads.empty(); }));
    EXPECT_EQ(far_side_.heads.front(), "the keys and values");
    EXPECT_EQ(wire.recorded.find("keys and values") == std::string::npos, tls);
  }
}

TEST_F(TcpTlsTest, a_flipped_bit_breaks_the_connection_and_is_not_delivered) {
  open_both(true, true);
  Wire wire(decode_tcp_place(far_->address()).value());
  const auto way = dial(encode(wire.place)).value();
  ASSERT_TRUE(Trusting::say(*near_, *way, "first").ok());
  ASSERT_TRUE(run_until(&wire, [&] { return !far_side_.heads.empty(); }));
  wire.flips = true;
  ASSERT_TRUE(Trusting::say(*near_, *way, "second").ok());
  ASSERT_TRUE(run_until(&wire, [&] { return far_side_.broken > 0; }));
  EXPECT_EQ(far_side_.heads, std::vector<std::string>{"first"});
}

TEST_F(TcpTlsTest, a_side_that_asks_for_tls_does_not_speak_without) {
  open_both(true, false);
  const auto refused = dial(far_->address());
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.status().to_string().find("security=tls"), std::string::npos);
}

TEST_F(TcpTlsTest, who_dials_a_port_that_speaks_tls_speaks_it_too) {
  open_both(false, true);
  const auto way = dial(far_->address()).value();
  ASSERT_TRUE(Trusting::say(*near_, *way, "first").ok());
  ASSERT_TRUE(run_until(nullptr, [&] { return !far_side_.heads.empty(); }));
}

TEST_F(TcpTlsTest, who_speaks_without_tls_at_such_a_port_is_refused) {
  open_both(false, true);
  TcpPlace place = decode_tcp_place(far_->address()).value();
  place.tls_key.reset();
  const auto way = dial(encode(place)).value();
  ASSERT_TRUE(run_until(nullptr, [&] { return far_side_.refused > 0; }));
  EXPECT_EQ(far_side_.why.code(), Code::corrupt) << far_side_.why.to_string();
  place.tls_key.emplace();  // another key
  far_side_.refused = 0;
  const auto another = dial(encode(place)).value();
  ASSERT_TRUE(run_until(nullptr, [&] { return far_side_.refused > 0; }));
  EXPECT_EQ(far_side_.why.code(), Code::denied) << far_side_.why.to_string();
}

/// Sides that show certificates.
class TcpCertificatesTest : public TcpTlsTest {
 protected:
  void SetUp() override {
    if (const auto why = TestAuthorities::why_not(); !why.empty()) GTEST_SKIP() << why;
    authorities_.emplace();
  }
  TlsCertificates issue(const std::string& name, const std::string& by = "ca",
                        const std::string& host = "IP:127.0.0.1") {
    return authorities_->issue(name, by, host);
  }
  /// Where only the loopback leads to it, which is what the certificates name.
  Bytes by_loopback(const MessageWorker& worker) {
    TcpPlace place = decode_tcp_place(worker.address()).value();
    place.endpoints = {place.endpoints.back()};
    return encode(place);
  }

  std::optional<TestAuthorities> authorities_;
};

TEST_F(TcpCertificatesTest, sides_of_one_authority_speak_and_the_wire_reads_nothing) {
  near_ = open(near_side_, true, issue("near"));
  far_ = open(far_side_, true, issue("far"));
  const TcpPlace place = decode_tcp_place(far_->address()).value();
  EXPECT_TRUE(place.wants_certificate);
  EXPECT_FALSE(place.tls_key) << "a reader of the address could speak by it";
  Wire wire(place);
  const auto way = dial(encode(wire.place)).value();
  ASSERT_TRUE(Trusting::say(*near_, *way, "the keys and values").ok());
  ASSERT_TRUE(run_until(&wire, [&] { return !far_side_.heads.empty(); }));
  EXPECT_EQ(wire.recorded.find("keys and values"), std::string::npos);
}

TEST_F(TcpCertificatesTest, who_is_of_another_authority_is_refused) {
  near_ = open(near_side_, true, issue("thief", "other"));
  far_ = open(far_side_, true, issue("far"));
  const auto way = dial(by_loopback(*far_)).value();
  ASSERT_TRUE(run_until(nullptr, [&] { return far_side_.refused > 0; }));
  EXPECT_EQ(far_side_.why.code(), Code::denied) << far_side_.why.to_string();
  EXPECT_EQ(far_side_.guest, nullptr);
}

TEST_F(TcpCertificatesTest, a_port_whose_certificate_names_another_host_is_not_spoken_to) {
  near_ = open(near_side_, true, issue("near"));
  far_ = open(far_side_, true, issue("moved", "ca", "IP:10.0.0.8"));
  const auto way = dial(by_loopback(*far_)).value();
  ASSERT_TRUE(run_until(nullptr, [&] { return near_side_.broken > 0; }));
  EXPECT_THAT(near_side_.why.to_string(), ::testing::HasSubstr("IP address mismatch"));
  EXPECT_EQ(far_side_.guest, nullptr);
}

TEST_F(TcpCertificatesTest, both_sides_have_one_or_none) {
  near_ = open(near_side_, true);
  far_ = open(far_side_, true, issue("far"));
  EXPECT_EQ(dial(far_->address()).status().message(),
            "the peer's port asks for a certificate, and this side has none");
  near_ = open(near_side_, true, issue("near"));
  far_ = open(far_side_, true);
  EXPECT_EQ(dial(far_->address()).status().message(),
            "the peer's port shows no certificate, and this side asks for one");
}

TEST_F(TcpCertificatesTest, files_that_cannot_be_used_open_no_port) {
  TlsCertificates none = issue("near");
  none.key_file = authorities_->file("none.key");
  const auto refused = open_tcp_worker({.tls = true, .certificates = none}, near_side_, clock_);
  EXPECT_EQ(refused.code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::net
