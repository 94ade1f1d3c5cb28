#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include <towpath/net/tls/test_authorities.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/net/tls/tls_library.h>
#include <towpath/net/tls/tls_stream.h>

namespace towpath::net {
namespace {

using Stream = std::unique_ptr<sys::ByteStream>;

Token token(std::string_view secret = "00112233445566778899aabbccddeeff") {
  return Token::make(secret).value();
}

// Keeps what crosses it, and changes one byte if asked.
class Wire final : public sys::ByteStream {
 public:
  Wire(Stream inner, std::string& seen, std::size_t flip = SIZE_MAX)
      : inner_(std::move(inner)), seen_(&seen), flip_(flip) {}
  Result<Read> read_some(ByteSpan into) override {
    TOWPATH_TRY(unreadable_);
    return inner_->read_some(into);
  }
  Result<std::size_t> write_some(ConstByteSpan from) override {
    if (is_cut_) return error(Code::peer_lost, "cut");
    Bytes bytes(from.begin(), from.end());
    const std::size_t at = flip_ - seen_->size();
    if (flip_ >= seen_->size() && at < bytes.size()) bytes[at] ^= std::byte{1};
    TOWPATH_TRY(const std::size_t sent, inner_->write_some(bytes));
    seen_->append(as_text(ConstByteSpan(bytes).first(sent)));
    return sent;
  }
  int fd() const noexcept override { return inner_->fd(); }
  // In the record that is written next.
  void flip_next() { flip_ = seen_->size() + 8; }
  // Nothing more is written; what comes the other way still does.
  void cut() { is_cut_ = true; }
  // Nothing more comes.
  void fail_reads(Status why) { unreadable_ = std::move(why); }

 private:
  Status unreadable_;
  bool is_cut_ = false;
  Stream inner_;
  std::string* seen_;
  std::size_t flip_;
};

struct Heard {
  std::string text;
  Status status;  // of the first call that failed
};

// Sends `text` from one side and hears it at the other, until it has come or one side fails.
struct Talk {
  Talk(Stream from_side, Stream to_side) : from(std::move(from_side)), to(std::move(to_side)) {}

  void send(std::string_view text) {
    std::size_t before = SIZE_MAX;
    for (int idle = 0; idle < 3000 && heard.text.size() < text.size(); ++idle) {
      if (std::exchange(before, sent + heard.text.size()) != sent + heard.text.size()) idle = 0;
      if (sent < text.size()) note(sender, from->write_some(as_bytes(text.substr(sent))), sent);
      std::size_t size = 0;
      Bytes into(4096);
      auto read = to->read_some(into);
      note(heard.status, read.ok() ? Result<std::size_t>(read->size_bytes) : read.status(), size);
      heard.text.append(as_text(ConstByteSpan(into).first(size)));
      if (!sender.ok() && !heard.status.ok()) return;
    }
  }
  static void note(Status& first, const Result<std::size_t>& moved, std::size_t& total) {
    if (moved.ok()) total += *moved;
    if (!moved.ok() && first.ok()) first = moved.status();
  }

  Stream from;
  Stream to;
  std::size_t sent = 0;
  Status sender;
  Heard heard;
};

Talk talk_between(const Token& client, const Token& server,
                  const sys::MemoryStreamOptions& options = {}) {
  auto [near, far] = sys::make_memory_streams(options);
  return {TlsContext::from_token(client)->client(std::move(near), "host"),
          TlsContext::from_token(server)->server(std::move(far))};
}

TEST(TlsTest, who_share_a_token_hear_each_other_over_any_stream) {
  const std::string text(100'000, 'x');
  for (const sys::MemoryStreamOptions& options :
       {sys::MemoryStreamOptions{}, sys::MemoryStreamOptions{.capacity_bytes = 100},
        sys::MemoryStreamOptions{.most_per_read = 1, .most_per_write = 1},
        sys::MemoryStreamOptions{.every_other_call_stalls = true}}) {
    Talk talk = talk_between(token(), token(), options);
    talk.send(text);
    EXPECT_EQ(talk.heard.text, text) << talk.heard.status.to_string() << talk.sender.to_string();
    Talk back(std::move(talk.to), std::move(talk.from));
    back.send("and back");
    EXPECT_EQ(back.heard.text, "and back");
  }
}

TEST(TlsTest, neither_token_nor_text_crosses_the_wire) {
  std::string seen;
  auto [near, far] = sys::make_memory_streams();
  Talk talk(TlsContext::from_token(token())->client(std::make_unique<Wire>(std::move(near), seen),
                                                    "host"),
            TlsContext::from_token(token())->server(std::make_unique<Wire>(std::move(far), seen)));
  talk.send("the metadata of an agent");
  EXPECT_EQ(talk.heard.text, "the metadata of an agent");
  EXPECT_EQ(seen.find(token().secret()), std::string::npos);
  EXPECT_EQ(seen.find("metadata"), std::string::npos);
}

TEST(TlsTest, another_token_is_denied_at_both_sides) {
  Talk talk = talk_between(token(), token("ffeeddccbbaa99887766554433221100"));
  talk.send("hello");
  EXPECT_EQ(talk.sender.code(), Code::denied) << talk.sender.to_string();
  EXPECT_EQ(talk.heard.status.code(), Code::denied) << talk.heard.status.to_string();
  EXPECT_THAT(talk.sender.to_string(), testing::HasSubstr("the same token"));
  EXPECT_EQ(talk.heard.text, "");
}

TEST(TlsTest, what_speaks_no_tls_is_named) {
  auto [near, far] = sys::make_memory_streams();
  Talk talk(std::move(near), TlsContext::from_token(token())->server(std::move(far)));
  talk.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(talk.heard.status.code(), Code::corrupt);
  EXPECT_THAT(talk.heard.status.to_string(), testing::HasSubstr("does not speak TLS 1.3"));
}

TEST(TlsTest, every_byte_on_the_wire_that_is_altered_ends_the_connection) {
  std::size_t flips = 0;
  for (std::size_t flip = 0; flip < 700; flip += 7, ++flips) {
    std::string seen;
    auto [near, far] = sys::make_memory_streams();
    Talk talk(TlsContext::from_token(token())->client(
                  std::make_unique<Wire>(std::move(near), seen, flip), "host"),
              TlsContext::from_token(token())->server(std::move(far)));
    talk.send(std::string(200, 'y'));
    if (seen.size() <= flip) break;
    EXPECT_EQ(talk.heard.text, "") << "byte " << flip << " of " << seen.size();
    EXPECT_FALSE(talk.heard.status.ok() && talk.sender.ok()) << flip;
  }
  EXPECT_GT(flips, 60U) << "a hello, a proof and the text have more than 400 bytes";
}

TEST(TlsTest, byte_that_is_altered_after_the_handshake_is_no_matter_of_tokens) {
  std::string seen;
  auto [near, far] = sys::make_memory_streams();
  auto wire = std::make_unique<Wire>(std::move(near), seen);
  Wire& altered = *wire;
  Talk talk(TlsContext::from_token(token())->client(std::move(wire), "host"),
            TlsContext::from_token(token())->server(std::move(far)));
  talk.send("heard");
  ASSERT_EQ(talk.heard.text, "heard");
  altered.flip_next();
  talk.send("heard, and altered");
  EXPECT_EQ(talk.heard.text, "heard");
  EXPECT_EQ(talk.heard.status.code(), Code::corrupt) << talk.heard.status.to_string();
  Bytes into(100);
  EXPECT_EQ(talk.from->read_some(into).code(), Code::corrupt) << "by the alert";
}

TEST(TlsTest, what_has_come_is_read_though_nothing_can_be_written) {
  std::string seen;
  auto [near, far] = sys::make_memory_streams();
  auto wire = std::make_unique<Wire>(std::move(near), seen);
  Wire& half = *wire;
  Talk talk(TlsContext::from_token(token())->client(std::move(wire), "host"),
            TlsContext::from_token(token())->server(std::move(far)));
  talk.send("heard");
  ASSERT_EQ(talk.to->write_some(as_bytes("goodbye")).value(), 7U);
  half.cut();
  EXPECT_EQ(talk.from->write_some(as_bytes("too late")).code(), Code::peer_lost);
  Bytes into(100);
  const auto read = talk.from->read_some(into);
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(as_text(ConstByteSpan(into).first(read->size_bytes)), "goodbye");
  EXPECT_EQ(talk.from->write_some(as_bytes("too late")).code(), Code::peer_lost);
}

TEST(TlsTest, stream_that_cannot_be_written_ends_a_handshake) {
  std::string seen;
  auto [near, far] = sys::make_memory_streams();
  auto wire = std::make_unique<Wire>(std::move(near), seen);
  wire->cut();
  const Stream client = TlsContext::from_token(token())->client(std::move(wire), "host");
  Bytes into(100);
  EXPECT_EQ(client->read_some(into).code(), Code::peer_lost);
}

TEST(TlsTest, stream_that_cannot_be_read_any_more_says_why_and_has_not_ended) {
  const Status why = error(Code::unavailable, "the connection timed out");
  for (const bool in_handshake : {true, false}) {
    std::string seen;
    auto [near, far] = sys::make_memory_streams();
    auto wire = std::make_unique<Wire>(std::move(near), seen);
    Wire& broken = *wire;
    Talk talk(TlsContext::from_token(token())->client(std::move(wire), "host"),
              TlsContext::from_token(token())->server(std::move(far)));
    if (!in_handshake) talk.send("heard");
    broken.fail_reads(why);
    Bytes into(100);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(talk.from->read_some(into).status(), why);
    EXPECT_EQ(talk.from->write_some(as_bytes("hello")).status(), why);
  }
}

// Counts the messages about keys that a side writes.
void count_key_updates(int writes, int, int type, const void* bytes, std::size_t size, SSL*,
                       void* count) {
  if (writes != 0 && type == SSL3_RT_HANDSHAKE && size > 0 &&
      *static_cast<const std::uint8_t*>(bytes) == SSL3_MT_KEY_UPDATE)
    ++*static_cast<int*>(count);
}

TEST(TlsTest, key_is_renewed_before_it_is_worn_out) {
  TlsContext::Library library;
  use_pre_shared_key(library, derive_key(as_bytes("a secret of both"), {}, "a test"));
  int renewed = 0;
  SSL_CTX_set_msg_callback(library.client.get(), count_key_updates);
  SSL_CTX_set_msg_callback_arg(library.client.get(), &renewed);
  const std::string text(200'000, 'x');
  for (const sys::MemoryStreamOptions& options :
       {sys::MemoryStreamOptions{}, sys::MemoryStreamOptions{.capacity_bytes = 100},
        sys::MemoryStreamOptions{.most_per_write = 1}}) {
    renewed = 0;
    auto [near, far] = sys::make_memory_streams(options);
    Talk talk(make_tls_stream({.context = nullptr,
                               .library = &library,
                               .inner = std::move(near),
                               .role = TlsRole::client,
                               .host = "host",
                               .records_per_key = 3}),
              make_tls_stream({.context = nullptr,
                               .library = &library,
                               .inner = std::move(far),
                               .role = TlsRole::server,
                               .records_per_key = 3}));
    talk.send(text);
    EXPECT_TRUE(talk.heard.text == text) << talk.heard.status.to_string();
    EXPECT_GT(renewed, 0) << "thirteen records, in one call or in some";
    Talk back(std::move(talk.to), std::move(talk.from));
    back.send(text);
    EXPECT_TRUE(back.heard.text == text) << back.heard.status.to_string();
  }
}

TEST(TlsTest, peer_that_closes_in_the_handshake_is_lost) {
  auto [near, far] = sys::make_memory_streams();
  const Stream client = TlsContext::from_token(token())->client(std::move(near), "host");
  EXPECT_EQ(client->write_some(as_bytes("hello")).value(), 0U);
  EXPECT_TRUE(client->waits_for_input()) << "not writable: it would spin";
  far.reset();
  Bytes into(100);
  const auto read = client->read_some(into);
  EXPECT_TRUE(read.ok() && read->ended);
  EXPECT_EQ(client->write_some(as_bytes("hello")).code(), Code::peer_lost);
}

// Allocations that OpenSSL is still given; below 0: all. It takes another allocator only before its
// first.
std::int64_t allocations_left = -1;

bool may_allocate() {
  if (allocations_left > 0) --allocations_left;
  return allocations_left != 0;
}

const bool kIsReplaced =
    CRYPTO_set_mem_functions([](std::size_t size, const char*,
                                int) { return may_allocate() ? std::malloc(size) : nullptr; },
                             [](void* old, std::size_t size, const char*, int) {
                               return may_allocate() ? std::realloc(old, size) : nullptr;
                             },
                             [](void* old, const char*, int) { std::free(old); }) == 1;

TEST(TlsTest, without_memory_a_connection_fails_and_the_process_goes_on) {
  ASSERT_TRUE(kIsReplaced);
  auto [near, far] = sys::make_memory_streams({});
  const auto context = TlsContext::from_token(token());
  const Stream first = context->server(std::move(near));
  allocations_left = 0;
  const Stream second = context->server(std::move(far));
  allocations_left = -1;
  Bytes into(16);
  EXPECT_TRUE(first->read_some(into).ok());
  EXPECT_EQ(second->read_some(into).code(), Code::exhausted);
  EXPECT_EQ(second->write_some(into).code(), Code::exhausted);
  EXPECT_EQ(second->buffered_bytes(), 0U);
}

// Else its caller would send them again. The first allocation that fails: each one of a write after
// which the key is renewed.
TEST(TlsTest, bytes_that_were_taken_are_no_error_though_the_key_cannot_be_renewed) {
  ASSERT_TRUE(kIsReplaced);
  TlsContext::Library library;
  use_pre_shared_key(library, derive_key(as_bytes("a secret of both"), {}, "a test"));
  const auto side = [&](Stream inner, TlsRole role) {
    return make_tls_stream({.context = nullptr,
                            .library = &library,
                            .inner = std::move(inner),
                            .role = role,
                            .host = "host",
                            .records_per_key = 2});
  };
  int taken = 0;
  bool is_over = false;
  for (std::int64_t n = 1; !is_over; ++n) {
    auto [near, far] = sys::make_memory_streams();
    Talk talk(side(std::move(near), TlsRole::client), side(std::move(far), TlsRole::server));
    talk.send("one");
    allocations_left = n;
    const auto wrote = talk.from->write_some(as_bytes("two"));
    is_over = allocations_left > 0;
    allocations_left = -1;
    Bytes into(100);
    const auto read = talk.to->read_some(into);
    EXPECT_EQ(wrote.ok(), read.ok() && read->size_bytes == 3) << "allocation " << n;
    if (wrote.ok()) ++taken;
    EXPECT_EQ(talk.from->write_some(as_bytes("three")).ok(), is_over) << "allocation " << n;
  }
  EXPECT_GT(taken, 1) << "one, and those whose key was not renewed";
}

// The first allocation that fails: each one of those that a context needs, as a dial makes one.
TEST(TlsTest, without_memory_there_is_no_context_and_the_process_goes_on) {
  ASSERT_TRUE(kIsReplaced);
  (void)TlsContext::from_token(token());  // what OpenSSL keeps for the process
  int failed = 0;
  bool is_over = false;
  for (std::int64_t n = 1; !is_over; ++n) {
    allocations_left = n;
    try {
      (void)TlsContext::from_token(token());
      is_over = allocations_left > 0;
    } catch (const std::bad_alloc&) {
      ++failed;
    }
    allocations_left = -1;
  }
  EXPECT_GT(failed, 10);
}

TEST(TlsTest, decrypted_bytes_that_wait_are_counted) {
  Talk talk = talk_between(token(), token());
  talk.send("x");
  ASSERT_EQ(talk.from->write_some(as_bytes("0123456789")).value(), 10U);
  Bytes into(4);
  ASSERT_EQ(talk.to->read_some(into)->size_bytes, 4U);
  EXPECT_EQ(talk.to->buffered_bytes(), 6U);
}

class TlsCertificatesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = TestAuthorities::why_not(); !why.empty()) GTEST_SKIP() << why;
    authorities_.emplace();
  }
  TlsCertificates issue(const std::string& name, const std::string& by, const std::string& host) {
    return authorities_->issue(name, by, host);
  }
  static Talk talk_between(const TlsCertificates& client, const TlsCertificates& server) {
    auto [near, far] = sys::make_memory_streams();
    return {TlsContext::from_certificates(client).value()->client(std::move(near), "10.0.0.7"),
            TlsContext::from_certificates(server).value()->server(std::move(far))};
  }
  std::optional<TestAuthorities> authorities_;
};

TEST_F(TlsCertificatesTest, certificates_of_one_authority_open_and_others_do_not) {
  const TlsCertificates client = issue("client", "ca", "DNS:client");
  const TlsCertificates server = issue("server", "ca", "IP:10.0.0.7");
  Talk good = talk_between(client, server);
  good.send("hello");
  EXPECT_EQ(good.heard.text, "hello") << good.heard.status.to_string() << good.sender.to_string();
  Talk unknown_client = talk_between(issue("thief", "other", "DNS:client"), server);
  unknown_client.send("hello");
  EXPECT_EQ(unknown_client.heard.text, "");
  EXPECT_EQ(unknown_client.heard.status.code(), Code::denied)
      << unknown_client.heard.status.to_string();
  Bytes into(100);
  EXPECT_EQ(unknown_client.from->read_some(into).code(), Code::denied)
      << "it was through, and hears by an alert that it is refused";
  Talk wrong_host = talk_between(client, issue("moved", "ca", "IP:10.0.0.8"));
  wrong_host.send("hello");
  EXPECT_EQ(wrong_host.sender.code(), Code::denied) << wrong_host.sender.to_string();
  EXPECT_EQ(wrong_host.heard.text, "");
}

// The first allocation that fails: each one of those that a connection begins with.
TEST_F(TlsCertificatesTest, without_memory_no_other_host_is_believed) {
  const auto client = TlsContext::from_certificates(issue("client", "ca", "DNS:client")).value();
  const auto server = TlsContext::from_certificates(issue("server", "ca", "DNS:moved")).value();
  bool is_over = false;
  for (std::int64_t n = 1; !is_over; ++n) {
    auto [near, far] = sys::make_memory_streams();
    allocations_left = n;
    Stream dials = client->client(std::move(near), "host");
    is_over = allocations_left > 0;
    allocations_left = -1;
    Talk talk(std::move(dials), server->server(std::move(far)));
    talk.send("hello");
    ASSERT_EQ(talk.heard.text, "") << "allocation " << n;
    ASSERT_FALSE(talk.sender.ok()) << "allocation " << n;
  }
}

TEST_F(TlsCertificatesTest, interface_that_leads_to_a_host_is_no_part_of_its_name) {
  const auto context = TlsContext::from_certificates(issue("host", "ca", "IP:fe80::7")).value();
  for (const auto& [dialled, heard] :
       {std::pair("fe80::7%eth0", "hello"), std::pair("fe80::8%eth0", ""), std::pair("", "")}) {
    auto [near, far] = sys::make_memory_streams();
    Talk talk(context->client(std::move(near), dialled), context->server(std::move(far)));
    talk.send("hello");
    EXPECT_EQ(talk.heard.text, heard) << dialled << ": " << talk.sender.to_string();
  }
}

TEST_F(TlsCertificatesTest, token_and_certificate_do_not_meet) {
  auto [near, far] = sys::make_memory_streams();
  Talk talk(TlsContext::from_token(token())->client(std::move(near), "10.0.0.7"),
            TlsContext::from_certificates(issue("server", "ca", "IP:10.0.0.7"))
                .value()
                ->server(std::move(far)));
  talk.send("hello");
  EXPECT_EQ(talk.sender.code(), Code::denied) << talk.sender.to_string();
  EXPECT_EQ(talk.heard.text, "");
}

TEST_F(TlsCertificatesTest, files_that_are_none_are_refused_by_name) {
  const TlsCertificates good = issue("server", "ca", "IP:10.0.0.7");
  TlsCertificates bad = good;
  bad.key_file = authorities_->file("none.key");
  const Status refused = TlsContext::from_certificates(bad).status();
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_THAT(refused.to_string(), testing::HasSubstr("none.key"));
  bad.key_file = authorities_->encrypt_key("server");
  const Status encrypted = TlsContext::from_certificates(bad).status();
  EXPECT_EQ(encrypted.code(), Code::invalid_argument);
  EXPECT_THAT(encrypted.to_string(), testing::HasSubstr("without a pass phrase"));
  bad.key_file.clear();
  EXPECT_EQ(TlsContext::from_certificates(bad).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::net
