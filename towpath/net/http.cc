#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <curl/curl.h>

#include <towpath/core/text.h>
#include <towpath/net/http.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/sys/clock.h>

namespace towpath::net {

namespace {

constexpr std::uint64_t kTimerTag = UINT64_MAX;  // sockets have their descriptor as tag

struct EasyEnds {
  void operator()(CURL* easy) const noexcept { curl_easy_cleanup(easy); }
};
struct ListEnds {
  void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
};

long milliseconds(Duration duration) {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

Code code_of(CURLcode failed) {
  switch (failed) {
    case CURLE_OPERATION_TIMEDOUT: return Code::timed_out;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR: return Code::denied;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL: return Code::invalid_argument;
    case CURLE_OUT_OF_MEMORY: return Code::exhausted;
    default: return Code::unavailable;
  }
}

std::string_view remedy_of(Code code) {
  switch (code) {
    case Code::denied: return "look at the certificates: authority, names, dates, and ours";
    case Code::invalid_argument: return "write http://host:port/path or https://host:port/path";
    default: return "see whether the server runs, and whether it can be reached from here";
  }
}

}  // namespace

/// A request under way. Its address is libcurl's, so it stays where it is.
struct Transfer {
  HttpRequest request;
  HttpDone done;
  std::size_t max_body_bytes = 0;
  std::unique_ptr<CURL, EasyEnds> easy;
  std::unique_ptr<curl_slist, ListEnds> headers;
  Bytes body;      // what has come and was not handed on
  Status failure;  // our own verdict; libcurl then only says that writing failed
  std::array<char, CURL_ERROR_SIZE> why{};

  void prepare(const HttpClientOptions& options);
  void prepare_trust(const HttpClientOptions& options);
  Result<HttpResponse> outcome(CURLcode code);
  static std::size_t take_body(char* data, std::size_t one, std::size_t size, void* self);
};

struct HttpClient::Engine {
  Engine(HttpClientOptions wanted, run::Poller made_poller, run::TimerFd made_timer)
      : options(std::move(wanted)), poller(std::move(made_poller)), timer(std::move(made_timer)) {}
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Status start();
  void act();
  std::size_t hand_on_bodies();
  std::size_t finish();
  static int watch_socket(CURL* easy, curl_socket_t fd, int what, void* self, void* unused);
  static int set_timer(CURLM* multi, long timeout_ms, void* self);

  HttpClientOptions options;
  run::Poller poller;
  run::TimerFd timer;
  sys::SystemClock clock;  // what the timer and libcurl run on
  CURLM* multi = nullptr;
  std::set<int> watched;
  std::map<HttpId, std::unique_ptr<Transfer>> transfers;
  HttpId next = 1;
};

void Transfer::prepare(const HttpClientOptions& options) {
  CURL* it = easy.get();
  curl_easy_setopt(it, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(it, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(it, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(it, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(it, CURLOPT_PROXY, "");  // else the environment's
  curl_easy_setopt(it, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(it, CURLOPT_TCP_KEEPIDLE, 10L);
  curl_easy_setopt(it, CURLOPT_TCP_KEEPINTVL, 5L);
  curl_easy_setopt(it, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (!request.body.empty()) {
    curl_easy_setopt(it, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(it, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }
  // Without it large bodies wait a second for a "100 Continue" that few servers send.
  headers.reset(curl_slist_append(nullptr, "Expect:"));
  for (const std::string& header : request.headers)
    headers.reset(curl_slist_append(headers.release(), header.c_str()));
  curl_easy_setopt(it, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(it, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options.connect_timeout));
  curl_easy_setopt(it, CURLOPT_TIMEOUT_MS, milliseconds(request.timeout));
  curl_easy_setopt(it, CURLOPT_ERRORBUFFER, why.data());
  curl_easy_setopt(it, CURLOPT_WRITEFUNCTION, &Transfer::take_body);
  curl_easy_setopt(it, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(it, CURLOPT_PRIVATE, this);
  prepare_trust(options);
}

void Transfer::prepare_trust(const HttpClientOptions& options) {
  const auto set = [&](CURLoption option, const std::string& value) {
    if (!value.empty()) curl_easy_setopt(easy.get(), option, value.c_str());
  };
  set(CURLOPT_CAINFO, options.tls.authority_file);
  set(CURLOPT_SSLCERT, options.tls.certificate_file);
  set(CURLOPT_SSLKEY, options.tls.key_file);
  set(CURLOPT_USERNAME, options.user);
  set(CURLOPT_PASSWORD, options.password);
}

std::size_t Transfer::take_body(char* data, std::size_t one, std::size_t size, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  if (size > transfer.max_body_bytes - transfer.body.size()) {
    transfer.failure = error(Code::out_of_range, cat("more than ", transfer.max_body_bytes,
                                                     " bytes came from ", transfer.request.url));
    return 0;
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  transfer.body.insert(transfer.body.end(), bytes, bytes + size);
  return one * size;
}

Result<HttpResponse> Transfer::outcome(CURLcode code) {
  if (!failure.ok()) return failure;
  if (code != CURLE_OK) {
    const Code ours = code_of(code);
    return error(ours,
                 cat(request.method, " ", printable(request.url, 200), ": ",
                     why[0] != '\0' ? why.data() : curl_easy_strerror(code)),
                 std::string(remedy_of(ours)));
  }
  long status = 0;
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  return HttpResponse{.status = static_cast<int>(status), .body = std::move(body)};
}

Status HttpClient::Engine::start() {
  // Counted and thread-safe since 7.84; there is no moment at which nobody else uses libcurl.
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || (multi = curl_multi_init()) == nullptr)
    return error(Code::internal, "libcurl does not start");
  curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, &Engine::watch_socket);
  curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, &Engine::set_timer);
  curl_multi_setopt(multi, CURLMOPT_TIMERDATA, this);
  return poller.add(timer.fd(), kTimerTag);
}

HttpClient::Engine::~Engine() {
  for (const auto& [id, transfer] : transfers)
    curl_multi_remove_handle(multi, transfer->easy.get());
  transfers.clear();
  if (multi != nullptr) curl_multi_cleanup(multi);
}

int HttpClient::Engine::watch_socket(CURL*, curl_socket_t fd, int what, void* self, void*) {
  auto& engine = *static_cast<Engine*>(self);
  if (what == CURL_POLL_REMOVE) {
    if (engine.watched.erase(fd) > 0) (void)engine.poller.remove(fd);
    return 0;
  }
  const run::Interest interest{.readable = (what & CURL_POLL_IN) != 0,
                               .writable = (what & CURL_POLL_OUT) != 0};
  const auto tag = static_cast<std::uint64_t>(fd);
  if (!engine.watched.contains(fd) && engine.poller.add(fd, tag, interest).ok()) {
    engine.watched.insert(fd);
    return 0;
  }
  return engine.poller.modify(fd, tag, interest).ok() ? 0 : -1;
}

int HttpClient::Engine::set_timer(CURLM*, long timeout_ms, void* self) {
  auto& engine = *static_cast<Engine*>(self);
  engine.timer.arm(timeout_ms < 0 ? Instant::never()
                                  : engine.clock.now() + std::chrono::milliseconds(timeout_ms));
  return 0;
}

void HttpClient::Engine::act() {
  int running = 0;
  // Copied: libcurl adds and removes sockets while it acts.
  const auto ready = poller.wait(Duration::zero());
  for (const run::PollEvent& event : std::vector<run::PollEvent>(ready.begin(), ready.end())) {
    if (event.tag == kTimerTag) {
      timer.clear();
      curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
      continue;
    }
    const int what = (event.readable ? CURL_CSELECT_IN : 0) |
                     (event.writable ? CURL_CSELECT_OUT : 0) |
                     (event.broken ? CURL_CSELECT_ERR : 0);
    curl_multi_socket_action(multi, static_cast<curl_socket_t>(event.tag), what, &running);
  }
}

// Outside libcurl's own callbacks, in which a request must not be cancelled.
std::size_t HttpClient::Engine::hand_on_bodies() {
  std::vector<HttpId> ready;
  for (const auto& [id, transfer] : transfers)
    if (transfer->request.on_body && !transfer->body.empty()) ready.push_back(id);
  for (const HttpId id : ready) {
    const auto found = transfers.find(id);
    if (found == transfers.end()) continue;  // cancelled by the one before
    const auto hear = found->second->request.on_body;
    const Bytes body = std::exchange(found->second->body, {});
    const Status heard = hear(body);
    const auto again = transfers.find(id);
    if (heard.ok() || again == transfers.end()) continue;
    curl_multi_remove_handle(multi, again->second->easy.get());
    const auto ended = transfers.extract(again);
    ended.mapped()->done(heard);
  }
  return ready.size();
}

std::size_t HttpClient::Engine::finish() {
  std::size_t called = 0;
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    CURL* easy = message->easy_handle;
    const CURLcode code = message->data.result;
    curl_multi_remove_handle(multi, easy);
    const auto found = std::ranges::find_if(
        transfers, [&](const auto& each) { return each.second->easy.get() == easy; });
    if (found == transfers.end()) continue;
    const auto ended = transfers.extract(found);
    ended.mapped()->done(ended.mapped()->outcome(code));
    ++called;
  }
  return called;
}

HttpClient::HttpClient(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::open(HttpClientOptions options) {
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  auto engine = std::make_unique<Engine>(std::move(options), std::move(poller), std::move(timer));
  TOWPATH_TRY(engine->start());
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(engine)));
}

Result<HttpId> HttpClient::send(HttpRequest request, HttpDone done) {
  Engine& engine = *engine_;
  if (engine.transfers.size() >= engine.options.max_requests)
    return error(Code::exhausted, cat(engine.transfers.size(), " requests are under way"),
                 "wait for some to end, or raise max_requests");
  auto transfer = std::make_unique<Transfer>();
  transfer->request = std::move(request);
  transfer->done = std::move(done);
  transfer->max_body_bytes = engine.options.max_body_bytes;
  transfer->easy.reset(curl_easy_init());
  if (!transfer->easy) return error(Code::exhausted, "libcurl has no memory for a request");
  transfer->prepare(engine.options);
  if (const CURLMcode failed = curl_multi_add_handle(engine.multi, transfer->easy.get());
      failed != CURLM_OK)
    return error(Code::internal, cat("libcurl takes no request: ", curl_multi_strerror(failed)));
  engine.transfers.emplace(engine.next, std::move(transfer));
  return engine.next++;
}

void HttpClient::cancel(HttpId request) {
  const auto found = engine_->transfers.find(request);
  if (found == engine_->transfers.end()) return;
  curl_multi_remove_handle(engine_->multi, found->second->easy.get());
  engine_->transfers.erase(found);
}

std::size_t HttpClient::progress() {
  engine_->act();
  const std::size_t heard = engine_->hand_on_bodies();
  return heard + engine_->finish();
}

int HttpClient::wait_fd() const noexcept { return engine_->poller.fd(); }
std::size_t HttpClient::request_count() const noexcept { return engine_->transfers.size(); }

}  // namespace towpath::net
