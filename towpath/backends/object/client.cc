#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <towpath/backends/object/client.h>
#include <towpath/backends/object/reply.h>
#include <towpath/backends/object/xml.h>
#include <towpath/core/format.h>
#include <towpath/net/base64.h>
#include <towpath/net/digest.h>
#include <towpath/sys/random.h>

namespace towpath::backends::object {
namespace {

constexpr std::uint64_t kSliceBytes = 512 * 1024;  // digested in one progress()
constexpr std::size_t kReadAtOnce = 64 * 1024;
constexpr std::size_t kBufferBytes = 256 * 1024;   // of a connection
constexpr std::size_t kMaxReplyBytes = 1U << 20U;  // of what is no object's body

enum class Stage { ready, digesting, sent, later };

std::uint64_t next_random(std::uint64_t& state) {  // xorshift64: good enough for jitter
  state ^= state << 13U;
  state ^= state >> 7U;
  state ^= state << 17U;
  return state;
}

std::string describe(const Ask& what) {
  return what.name.key.empty() ? cat(what.method, " bucket ", printable(what.name.bucket))
                               : cat(what.method, " ", to_string(what.name));
}

/// A store may find out that it failed after it has said 200.
bool says_error(const net::HttpResponse& response) {
  const auto xml = parse_xml(as_text(response.body));
  return xml.ok() && xml->name == "Error";
}

Duration asked_for(const net::HttpResponse& response) {
  return std::chrono::seconds(
      std::min<std::uint64_t>(parse_size(response.header("retry-after")).value_or(0), 3600));
}

}  // namespace

Counters::Counters(telemetry::Metrics* metrics, std::string_view agent)
    : OperationCounters(metrics, {.backend = "object", .agent = agent, .paths = {}}),
      requests(counter("requests_total")),
      retries(counter("retries_total")),
      gap_bytes(counter("gap_bytes_total")),
      uploads(counter("multipart_uploads_total")),
      aborts(counter("aborted_uploads_total")),
      in_flight(gauge("requests_in_flight")) {}

std::string Counters::to_string() const {
  return cat(moved_to_string(), "; ", requests.value(), " requests, ", retries.value(),
             " of them again; ", gap_bytes.value(), " B read between extents; ", uploads.value(),
             " uploads in parts, ", aborts.value(), " of them aborted");
}

struct Client::Asked {
  AskId id = 0;
  Ask what;
  AskDone done;
  Stage stage = Stage::ready;
  std::uint32_t attempts = 0;
  net::HttpId http = 0;
  // Of the body, once it is known.
  std::optional<net::Digest> digest;
  net::Sha256 sha256;
  std::uint64_t digested = 0;
};

Client::Client(const BackendOptions& options, const Clock& clock, Counters& counters,
               telemetry::Log log, std::unique_ptr<net::HttpClient> http, run::Poller poller,
               run::TimerFd timer)
    : options_(options),
      clock_(clock),
      counters_(counters),
      log_(std::move(log)),
      http_(std::move(http)),
      poller_(std::move(poller)),
      timer_(std::move(timer)),
      random_(sys::random_u64()) {}

Client::~Client() {
  for (const auto& [id, asked] : asked_) {
    if (asked->stage == Stage::sent) counters_.in_flight.subtract(1);
  }
}

Result<std::unique_ptr<Client>> Client::open(const BackendOptions& options, const Clock& clock,
                                             Counters& counters, telemetry::Log log) {
  TOWPATH_TRY(auto http, net::HttpClient::open({.max_requests = options.connections,
                                                .max_connections = options.connections,
                                                .buffer_bytes = kBufferBytes,
                                                .max_body_bytes = kMaxReplyBytes,
                                                .tls = options.tls}));
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  TOWPATH_TRY(poller.add(http->wait_fd(), 0));
  TOWPATH_TRY(poller.add(timer.fd(), 1));
  return std::unique_ptr<Client>(new Client(options, clock, counters, std::move(log),
                                            std::move(http), std::move(poller), std::move(timer)));
}

// ---- What users call

AskId Client::ask(Ask what, AskDone done) {
  auto asked = std::make_unique<Asked>();
  asked->what = std::move(what);
  asked->done = std::move(done);
  const AskId id = next_++;
  asked->id = id;
  asked_.emplace(id, std::move(asked));
  ready_.push_back(id);
  start_ready();
  arm();
  return id;
}

void Client::cancel(AskId id) {
  const auto found = asked_.find(id);
  if (found == asked_.end()) return;
  const Asked& asked = *found->second;
  if (asked.stage == Stage::sent) {
    http_->cancel(asked.http);
    counters_.in_flight.subtract(1);
  }
  if (asked.stage == Stage::sent || asked.stage == Stage::digesting) --under_way_;
  std::erase(ready_, id);
  std::erase(digesting_, id);
  std::erase_if(later_, [id](const auto& entry) { return entry.second == id; });
  std::erase_if(refused_, [id](const auto& entry) { return entry.first == id; });
  asked_.erase(found);
  start_ready();
  arm();
}

bool Client::progress() {
  wake_due();
  std::size_t worked = http_->progress();
  for (const auto& [id, why] : std::exchange(refused_, {})) {
    ++worked;
    if (asked_.contains(id)) answered(id, why);
  }
  start_ready();
  const bool digests = digest_slice();
  arm();
  return worked > 0 || digests;
}

// ---- The way of a request

void Client::start_ready() {
  while (under_way_ < options_.connections && !ready_.empty()) {
    const AskId id = ready_.front();
    ready_.pop_front();
    Asked& asked = *asked_.at(id);
    ++under_way_;
    const bool large = asked.what.source != nullptr;
    if (large && !asked.digest && (options_.sign_payload || asked.what.put_checksum)) {
      asked.stage = Stage::digesting;
      digesting_.push_back(id);
      continue;
    }
    send(asked);
  }
}

bool Client::digest_slice() {
  if (digesting_.empty()) return false;
  Asked& asked = *asked_.at(digesting_.front());
  net::HttpSource& source = *asked.what.source;
  std::array<std::byte, kReadAtOnce> buffer;
  const std::uint64_t end = std::min(source.size_bytes(), asked.digested + kSliceBytes);
  while (asked.digested < end) {
    const ByteSpan part(buffer.data(),
                        std::min<std::uint64_t>(buffer.size(), end - asked.digested));
    source.read(asked.digested, part);
    asked.sha256.add(part);
    asked.digested += part.size();
  }
  if (asked.digested < source.size_bytes()) return true;
  asked.digest = asked.sha256.finish();
  digesting_.pop_front();
  send(asked);
  return true;
}

void Client::send(Asked& asked) {
  if (asked.attempts > 0 && asked.what.renew) asked.what.renew(asked.what);
  ++asked.attempts;
  asked.stage = Stage::sent;
  counters_.requests.add();
  counters_.in_flight.add(1);
  const auto sent =
      http_->send(request_of(asked), [this, id = asked.id](Result<net::HttpResponse> response) {
        answered(id, std::move(response));
      });
  if (sent.ok())
    asked.http = *sent;
  else
    refused_.emplace_back(asked.id, sent.status());
}

net::HttpRequest Client::request_of(const Asked& asked) const {
  const Ask& what = asked.what;
  const Target target = options_.store.target(what.name);
  const Scope scope{.time = amazon_time(clock_.since_epoch()), .region = options_.region};
  SignedParts parts{
      .method = what.method, .path = target.path, .query = what.query, .headers = what.headers};
  parts.headers.emplace_back("host", target.host);
  if (what.put_checksum && asked.digest)
    parts.headers.emplace_back("x-amz-checksum-sha256", net::to_base64(*asked.digest));
  if (what.source == nullptr)
    parts.payload_hash = net::to_hex(net::sha256(as_bytes(what.body)));
  else
    parts.payload_hash =
        options_.sign_payload ? net::to_hex(*asked.digest) : std::string(kUnsignedPayload);

  const Credentials& who = options_.credentials;
  const bool anonymous = who.access_key.empty();
  if (!anonymous) {
    parts.headers.emplace_back("x-amz-date", scope.time);
    parts.headers.emplace_back("x-amz-content-sha256", parts.payload_hash);
    if (!who.session_token.empty())
      parts.headers.emplace_back("x-amz-security-token", who.session_token.reveal());
  }
  const std::string query = canonical_query(what.query);
  net::HttpRequest request{.method = what.method,
                           .url = cat(options_.store.scheme, "://", target.host, target.path,
                                      query.empty() ? "" : "?", query),
                           .body = what.body,
                           .source = what.source,
                           .sink = what.sink,
                           .timeout = options_.timeout,
                           .stall_timeout = options_.stall_timeout};
  for (const auto& [name, value] : parts.headers) request.headers.push_back(cat(name, ": ", value));
  if (!anonymous)
    request.headers.push_back(cat("authorization: ", authorization(parts, scope, who)));
  return request;
}

void Client::answered(AskId id, Result<net::HttpResponse> response) {
  Asked& asked = *asked_.at(id);
  counters_.in_flight.subtract(1);
  if (!response.ok()) {
    if (is_worth_a_retry(response.status()) &&
        try_again(asked, response.status(), Duration::zero()))
      return;
    return finish(id, reported(asked, response.status()));
  }
  if (response->status / 100 == 2 && !says_error(*response)) return finish(id, std::move(response));
  const StoreError said = read_error(*response);
  const Status why = status_of(said, describe(asked.what));
  if (is_worth_a_retry(said) && try_again(asked, why, asked_for(*response))) return;
  finish(id, reported(asked, why));
}

bool Client::try_again(Asked& asked, const Status& why, Duration asked_for) {
  if (!options_.retry.allows_another(asked.attempts)) return false;
  const Duration delay = options_.retry.delay(asked.attempts, next_random(random_), asked_for);
  log_.debug("a request is sent again",
             {{"why", why.to_string()}, {"attempts", cat(asked.attempts)}});
  counters_.retries.add();
  asked.stage = Stage::later;
  --under_way_;
  later_.emplace(clock_.now() + delay, asked.id);
  return true;
}

void Client::finish(AskId id, Result<net::HttpResponse> response) {
  const auto ended = asked_.extract(id);
  --under_way_;
  ended.mapped()->done(std::move(response));
}

Status Client::reported(const Asked& asked, const Status& why) const {
  std::string message(why.message());
  if (asked.attempts > 1) message += cat("; asked ", asked.attempts, " times");
  if (why.code() == Code::denied && options_.credentials.access_key.empty())
    message += "; without credentials";
  return error(why.code(), std::move(message), std::string(why.hint())).because(why.cause());
}

// ---- Time

void Client::wake_due() {
  const Instant now = clock_.now();
  while (!later_.empty() && later_.begin()->first <= now) {
    const AskId id = later_.begin()->second;
    later_.erase(later_.begin());
    asked_.at(id)->stage = Stage::ready;
    ready_.push_back(id);
  }
}

// Work that waits for nobody makes wait_fd() readable at once, a delay when it is over.
void Client::arm() {
  const bool now = !digesting_.empty() || !refused_.empty();
  timer_.arm(now ? clock_.now() : later_.empty() ? Instant::never() : later_.begin()->first);
}

}  // namespace towpath::backends::object
