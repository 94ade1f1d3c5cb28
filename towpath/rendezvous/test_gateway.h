// For tests: an etcd's gateway that a test answers by hand, at an address of its own.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/net/listener.h>
#include <towpath/sys/byte_stream.h>

namespace towpath::rendezvous {

class TestGateway {
 public:
  /// One that has come whole.
  struct Request {
    std::size_t connection = 0;
    std::string path;
    std::string body;
  };

  std::string url() const {
    return cat("http://127.0.0.1:", std::get<net::TcpAddress>(listener_.address()).port);
  }
  /// One that was not taken yet, if there is one; with a path: of that path.
  std::optional<Request> take(std::string_view path = {}) {
    accept();
    for (std::size_t i = 0; i < connections_.size(); ++i) read(i);
    const auto found =
        std::find_if(requests_.begin(), requests_.end(),
                     [&](const Request& request) { return path.empty() || request.path == path; });
    if (found == requests_.end()) return std::nullopt;
    std::optional<Request> taken = std::move(*found);
    requests_.erase(found);
    return taken;
  }
  void reply(const Request& to, std::string_view body, int status = 200) {
    write(to, cat("HTTP/1.1 ", status, " .\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  }
  /// The answer is what say() says from now on, until hang_up() breaks it off.
  void begin_stream(const Request& to) {
    write(to, "HTTP/1.1 200 .\r\nContent-Length: 1000000\r\n\r\n");
  }
  void say(const Request& to, std::string_view text) { write(to, text); }
  void hang_up(const Request& to) { connections_.at(to.connection).stream.reset(); }

 private:
  struct Connection {
    std::unique_ptr<sys::ByteStream> stream;  // null: it is closed
    std::string heard;
  };

  void accept() {
    while (sys::Fd fd = listener_.accept().value())
      connections_.push_back({sys::make_socket_stream(std::move(fd)), {}});
  }
  void read(std::size_t index) {
    Connection& from = connections_[index];
    Bytes chunk(4096);
    while (from.stream) {
      const auto read = from.stream->read_some(chunk);
      if (!read.ok() || read->ended) from.stream.reset();
      if (!read.ok() || read->size_bytes == 0) break;
      from.heard += as_text(ConstByteSpan(chunk).first(read->size_bytes));
    }
    while (auto request = first_request(from.heard)) {
      request->connection = index;
      requests_.push_back(*std::move(request));
    }
  }
  /// Taken out of `heard`, once it is whole.
  static std::optional<Request> first_request(std::string& heard) {
    constexpr std::string_view kLength = "Content-Length: ";
    const std::size_t end = heard.find("\r\n\r\n");
    if (end == std::string::npos) return std::nullopt;
    std::size_t size = 0;
    if (const std::size_t at = heard.find(kLength); at < end)
      std::from_chars(heard.data() + at + kLength.size(), heard.data() + end, size);
    if (heard.size() < end + 4 + size) return std::nullopt;
    const std::size_t path = heard.find(' ') + 1;
    Request request{.path = heard.substr(path, heard.find(' ', path) - path),
                    .body = heard.substr(end + 4, size)};
    heard.erase(0, end + 4 + size);
    return request;
  }
  void write(const Request& to, std::string_view text) {
    Connection& connection = connections_.at(to.connection);
    ASSERT_TRUE(connection.stream) << "the client has closed it";
    EXPECT_EQ(connection.stream->write_some(as_bytes(text)).value(), text.size());
  }

  net::Listener listener_ = net::Listener::listen(net::TcpAddress{"127.0.0.1", 0}).value();
  std::vector<Connection> connections_;
  std::deque<Request> requests_;
};

}  // namespace towpath::rendezvous
