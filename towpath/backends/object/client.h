// Client: requests to one store: signed, so many at a time, asked again where that may help.
//
//   ask() --> waiting its turn --> digesting its body --> sent --> answered --> done(response)
//                    ^                                     |  503, cut, timed out ...
//                    +------ after a delay that doubles ---+
//
// It knows buckets, keys and requests, and nothing of memory or transfers.
// Invariants: each request is answered once, unless it is cancelled or the client dies; after
// cancel(), and after the answer, its source and its sink are not touched. `done` is called in
// progress() alone, and may call everything but progress(). Credentials are never reported.
// Thread: one at a time. No thread of its own: progress() does the work, wait_fd() reports when.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/backend/operation_counters.h>
#include <towpath/backends/object/options.h>
#include <towpath/core/transfer_state.h>
#include <towpath/net/http.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/telemetry/log.h>

namespace towpath::backends::object {

/// What really happened, counted where it happened. Published as metrics named towpath_object_*.
/// Thread: any (each is a number of its own).
class Counters : public backend::OperationCounters {
 public:
  /// As OperationCounters.
  explicit Counters(telemetry::Metrics* metrics = nullptr, std::string_view agent = {});

  telemetry::Counter& requests;   ///< sent, repeated ones included
  telemetry::Counter& retries;    ///< requests that were sent again
  telemetry::Counter& gap_bytes;  ///< read between extents, and thrown away
  telemetry::Counter& uploads;    ///< in parts
  telemetry::Counter& aborts;     ///< of those, given up and taken back
  telemetry::Gauge& in_flight;    ///< requests under way

  telemetry::Counter& moved(TransferOp op) noexcept {
    return OperationCounters::moved(op == TransferOp::write);
  }

  /// "4096 B read, 0 B written; 3 requests, 1 of them again ...".
  std::string to_string() const;
};

/// One request, as it is asked.
struct Ask {
  std::string method;
  ObjectName name;                 ///< an empty key: the bucket
  std::vector<NameValue> query;    ///< unencoded
  std::vector<NameValue> headers;  ///< names in lower case; all are signed
  std::string body;
  net::HttpSource* source = nullptr;  ///< in place of `body`; must give the same bytes every time
  net::HttpSink* sink = nullptr;
  bool put_checksum = false;  ///< the store shall keep the body's SHA-256
  /// Called before the request is sent again: a read goes on where it stopped.
  std::function<void(Ask&)> renew = nullptr;
};

/// A response of status 2xx. Errors: what status_of() makes of the store's; unavailable, timed_out
/// (no answer, however often it was asked); what the sink said.
using AskDone = std::function<void(Result<net::HttpResponse>)>;
using AskId = std::uint64_t;

class Client {
 public:
  /// `clock`, `counters` outlive it. Errors: the HttpClient's.
  static Result<std::unique_ptr<Client>> open(const BackendOptions& options, const Clock& clock,
                                              Counters& counters, telemetry::Log log);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  AskId ask(Ask what, AskDone done);
  /// An unknown or answered request is no error.
  void cancel(AskId id);

  /// As Backend::progress(). Digests at most a slice of a body.
  bool progress();
  int wait_fd() const noexcept { return poller_.fd(); }
  /// Requests that are not answered.
  std::size_t size() const noexcept { return asked_.size(); }
  const BackendOptions& options() const noexcept { return options_; }

 private:
  struct Asked;
  using AskedMap = std::map<AskId, std::unique_ptr<Asked>>;

  Client(const BackendOptions& options, const Clock& clock, Counters& counters, telemetry::Log log,
         std::unique_ptr<net::HttpClient> http, run::Poller poller, run::TimerFd timer);
  void start_ready();
  bool digest_slice();
  void wake_due();
  void arm();
  void send(Asked& asked);
  net::HttpRequest request_of(const Asked& asked) const;
  void answered(AskId id, Result<net::HttpResponse> response);
  bool try_again(Asked& asked, const Status& why, Duration asked_for);
  void finish(AskId id, Result<net::HttpResponse> response);
  Status reported(const Asked& asked, const Status& why) const;

  const BackendOptions options_;
  const Clock& clock_;
  Counters& counters_;
  const telemetry::Log log_;
  std::unique_ptr<net::HttpClient> http_;
  run::Poller poller_;
  run::TimerFd timer_;
  std::uint64_t random_;
  AskId next_ = 1;
  std::size_t under_way_ = 0;  // being digested or sent: at most options_.connections
  AskedMap asked_;
  std::deque<AskId> ready_;
  std::deque<AskId> digesting_;
  std::multimap<Instant, AskId> later_;
  std::vector<std::pair<AskId, Status>> refused_;  // by libcurl, at once
};

}  // namespace towpath::backends::object
