#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/rendezvous/etcd_client.h>

namespace towpath::rendezvous::etcd {

namespace {

constexpr std::string_view kLoginPath = "/v3/auth/authenticate";

bool is_out_of_reach(Code code) { return code == Code::unavailable || code == Code::timed_out; }

}  // namespace

Result<std::unique_ptr<Client>> Client::open(ClientOptions options) {
  if (options.endpoints.empty())
    return error(Code::invalid_argument, "an etcd without endpoints",
                 "give at least one, such as http://127.0.0.1:2379");
  for (std::string& endpoint : options.endpoints)
    while (endpoint.ends_with('/')) endpoint.pop_back();
  TOWPATH_TRY(auto http, net::HttpClient::open({.max_requests = options.max_requests,
                                                .max_body_bytes = options.max_reply_bytes,
                                                .connect_timeout = options.connect_timeout,
                                                .tls = options.tls}));
  return std::unique_ptr<Client>(new Client(std::move(options), std::move(http)));
}

CallId Client::call(Call what, CallDone done, Duration turn) {
  return begin({.what = std::move(what), .done = std::move(done), .turn = turn});
}

CallId Client::stream(Call what, LineHeard line, CallDone ended) {
  return begin({.what = std::move(what), .done = std::move(ended), .line = std::move(line)});
}

CallId Client::begin(Job job) {
  const CallId id = next_++;
  job.endpoints_left = options_.endpoints.size() - 1;
  Job& kept = jobs_.emplace(id, std::move(job)).first->second;
  if (needs_login() && kept.what.path != kLoginPath) {
    log_in();
  } else {
    post(id, kept);
  }
  return id;
}

void Client::cancel(CallId call) {
  const auto job = jobs_.find(call);
  if (job == jobs_.end()) return;
  http_->cancel(job->second.http);
  jobs_.erase(job);
}

Duration Client::timeout_of(const Job& job) const {
  if (job.line) return Duration::zero();
  const bool is_last = job.endpoints_left == 0 || job.turn == Duration::zero();
  return is_last ? options_.call_timeout : std::min(job.turn, options_.call_timeout);
}

void Client::post(CallId id, Job& job) {
  job.half_line.clear();
  job.endpoint = endpoint_;
  net::HttpRequest request{.method = "POST",
                           .url = endpoint() + job.what.path,
                           .headers = {"Content-Type: application/json"},
                           .body = job.what.body,
                           .timeout = timeout_of(job)};
  if (!token_.empty()) request.headers.push_back(cat("Authorization: ", token_));
  if (job.line) request.on_body = [this, id](ConstByteSpan bytes) { return hear(id, bytes); };
  const auto sent =
      http_->send(std::move(request), [this, id](const auto& response) { answered(id, response); });
  if (sent.ok()) {
    job.http = *sent;
  } else {
    ended_.emplace_back(id, sent.status());
  }
}

Status Client::hear(CallId id, ConstByteSpan bytes) {
  auto job = jobs_.find(id);
  if (job == jobs_.end()) return error(Code::cancelled, "cancelled");
  job->second.half_line += as_text(bytes);
  if (job->second.half_line.size() > options_.max_reply_bytes)
    return error(Code::out_of_range, cat("a line of more than ", options_.max_reply_bytes,
                                         " bytes from ", options_.endpoints[job->second.endpoint]));
  for (std::size_t end = 0; (end = job->second.half_line.find('\n')) != std::string::npos;) {
    const std::string line = job->second.half_line.substr(0, end);
    job->second.half_line.erase(0, end + 1);
    const LineHeard heard = job->second.line;
    TOWPATH_TRY(heard(line));
    job = jobs_.find(id);
    if (job == jobs_.end()) return error(Code::cancelled, "cancelled");
  }
  return {};
}

void Client::answered(CallId id, const Result<net::HttpResponse>& response) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  if (response.ok() && response->status == 200) {
    if (!job.line) return end(id, std::string(as_text(response->body)));
    return end(
        id, error(Code::unavailable, cat(options_.endpoints[job.endpoint], " has ended a stream")));
  }
  // Of a stream the body has gone to hear(), as a line or half of one.
  const Status failed =
      response.ok()
          ? parse_failure(response->status, job.line ? job.half_line : as_text(response->body))
          : response.status();
  if (is_out_of_reach(failed.code())) {
    leave(job.endpoint);
    if (!job.line && job.endpoints_left-- > 0) return post(id, job);
  }
  if (failed.code() == Code::not_ready && job.may_log_in && !options_.login.user.empty() &&
      job.what.path != kLoginPath) {
    job.may_log_in = false;
    token_.clear();
    job.http = 0;
    return log_in();
  }
  end(id, failed);
}

// Once, however many of its calls fail. What streams from there may be as dead and not know it.
void Client::leave(std::size_t endpoint) {
  if (endpoint != endpoint_ || options_.endpoints.size() == 1) return;
  endpoint_ = (endpoint_ + 1) % options_.endpoints.size();
  for (const auto& [id, job] : jobs_) {
    if (!job.line || job.http == 0 || job.endpoint != endpoint) continue;
    http_->cancel(job.http);
    ended_.emplace_back(id, error(Code::unavailable,
                                  cat(options_.endpoints[endpoint], " has not answered others")));
  }
}

void Client::end(CallId id, Result<std::string> body) {
  const auto job = jobs_.extract(id);
  if (!job.empty()) job.mapped().done(std::move(body));
}

void Client::log_in() {
  if (login_ != 0) return;
  login_ = call(authenticate(options_.login),
                [this](const Result<std::string>& body) { logged_in(body); });
}

void Client::logged_in(const Result<std::string>& body) {
  login_ = 0;
  const auto token = body.ok() ? parse_token(*body) : body.status();
  if (token.ok()) token_ = *token;
  std::vector<CallId> waiting;
  for (const auto& [id, job] : jobs_)
    if (job.http == 0) waiting.push_back(id);
  for (const CallId id : waiting) {
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) continue;
    if (token.ok()) {
      post(id, job->second);
    } else {
      end(id, token.status());
    }
  }
}

std::size_t Client::progress() {
  const std::size_t called = http_->progress();
  for (auto& [id, why] : std::exchange(ended_, {})) end(id, std::move(why));
  return called;
}

}  // namespace towpath::rendezvous::etcd
