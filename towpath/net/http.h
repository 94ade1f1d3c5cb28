// HttpClient: requests over HTTP and HTTPS, many at a time, none of which blocks.
//
// It drives libcurl's multi interface from progress(), and not from a worker's blocking calls: its
// users (a rendezvous, an object store) are driven the same way, have many requests under way, and
// keep some open for hours (etcd's watch), each of which would cost a worker.
// It knows no retries, no redirects and no cookies, and heeds no environment (proxies, .netrc).
// Large bodies do not pass through memory of its own: a source is read from, and a sink written to,
// where libcurl has its buffers.
// Invariants: each request is answered once, unless it is cancelled or the client dies; a response
// is bounded; nothing is called back from where it was asked. After cancel(), and after the answer,
// neither source nor sink is touched. Names are looked up on a thread that libcurl makes and ends;
// what ends a request does not wait for it, unless libcurl is older than 7.87.
// Timeouts run on real time.
// Thread: one at a time. Callbacks run inside progress(), and may call everything but progress().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/clock.h>
#include <towpath/core/result.h>

namespace towpath::net {

/// For https://; the files are PEM. Nothing: the system's authorities, and no certificate of ours.
struct TlsOptions {
  std::string authority_file;    ///< whom to trust in place of the system's
  std::string certificate_file;  ///< who we are
  std::string key_file;
  bool verify = true;  ///< false: whoever answers is believed, and hears our secrets
};

struct HttpClientOptions {
  std::size_t max_requests = 256;                       ///< at a time
  std::size_t max_connections = 0;                      ///< at a time, idle ones too; 0: libcurl's
  std::size_t buffer_bytes = 0;                         ///< of a connection; 0: libcurl's 16 KiB
  std::size_t max_body_bytes = std::size_t{16} << 20U;  ///< of a response; of a stream: unread
  Duration connect_timeout = std::chrono::seconds(3);
  TlsOptions tls;
  std::string user;  ///< for basic authentication; empty: none
  std::string password;
};

/// Where a request's body comes from. Its owner keeps it until the answer.
class HttpSource {
 public:
  virtual ~HttpSource() = default;
  virtual std::uint64_t size_bytes() const = 0;
  /// Fills `into` with the bytes from `offset` on; both lie within size_bytes(). The same place may
  /// be asked for again: libcurl sends a body anew when a kept connection turns out to be dead.
  virtual void read(std::uint64_t offset, ByteSpan into) = 0;
};

struct HttpResponse;

/// Where the body of a response of status 2xx goes. Its owner keeps it until the answer. It must
/// not call the client. A failure ends the request with it.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  /// Status and headers have come, and no body yet.
  virtual Status begin(const HttpResponse& head) = 0;
  virtual Status take(ConstByteSpan bytes) = 0;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers;  ///< "Name: value"
  std::string body;
  HttpSource* source = nullptr;                 ///< in place of `body`
  HttpSink* sink = nullptr;                     ///< then a response of status 2xx holds no body
  Duration timeout = std::chrono::seconds(30);  ///< of all of it; zero: none, for a stream
  Duration stall_timeout = Duration::zero();    ///< without a byte either way; zero: none
  /// Hears the body as it comes; then the response holds none. A failure ends the request with it.
  std::function<Status(ConstByteSpan)> on_body = nullptr;
};

struct HttpHeader {
  std::string name;  ///< lower case
  std::string value;
};

struct HttpResponse {
  int status = 0;
  std::vector<HttpHeader> headers;
  Bytes body;

  /// The first one of this name (lower case); empty when there is none.
  std::string_view header(std::string_view name) const noexcept;
};
inline constexpr std::size_t kMaxHttpHeaderBytes = std::size_t{64} << 10U;  ///< of a response

/// A response of any status. Errors: unavailable (nobody answers), timed_out, denied (TLS: one does
/// not trust the other), out_of_range (the body or its headers are too large), invalid_argument (no
/// URL), exhausted (no memory).
using HttpDone = std::function<void(Result<HttpResponse>)>;
using HttpId = std::uint64_t;

class HttpClient {
 public:
  /// Errors: exhausted (no descriptor is free), internal (libcurl does not start).
  static Result<std::unique_ptr<HttpClient>> open(HttpClientOptions options = {});
  /// Forgets all requests.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Errors: exhausted (too many requests, no memory), invalid_argument (libcurl does not take it).
  Result<HttpId> send(HttpRequest request, HttpDone done);
  /// `done` is not called any more. An unknown or answered request is no error.
  void cancel(HttpId request);

  /// Returns how many callbacks were called.
  std::size_t progress();
  /// Readable when progress() has something to do.
  int wait_fd() const noexcept;
  std::size_t request_count() const noexcept;

 private:
  struct Engine;
  explicit HttpClient(std::unique_ptr<Engine> engine);

  std::unique_ptr<Engine> engine_;
};

}  // namespace towpath::net
