// For tests: a proxy in front of a store, that does to chosen requests what networks, proxies and
// busy stores do. It passes bytes on unchanged otherwise, so signatures hold.
//
//   client --- request n ---> [ fault of n? ] ---> store
//
// It moves inside of pump(), which the test calls. It knows as much of HTTP as it needs: where a
// request ends. Thread: one at a time.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <towpath/backends/object/reply.h>
#include <towpath/core/format.h>
#include <towpath/net/listener.h>
#include <towpath/sys/byte_stream.h>
#include <towpath/sys/fd.h>

namespace towpath::backends::object::testing {

struct Fault {
  enum Kind {
    none,
    answer,  ///< `text` instead of what the store would say; the store hears nothing
    cut,     ///< the connection ends after `bytes` of the answer
    stall,   ///< nothing more comes after `bytes` of the answer
  };
  Kind kind = none;
  std::size_t bytes = 0;
  std::string text;

  static Fault busy(int status, const std::string& code) {
    const std::string body = "<Error><Code>" + code + "</Code></Error>";
    return {
        .kind = answer,
        .text = cat("HTTP/1.1 ", status, " No\r\nContent-Length: ", body.size(), "\r\n\r\n", body)};
  }
};

class FaultProxy {
 public:
  explicit FaultProxy(const std::string& store_port)
      : store_port_(static_cast<std::uint16_t>(std::stoi(store_port))) {}

  std::string url() const {
    return cat("http://127.0.0.1:", std::get<net::TcpAddress>(listener_.address()).port);
  }

  /// Asked of each request, with its head and number (from 1 on).
  std::function<Fault(const std::string& head, std::size_t number)> choose = [](const auto&, auto) {
    return Fault();
  };
  /// The first lines and headers of all requests so far.
  std::vector<std::string> heads;

  void pump() {
    while (sys::Fd fd = listener_.accept().value())
      links_.push_back({.client = sys::make_socket_stream(std::move(fd)), .store = connect()});
    for (auto link = links_.begin(); link != links_.end();)
      link = pump(*link) ? std::next(link) : links_.erase(link);
  }

 private:
  struct Link {
    std::unique_ptr<sys::ByteStream> client;
    std::unique_ptr<sys::ByteStream> store;
    std::string in;          // of a request whose head is not complete
    std::uint64_t body = 0;  // of this request still to come
    std::string to_store;    // not taken yet
    std::string to_client;
    Fault fault;
    std::size_t answered = 0;  // bytes of this request's answer
  };

  std::unique_ptr<sys::ByteStream> connect() const {
    sys::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(store_port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
    return sys::make_socket_stream(std::move(fd));
  }

  static bool read(sys::ByteStream& from, std::string& into) {
    Bytes chunk(65536);
    for (;;) {
      const auto read = from.read_some(chunk);
      if (!read.ok() || read->ended) return false;
      if (read->size_bytes == 0) return true;
      into += as_text(ConstByteSpan(chunk).first(read->size_bytes));
    }
  }
  static bool write(sys::ByteStream& to, std::string& from) {
    while (!from.empty()) {
      const auto taken = to.write_some(as_bytes(from));
      if (!taken.ok()) return false;
      if (*taken == 0) return true;
      from.erase(0, *taken);
    }
    return true;
  }

  // False: the link is over.
  bool pump(Link& link) {
    if (!read(*link.client, link.in)) return false;
    take_requests(link);
    std::string answer;
    const bool store_lives = read(*link.store, answer);
    if (!pass_on(link, answer)) return false;
    return write(*link.store, link.to_store) && write(*link.client, link.to_client) && store_lives;
  }

  void take_requests(Link& link) {
    while (!link.in.empty()) {
      if (link.body == 0) {
        const auto end = link.in.find("\r\n\r\n");
        if (end == std::string::npos) return;
        begin(link, link.in.substr(0, end + 4));
        link.in.erase(0, end + 4);
      }
      const std::string part = link.in.substr(0, link.body);
      link.in.erase(0, part.size());
      link.body -= part.size();
      if (link.fault.kind != Fault::answer)
        link.to_store += part;
      else if (link.body == 0)
        link.to_client += link.fault.text;
    }
    if (link.body == 0 && link.fault.kind == Fault::answer && !link.fault.text.empty()) {
      if (link.to_client.empty()) link.to_client = link.fault.text;
      link.fault.text.clear();
    }
  }

  void begin(Link& link, const std::string& head) {
    heads.push_back(head);
    link.fault = choose(head, heads.size());
    link.answered = 0;
    const std::string folded = lower(head);
    const auto place = folded.find("content-length: ");
    link.body = 0;
    if (place != std::string::npos) {
      const auto value = folded.substr(place + 16, folded.find("\r\n", place) - place - 16);
      link.body = parse_size(value).value_or(0);
    }
    if (link.fault.kind != Fault::answer) link.to_store += head;
  }

  // False: the fault ends the link now.
  bool pass_on(Link& link, const std::string& answer) {
    const bool bounded = link.fault.kind == Fault::cut || link.fault.kind == Fault::stall;
    const std::size_t room =
        bounded ? link.fault.bytes - std::min(link.fault.bytes, link.answered) : answer.size();
    link.to_client += answer.substr(0, room);
    link.answered += answer.size();
    if (link.fault.kind != Fault::cut || link.answered < link.fault.bytes) return true;
    (void)write(*link.client, link.to_client);
    return !link.to_client.empty();
  }

  const std::uint16_t store_port_;
  net::Listener listener_ = net::Listener::listen(net::TcpAddress{"127.0.0.1", 0}).value();
  std::list<Link> links_;
};

}  // namespace towpath::backends::object::testing
