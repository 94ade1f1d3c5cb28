#include <map>
#include <new>
#include <set>
#include <utility>

#include <curl/curl.h>

#include <towpath/core/format.h>
#include <towpath/net/authorities.h>
#include <towpath/net/http.h>
#include <towpath/net/http_exchange.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/sys/clock.h>

namespace towpath::net {

namespace {

constexpr std::uint64_t kTimerTag = UINT64_MAX;  // sockets have their descriptor as tag

}  // namespace

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
  std::vector<HttpId> heard;  // streams that have something to hand on
  std::map<HttpId, std::unique_ptr<HttpExchange>> exchanges;
  HttpId next = 1;
};

Status HttpClient::Engine::start() {
  // Counted and thread-safe since 7.84; there is no moment at which nobody else uses libcurl.
  if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || (multi = curl_multi_init()) == nullptr)
    return error(Code::internal, "libcurl does not start");
  curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, &Engine::watch_socket);
  curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, &Engine::set_timer);
  curl_multi_setopt(multi, CURLMOPT_TIMERDATA, this);
#if LIBCURL_VERSION_NUM >= 0x081400
  curl_multi_setopt(multi, CURLMOPT_QUICK_EXIT, 1L);  // lookups are the multi handle's from 8.20 on
#endif
  if (options.max_connections != 0) {
    const auto count = static_cast<long>(options.max_connections);
    curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, count);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, count);
  }
  return poller.add(timer.fd(), kTimerTag);
}

HttpClient::Engine::~Engine() {
  for (const auto& [id, exchange] : exchanges) curl_multi_remove_handle(multi, exchange->easy());
  exchanges.clear();
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
  bool is_watched = false;
  try {
    const bool is_new = engine.watched.insert(fd).second;
    is_watched = (is_new && engine.poller.add(fd, tag, interest).ok()) ||
                 engine.poller.modify(fd, tag, interest).ok();
  } catch (const std::bad_alloc&) {  // not through libcurl: http_exchange.h
  }
  if (!is_watched) engine.watched.erase(fd);
  return is_watched ? 0 : -1;
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
  const std::vector<HttpId> ready = std::exchange(heard, {});
  for (const HttpId id : ready) {
    const auto found = exchanges.find(id);
    if (found == exchanges.end()) continue;  // cancelled by the one before
    const auto hear = found->second->listener();
    const Status heard_it = hear(found->second->take_heard());
    const auto again = exchanges.find(id);
    if (heard_it.ok() || again == exchanges.end()) continue;
    curl_multi_remove_handle(multi, again->second->easy());
    const auto ended = exchanges.extract(again);
    ended.mapped()->answer(heard_it);
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
    const auto ended = exchanges.extract(HttpExchange::of(easy).id());
    ended.mapped()->answer(code);
    ++called;
  }
  return called;
}

HttpClient::HttpClient(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::open(HttpClientOptions options) {
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(run::TimerFd timer, run::TimerFd::open());
  if (options.tls.authority_file.empty()) options.tls.authority_file = system_authorities();
  auto engine = std::make_unique<Engine>(std::move(options), std::move(poller), std::move(timer));
  TOWPATH_TRY(engine->start());
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(engine)));
}

Result<HttpId> HttpClient::send(HttpRequest request, HttpDone done) {
  Engine& engine = *engine_;
  if (engine.exchanges.size() >= engine.options.max_requests)
    return error(Code::exhausted, cat(engine.exchanges.size(), " requests are under way"),
                 "wait for some to end, or raise max_requests");
  const HttpId id = engine.next++;
  auto exchange =
      std::make_unique<HttpExchange>(id, std::move(request), std::move(done), engine.heard);
  TOWPATH_TRY(exchange->prepare(engine.options));
  if (const CURLMcode failed = curl_multi_add_handle(engine.multi, exchange->easy());
      failed != CURLM_OK)
    return error(Code::internal, cat("libcurl takes no request: ", curl_multi_strerror(failed)));
  engine.exchanges.emplace(id, std::move(exchange));
  return id;
}

void HttpClient::cancel(HttpId request) {
  const auto found = engine_->exchanges.find(request);
  if (found == engine_->exchanges.end()) return;
  curl_multi_remove_handle(engine_->multi, found->second->easy());
  engine_->exchanges.erase(found);
}

std::size_t HttpClient::progress() {
  engine_->act();
  const std::size_t heard = engine_->hand_on_bodies();
  return heard + engine_->finish();
}

int HttpClient::wait_fd() const noexcept { return engine_->poller.fd(); }
std::size_t HttpClient::request_count() const noexcept { return engine_->exchanges.size(); }

}  // namespace towpath::net
