// Against a server that the test plays by hand, on a socket of its own.
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/net/base64.h>
#include <towpath/net/http.h>
#include <towpath/net/listener.h>
#include <towpath/net/tls/test_authorities.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/run/eventually.h>
#include <towpath/run/poller.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::net {
namespace {

using run::eventually;
using testing::HasSubstr;

class HttpTest : public testing::Test {
 protected:
  std::string url(std::string_view path = "/x") const {
    return cat("http://127.0.0.1:", std::get<TcpAddress>(listener->address()).port, path);
  }
  HttpId send(HttpRequest request) {
    return client->send(std::move(request), [&](auto response) { answers.push_back(response); })
        .value();
  }
  // What the client has sent, once it holds `until`.
  std::string serve(std::string_view until) {
    std::string heard;
    Bytes chunk(65536);
    EXPECT_TRUE(eventually([&] {
      client->progress();
      if (!server) {
        if (sys::Fd fd = listener->accept().value())
          server = sys::make_socket_stream(std::move(fd));
        return false;
      }
      const auto read = server->read_some(chunk);
      if (read.ok()) heard += as_text(ConstByteSpan(chunk).first(read->size_bytes));
      return heard.find(until) != std::string::npos;
    }));
    return heard;
  }
  void reply(std::string_view text) {
    EXPECT_EQ(server->write_some(as_bytes(text)).value(), text.size());
  }
  Result<HttpResponse> answer() {
    EXPECT_TRUE(eventually([&] {
      client->progress();
      return !answers.empty();
    }));
    return answers.empty() ? error(Code::internal, "no answer") : answers.back();
  }

  std::optional<Listener> listener = Listener::listen(TcpAddress{"127.0.0.1", 0}).value();
  std::unique_ptr<HttpClient> client = HttpClient::open().value();
  std::unique_ptr<sys::ByteStream> server;
  std::vector<Result<HttpResponse>> answers;
};

TEST_F(HttpTest, request_goes_out_and_its_answer_comes_in) {
  send({.method = "POST", .url = url("/v3"), .headers = {"X-Name: value"}, .body = "the body"});
  EXPECT_TRUE(answers.empty());
  const std::string heard = serve("the body");
  EXPECT_THAT(heard, HasSubstr("POST /v3 HTTP/1.1\r\n"));
  EXPECT_THAT(heard, HasSubstr("X-Name: value\r\n"));
  reply("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone");
  const auto response = answer();
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_EQ(response->status, 404);
  EXPECT_EQ(as_text(response->body), "none");
  EXPECT_EQ(client->request_count(), 0U);
}

TEST_F(HttpTest, user_and_password_are_reported) {
  client = HttpClient::open({.user = "u", .password = "p"}).value();
  send({.url = url()});
  EXPECT_THAT(serve("\r\n\r\n"), HasSubstr("Authorization: Basic " + to_base64(as_bytes("u:p"))));
}

TEST_F(HttpTest, nobody_there_is_unavailable) {
  const std::string gone = url();
  listener.reset();
  send({.url = gone});
  const Status status = answer().status();
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_THAT(status.to_string(), HasSubstr(gone));
}

TEST_F(HttpTest, server_that_says_nothing_costs_no_more_than_the_timeout) {
  send({.url = url(), .timeout = std::chrono::milliseconds(30)});
  EXPECT_EQ(answer().code(), Code::timed_out);
}

TEST_F(HttpTest, answer_cut_short_is_none) {
  send({.url = url()});
  serve("\r\n\r\n");
  reply("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  server.reset();
  EXPECT_EQ(answer().code(), Code::unavailable);
}

TEST_F(HttpTest, body_over_the_bound_is_refused) {
  client = HttpClient::open({.max_body_bytes = 10}).value();
  send({.url = url()});
  serve("\r\n\r\n");
  reply("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world");
  EXPECT_EQ(answer().code(), Code::out_of_range);
}

TEST_F(HttpTest, stream_is_heard_piece_by_piece) {
  std::string heard;
  send({.url = url(), .timeout = Duration::zero(), .on_body = [&](ConstByteSpan bytes) {
          heard += as_text(bytes);
          return heard == "onetwo" ? error(Code::corrupt, "enough") : Status();
        }});
  serve("\r\n\r\n");
  reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
  EXPECT_TRUE(eventually([&] {
    client->progress();
    return heard == "one";
  }));
  EXPECT_TRUE(answers.empty());
  reply("3\r\ntwo\r\n");
  EXPECT_EQ(answer().code(), Code::corrupt) << "the listener's own verdict ends it";
  EXPECT_EQ(client->request_count(), 0U);
}

TEST_F(HttpTest, cancelled_request_is_never_answered) {
  const HttpId id = send({.url = url()});
  serve("\r\n\r\n");
  client->cancel(id);
  client->cancel(id);
  reply("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  for (int i = 0; i < 10; ++i) client->progress();
  EXPECT_TRUE(answers.empty());
}

/// A body of a few bytes, that counts how often it is looked at.
class TextSource final : public HttpSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  std::uint64_t size_bytes() const override { return text_.size(); }
  void read(std::uint64_t offset, ByteSpan into) override {
    ++reads;
    std::memcpy(into.data(), text_.data() + offset, into.size());
  }
  int reads = 0;

 private:
  const std::string text_;
};

class TextSink final : public HttpSink {
 public:
  Status begin(const HttpResponse& head) override {
    ++begins;
    status = head.status;
    range = head.header("content-range");
    return refusal;
  }
  Status take(ConstByteSpan bytes) override {
    text += as_text(bytes);
    return {};
  }
  int begins = 0;
  int status = 0;
  std::string range;
  std::string text;
  Status refusal;
};

TEST_F(HttpTest, body_is_read_from_where_it_lies) {
  TextSource source(std::string(100'000, 'q'));
  send({.method = "PUT", .url = url(), .source = &source});
  const std::string heard = serve(std::string(1000, 'q'));
  EXPECT_THAT(heard, HasSubstr("PUT /x HTTP/1.1\r\n"));
  EXPECT_THAT(heard, HasSubstr("Content-Length: 100000\r\n"));
  reply("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: \"x\"\r\n\r\n");
  const auto response = answer();
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_EQ(response->header("etag"), "\"x\"");
  EXPECT_EQ(response->header("none"), "");
}

TEST_F(HttpTest, requests_without_a_body_say_so) {
  for (const char* method : {"PUT", "POST"}) {
    TextSource empty("");
    send({.method = method, .url = url(), .source = method[1] == 'U' ? &empty : nullptr});
    EXPECT_THAT(serve("\r\n\r\n"), HasSubstr("Content-Length: 0\r\n")) << method;
    server.reset();
    (void)answer();
    answers.clear();
  }
}

TEST_F(HttpTest, body_is_written_where_it_belongs) {
  TextSink sink;
  send({.url = url(), .sink = &sink});
  serve("\r\n\r\n");
  reply(
      "HTTP/1.1 206 Partial Content\r\nContent-Range:  bytes 5-8/100 \r\nContent-Length: "
      "4\r\n\r\n");
  EXPECT_TRUE(answers.empty());
  reply("half");
  const auto response = answer();
  ASSERT_TRUE(response.ok()) << response.status().to_string();
  EXPECT_TRUE(response->body.empty());
  EXPECT_EQ(sink.text, "half");
  EXPECT_EQ(sink.range, "bytes 5-8/100");
  EXPECT_EQ(sink.begins, 1);
}

TEST_F(HttpTest, what_an_error_says_is_never_taken_for_the_body) {
  TextSink sink;
  send({.url = url(), .sink = &sink});
  serve("\r\n\r\n");
  reply("HTTP/1.1 503 Slow Down\r\nContent-Length: 4\r\n\r\nslow");
  EXPECT_EQ(as_text(answer()->body), "slow");
  EXPECT_EQ(sink.begins, 0);
}

TEST_F(HttpTest, sink_that_refuses_ends_the_request_with_its_word) {
  TextSink sink;
  sink.refusal = error(Code::corrupt, "not this");
  send({.url = url(), .sink = &sink});
  serve("\r\n\r\n");
  reply("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhalf");
  EXPECT_EQ(answer().code(), Code::corrupt);
  EXPECT_EQ(sink.text, "");
}

// libcurl takes itself for inside of a callback as long as that has not returned.
TEST_F(HttpTest, body_for_which_there_is_no_memory_ends_its_request_and_no_other) {
  struct Full final : HttpSink {
    Status begin(const HttpResponse&) override { return {}; }
    Status take(ConstByteSpan) override { throw std::bad_alloc(); }
  } sink;
  send({.url = url(), .sink = &sink});
  serve("\r\n\r\n");
  reply("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_EQ(answer().code(), Code::exhausted);
  EXPECT_EQ(client->request_count(), 0U);
  server.reset();
  answers.clear();
  send({.url = url()});
  serve("\r\n\r\n");
  reply("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_EQ(as_text(answer()->body), "ok");
}

// Rather than that the system's authorities are trusted in the place of the one that was named.
TEST_F(HttpTest, what_libcurl_does_not_take_is_not_left_out) {
  const std::string too_long(std::size_t{8} << 20U, 'x');
  const auto refused = [&](HttpClientOptions options, HttpRequest request) {
    client = HttpClient::open(std::move(options)).value();
    return client->send(std::move(request), [](auto) {}).code();
  };
  EXPECT_EQ(refused({.tls = {.authority_file = too_long}}, {.url = url()}), Code::invalid_argument);
  EXPECT_EQ(refused({.user = too_long}, {.url = url()}), Code::invalid_argument);
  EXPECT_EQ(refused({}, {.method = too_long, .url = url()}), Code::invalid_argument);
  EXPECT_EQ(client->request_count(), 0U);
}

TEST_F(HttpTest, sink_hears_of_an_empty_body) {
  TextSink sink;
  send({.method = "HEAD", .url = url(), .sink = &sink});
  serve("\r\n\r\n");
  reply("HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n");
  ASSERT_TRUE(answer().ok());
  EXPECT_EQ(sink.status, 200);
}

TEST_F(HttpTest, neither_source_nor_sink_is_touched_after_a_cancel) {
  auto source = std::make_unique<TextSource>(std::string(32 << 20U, 'q'));
  auto sink = std::make_unique<TextSink>();
  const HttpId id =
      send({.method = "PUT", .url = url(), .source = source.get(), .sink = sink.get()});
  serve("qqqq");
  EXPECT_GT(source->reads, 0);
  client->cancel(id);
  source.reset();  // a sanitizer tells of a touch
  sink.reset();
  for (int i = 0; i < 10; ++i) client->progress();
  EXPECT_TRUE(answers.empty());
}

TEST_F(HttpTest, headers_over_the_bound_are_refused) {
  send({.url = url()});
  serve("\r\n\r\n");
  std::string many = "HTTP/1.1 200 OK\r\n";
  while (many.size() <= kMaxHttpHeaderBytes)
    many += cat("X-Long: ", std::string(1000, 'x'), "\r\n");
  reply(many);
  EXPECT_EQ(answer().code(), Code::out_of_range);
}

TEST_F(HttpTest, paths_are_sent_as_they_are) {
  send({.url = url("/a/../b//./c?x=%2F")});
  EXPECT_THAT(serve("\r\n\r\n"), HasSubstr("GET /a/../b//./c?x=%2F HTTP/1.1"));
}

TEST_F(HttpTest, connection_serves_one_request_after_another) {
  for (int i = 0; i < 3; ++i) {
    send({.url = url()});
    serve("\r\n\r\n");  // by the first connection's stream: a second would not be heard
    reply("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    EXPECT_TRUE(answer().ok());
    answers.clear();
  }
}

TEST_F(HttpTest, server_that_stands_still_is_left_before_the_timeout) {
  send({.url = url(), .timeout = std::chrono::hours(1), .stall_timeout = std::chrono::seconds(1)});
  serve("\r\n\r\n");
  reply("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  EXPECT_EQ(answer().code(), Code::timed_out);
}

TEST_F(HttpTest, urls_that_are_none_are_refused) {
  for (const char* bad : {"", "file:///etc/passwd", "http://"}) {
    answers.clear();
    send({.url = bad});
    EXPECT_EQ(answer().code(), Code::invalid_argument) << bad;
  }
}

TEST_F(HttpTest, too_many_requests_are_reported_at_once) {
  client = HttpClient::open({.max_requests = 1}).value();
  send({.url = url()});
  EXPECT_EQ(client->send({.url = url()}, [](auto) {}).code(), Code::exhausted);
}

TEST_F(HttpTest, wait_fd_wakes_for_each_step) {
  auto poller = run::Poller::open().value();
  ASSERT_TRUE(poller.add(client->wait_fd(), 0).ok());
  send({.url = url()});
  serve("\r\n\r\n");
  reply("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  while (answers.empty()) {
    (void)poller.wait(Duration::max());  // the test's watchdog ends this if nothing wakes it
    client->progress();
  }
  EXPECT_TRUE(answers[0].ok());
}

TEST(Base64Test, known_texts_both_ways) {
  for (const auto& [bytes, text] : std::vector<std::pair<std::string, std::string>>{
           {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"\xff\xfe\xfd", "//79"}}) {
    EXPECT_EQ(to_base64(as_bytes(bytes)), text);
    EXPECT_EQ(from_base64(text).value(), to_bytes(bytes));
  }
  for (const char* bad :
       {"Zg=", "Zg", "Z===", "====", "Zh==", "Zm9=", "Zg==Zg==", "Z g=", "Zm9v\n"})
    EXPECT_EQ(from_base64(bad).code(), Code::corrupt) << bad;
}

TEST_F(HttpTest, server_that_asks_for_a_certificate_and_is_shown_none_denies) {
  if (const std::string why = TestAuthorities::why_not(); !why.empty()) GTEST_SKIP() << why;
  const TestAuthorities authorities;
  const auto tls =
      TlsContext::from_certificates(authorities.issue("server", "ca", "IP:127.0.0.1")).value();
  client = HttpClient::open({.tls = {.authority_file = authorities.file("ca.pem")}}).value();
  send({.url = cat("https", url().substr(4))});
  Bytes into(4096);
  EXPECT_TRUE(eventually([&] {
    client->progress();
    if (server) {
      (void)server->read_some(into);
    } else if (sys::Fd fd = listener->accept().value()) {
      server = tls->server(sys::make_socket_stream(std::move(fd)));
    }
    return !answers.empty();
  }));
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(answers.back().code(), Code::denied) << answers.back().status().to_string();
}

}  // namespace
}  // namespace towpath::net
