#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/net/tls/tls_library.h>
#include <towpath/net/tls/tls_stream.h>

namespace towpath::net {
namespace {

using Stream = std::unique_ptr<sys::ByteStream>;

// A side of a connection that says what no stream of ours does: OpenSSL's own, over memory.
class RawClient {
 public:
  RawClient(const TlsContext::Library& library, Stream wire)
      : wire_(std::move(wire)), ssl_(SSL_new(library.client.get())) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_);
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { SSL_free(ssl_); }

  bool shake_hands() {
    Bytes into(4096);
    const auto read = wire_->read_some(into);
    if (read.ok() && read->size_bytes > 0)
      BIO_write(SSL_get_rbio(ssl_), into.data(), static_cast<int>(read->size_bytes));
    const bool is_through = SSL_do_handshake(ssl_) == 1;
    flush();
    return is_through;
  }
  void change_key() {
    EXPECT_EQ(SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    EXPECT_EQ(SSL_do_handshake(ssl_), 1);
    flush();
  }
  void say(std::string_view text) {
    EXPECT_EQ(SSL_write(ssl_, text.data(), static_cast<int>(text.size())),
              static_cast<int>(text.size()));
    flush();
  }

 private:
  void flush() {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(SSL_get_wbio(ssl_), &bytes);
    const auto text = std::string_view(bytes, static_cast<std::size_t>(size));
    EXPECT_EQ(wire_->write_some(as_bytes(text)).value(), text.size());
    (void)BIO_reset(SSL_get_wbio(ssl_));
  }
  Stream wire_;
  SSL* const ssl_;
};

struct HeardThrough {
  std::string text;
  Status status;
};

// Whether a side that hears `texts`, each behind `keys` changes of the key, hears all of them.
HeardThrough hear_from_one_that_changes_keys(const std::vector<std::string>& texts, int keys) {
  TlsContext::Library library;
  use_pre_shared_key(library, derive_key(as_bytes("a secret of both"), {}, "a test"));
  auto [near, far] = sys::make_memory_streams();
  RawClient client(library, std::move(near));
  const Stream server = make_tls_stream(
      {.context = nullptr, .library = &library, .inner = std::move(far), .role = TlsRole::server});
  HeardThrough heard;
  Bytes into(kRecordBytes);
  for (bool through = false; !through;) {
    through = client.shake_hands();
    EXPECT_EQ(server->read_some(into).value().size_bytes, 0U);
  }
  for (const std::string& text : texts) {
    for (int i = 0; i < keys; ++i) client.change_key();
    client.say(text);
    const auto read = server->read_some(into);
    heard.status = read.status();
    if (!read.ok()) break;
    heard.text.append(as_text(ConstByteSpan(into).first(read->size_bytes)));
  }
  if (!heard.status.ok()) {
    EXPECT_EQ(server->read_some(into).status(), heard.status);
  }
  return heard;
}

// OpenSSL reads on and on through them: the call would last as long as they come.
TEST(ControlRecordsTest, peer_that_changes_its_key_again_and_again_without_data_is_refused) {
  const int most = ControlRecords::kMost;
  EXPECT_EQ(hear_from_one_that_changes_keys({"heard"}, most).text, "heard");
  const HeardThrough none = hear_from_one_that_changes_keys({"not heard"}, most + 1);
  EXPECT_EQ(none.text, "");
  EXPECT_EQ(none.status.code(), Code::corrupt);
  EXPECT_THAT(none.status.message(), testing::HasSubstr("changes its keys"));
  const HeardThrough some = hear_from_one_that_changes_keys(std::vector<std::string>(40, "x"), 1);
  EXPECT_EQ(some.text, std::string(most, 'x')) << "a byte now and then does not allow more";
  EXPECT_EQ(some.status.code(), Code::corrupt);
  const std::string full(kRecordBytes, 'y');
  const HeardThrough all = hear_from_one_that_changes_keys({full, full, full}, most);
  EXPECT_EQ(all.text.size(), 3 * full.size()) << all.status.to_string();
}

}  // namespace
}  // namespace towpath::net
