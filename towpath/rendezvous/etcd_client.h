// etcd::Client: calls to an etcd's JSON gateway: which of its endpoints answers, and who we are
// there.
//
// It logs in by itself, again when its token has expired, and goes on to the next endpoint when one
// does not answer, or with a failure of its own. It keeps nothing else and repeats nothing else:
// that is EtcdRendezvous. A stream that breaks, or whose endpoint is left, ends: only its owner
// knows from where on it is wanted again.
// Invariants: each call is answered once, unless it is cancelled or the client dies; never from
// where it was made.
// Thread: one at a time. Callbacks run inside progress().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/net/http.h>
#include <towpath/rendezvous/etcd_messages.h>

namespace towpath::rendezvous::etcd {

struct ClientOptions {
  std::vector<std::string> endpoints;  ///< "http://host:port" or "https://..."; at least one
  Login login;                         ///< without a user: none
  net::TlsOptions tls;
  Duration connect_timeout = std::chrono::seconds(2);
  Duration call_timeout = std::chrono::seconds(5);
  std::size_t max_reply_bytes = std::size_t{16} << 20U;
  std::size_t max_requests = 256;  ///< at a time; a stream is one
};

using CallId = std::uint64_t;
/// The body of a good answer. Errors: unavailable (no endpoint answers), timed_out, denied (login
/// or TLS), corrupt, and parse_failure()'s.
using CallDone = std::function<void(Result<std::string> body)>;
/// Hears a line of a stream. A failure ends the stream with it.
using LineHeard = std::function<Status(std::string_view line)>;

class Client {
 public:
  /// Errors: invalid_argument (no endpoints), HttpClient::open's.
  static Result<std::unique_ptr<Client>> open(ClientOptions options);

  /// `turn`: how long an endpoint may take until the next is asked, where there is one; zero:
  /// call_timeout.
  CallId call(Call what, CallDone done, Duration turn = Duration::zero());
  /// Open until it fails or is cancelled; an end without a reason is reported as unavailable.
  CallId stream(Call what, LineHeard line, CallDone ended);
  /// An unknown or answered call is no error.
  void cancel(CallId call);

  std::size_t progress();
  int wait_fd() const noexcept { return http_->wait_fd(); }
  /// The endpoint that is asked next; for messages.
  const std::string& endpoint() const noexcept { return options_.endpoints[endpoint_]; }

 private:
  struct Job {
    Call what;
    CallDone done;
    LineHeard line;         // of a stream
    std::string half_line;  // what has come of the next one
    net::HttpId http = 0;
    std::size_t endpoint = 0;  // that it was sent to
    std::size_t endpoints_left = 0;
    bool may_log_in = true;  // again, if the token turns out to have expired
    Duration turn{0};
  };
  Client(ClientOptions options, std::unique_ptr<net::HttpClient> http)
      : options_(std::move(options)), http_(std::move(http)) {}

  CallId begin(Job job);
  void post(CallId id, Job& job);
  Duration timeout_of(const Job& job) const;
  void answered(CallId id, const Result<net::HttpResponse>& response);
  void leave(std::size_t endpoint);
  void end(CallId id, Result<std::string> body);
  Status hear(CallId id, ConstByteSpan bytes);
  bool needs_login() const { return !options_.login.user.empty() && token_.empty(); }
  void log_in();
  void logged_in(const Result<std::string>& body);

  ClientOptions options_;
  std::unique_ptr<net::HttpClient> http_;
  std::map<CallId, Job> jobs_;
  CallId next_ = 1;
  std::size_t endpoint_ = 0;
  std::string token_;
  CallId login_ = 0;  // under way
  // Could not even be sent, or are streams of an endpoint that was left; reported by progress().
  std::vector<std::pair<CallId, Status>> ended_;
};

}  // namespace towpath::rendezvous::etcd
