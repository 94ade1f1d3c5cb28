#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/net/http_exchange.h>

namespace towpath::net {
namespace {

long milliseconds(Duration duration) {
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}
long seconds(Duration duration) {
  return static_cast<long>(std::chrono::ceil<std::chrono::seconds>(duration).count());
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

// A server of TLS 1.3 refuses a client's certificate, or that there is none, when the handshake is
// over for the client: to libcurl it is a failure to read, which OpenSSL has words for.
bool is_refused_certificate(CURLcode failed, std::string_view why) {
  if (failed != CURLE_RECV_ERROR && failed != CURLE_SEND_ERROR) return false;
  const std::size_t alert = why.find(" alert ");
  return alert != std::string_view::npos &&
         std::ranges::any_of(
             std::array<std::string_view, 3>{"certificate", "unknown ca", "access denied"},
             [&](std::string_view words) {
               return why.find(words, alert) != std::string_view::npos;
             });
}

std::string_view hint_of(Code code) {
  switch (code) {
    case Code::denied: return "look at the certificates: authority, names, dates, and ours";
    case Code::invalid_argument: return "write http://host:port/path or https://host:port/path";
    default: return "see whether the server runs, and whether it can be reached from here";
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

std::string_view HttpResponse::header(std::string_view name) const noexcept {
  const auto found = std::ranges::find(headers, name, &HttpHeader::name);
  return found == headers.end() ? std::string_view() : std::string_view(found->value);
}

HttpExchange::HttpExchange(HttpId id, HttpRequest request, HttpDone done,
                           std::vector<HttpId>& heard)
    : id_(id), request_(std::move(request)), done_(std::move(done)), heard_(heard) {}

HttpExchange& HttpExchange::of(CURL* easy) {
  void* self = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &self);
  return *static_cast<HttpExchange*>(self);
}

// ---- What is asked

Status HttpExchange::prepare(const HttpClientOptions& options) {
  easy_.reset(curl_easy_init());
  if (!easy_) return no_memory_;
  CURL* it = easy_.get();
  max_body_bytes_ = options.max_body_bytes;
  set(CURLOPT_URL, request_.url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);  // what was signed is what is sent
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_PROXY, "");  // else the environment's
  curl_easy_setopt(it, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  curl_easy_setopt(it, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(it, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(it, CURLOPT_TCP_KEEPIDLE, 10L);
  curl_easy_setopt(it, CURLOPT_TCP_KEEPINTVL, 5L);
  if (options.buffer_bytes != 0) {
    curl_easy_setopt(it, CURLOPT_BUFFERSIZE, static_cast<long>(options.buffer_bytes));
    curl_easy_setopt(it, CURLOPT_UPLOAD_BUFFERSIZE, static_cast<long>(options.buffer_bytes));
  }
  curl_easy_setopt(it, CURLOPT_ERRORBUFFER, why_.data());
  curl_easy_setopt(it, CURLOPT_PRIVATE, this);
#if LIBCURL_VERSION_NUM >= 0x075700
  // Else whatever ends a request waits for its lookup. Left behind are the lookup's thread with its
  // stack, some hundred bytes and a socket, until the resolver gives up (resolv.conf(5): after 10 s
  // for each name server); the thread then frees all of it.
  curl_easy_setopt(it, CURLOPT_QUICK_EXIT, 1L);
#endif
  prepare_method();
  prepare_body();
  prepare_times(options);
  prepare_trust(options);
  if (not_set_ == CURLE_OK) return {};
  if (not_set_ == CURLE_OUT_OF_MEMORY) return no_memory_;
  return error(Code::invalid_argument,
               cat("libcurl does not take a request: ", curl_easy_strerror(not_set_)));
}

void HttpExchange::add_header(const char* line) {
  curl_slist* const more = curl_slist_append(headers_.get(), line);
  if (more == nullptr) {
    not_set_ = CURLE_OUT_OF_MEMORY;
    return;
  }
  (void)headers_.release();  // it is the beginning of `more`
  headers_.reset(more);
}

void HttpExchange::prepare_method() {
  set(CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  const bool sends = request_.method == "POST" || request_.method == "PUT";
  if (request_.method == "HEAD") set(CURLOPT_NOBODY, 1L);
  if (request_.source != nullptr) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request_.source->size_bytes()));
    set(CURLOPT_READFUNCTION, &HttpExchange::on_read);
    set(CURLOPT_READDATA, this);
    set(CURLOPT_SEEKFUNCTION, &HttpExchange::on_seek);
    set(CURLOPT_SEEKDATA, this);
  } else if (sends || !request_.body.empty()) {
    set(CURLOPT_POSTFIELDS, request_.body.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
  }
  // Without it large bodies wait a second for a "100 Continue" that few servers send.
  add_header("Expect:");
  for (const std::string& header : request_.headers) add_header(header.c_str());
  set(CURLOPT_HTTPHEADER, headers_.get());
}

void HttpExchange::prepare_body() {
  set(CURLOPT_HEADERFUNCTION, &HttpExchange::on_header);
  set(CURLOPT_HEADERDATA, this);
  set(CURLOPT_WRITEFUNCTION, &HttpExchange::on_body);
  set(CURLOPT_WRITEDATA, this);
}

void HttpExchange::prepare_times(const HttpClientOptions& options) {
  CURL* it = easy_.get();
  curl_easy_setopt(it, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options.connect_timeout));
  curl_easy_setopt(it, CURLOPT_TIMEOUT_MS, milliseconds(request_.timeout));
  if (request_.stall_timeout == Duration::zero()) return;
  curl_easy_setopt(it, CURLOPT_LOW_SPEED_LIMIT, 1L);  // a byte a second
  curl_easy_setopt(it, CURLOPT_LOW_SPEED_TIME, seconds(request_.stall_timeout));
}

void HttpExchange::prepare_trust(const HttpClientOptions& options) {
  const auto name = [&](CURLoption option, const std::string& value) {
    if (!value.empty()) set(option, value.c_str());
  };
  if (!options.tls.verify) {
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
  name(CURLOPT_CAINFO, options.tls.authority_file);
  // Else those of the folder that libcurl was built with are believed besides. A file that
  // system_authorities() found has none: libcurl knows no folder then.
  if (!options.tls.authority_file.empty()) set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));
  name(CURLOPT_SSLCERT, options.tls.certificate_file);
  name(CURLOPT_SSLKEY, options.tls.key_file);
  name(CURLOPT_USERNAME, options.user);
  name(CURLOPT_PASSWORD, options.password);
}

std::size_t HttpExchange::on_read(char* into, std::size_t one, std::size_t size, void* self) {
  auto& exchange = *static_cast<HttpExchange*>(self);
  HttpSource& source = *exchange.request_.source;
  const std::uint64_t count =
      std::min<std::uint64_t>(one * size, source.size_bytes() - exchange.sent_);
  const bool is_read = exchange.take_or_refuse([&] {
    if (count > 0) source.read(exchange.sent_, {reinterpret_cast<std::byte*>(into), count});
    return true;
  });
  if (!is_read) return CURL_READFUNC_ABORT;
  exchange.sent_ += count;
  return count;
}

int HttpExchange::on_seek(void* self, curl_off_t offset, int origin) {
  auto& exchange = *static_cast<HttpExchange*>(self);
  const auto place = static_cast<std::uint64_t>(offset);
  if (origin != SEEK_SET || offset < 0 || place > exchange.request_.source->size_bytes())
    return CURL_SEEKFUNC_FAIL;
  exchange.sent_ = place;
  return CURL_SEEKFUNC_OK;
}

// ---- What comes

bool HttpExchange::refuse(Status why) {
  if (failure_.ok()) failure_ = std::move(why);
  return false;
}

std::size_t HttpExchange::on_header(char* data, std::size_t one, std::size_t size, void* self) {
  auto& exchange = *static_cast<HttpExchange*>(self);
  const bool is_taken = exchange.take_or_refuse([&] {
    return exchange.take_header({data, one * size});
  });
  return is_taken ? one * size : 0;
}

bool HttpExchange::take_header(std::string_view line) {
  header_bytes_ += line.size();
  if (header_bytes_ > kMaxHttpHeaderBytes)
    return refuse(error(Code::out_of_range,
                        cat("more than ", kMaxHttpHeaderBytes, " bytes of headers came from ",
                            printable(request_.url, 200))));
  if (line.starts_with("HTTP/")) {  // the last one counts: "100 Continue" comes before
    response_.headers.clear();
    return true;
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return true;
  HttpHeader header{std::string(trimmed(line.substr(0, colon))),
                    std::string(trimmed(line.substr(colon + 1)))};
  std::ranges::transform(header.name, header.name.begin(), [](unsigned char letter) {
    return static_cast<char>(std::tolower(letter));
  });
  response_.headers.push_back(std::move(header));
  return true;
}

std::size_t HttpExchange::on_body(char* data, std::size_t one, std::size_t size, void* self) {
  auto& exchange = *static_cast<HttpExchange*>(self);
  const ConstByteSpan bytes(reinterpret_cast<const std::byte*>(data), one * size);
  return exchange.take_or_refuse([&] { return exchange.take_body(bytes); }) ? one * size : 0;
}

bool HttpExchange::begin_body() {
  body_began_ = true;
  long status = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
  response_.status = static_cast<int>(status);
  if (request_.sink == nullptr || status / 100 != 2) return true;
  Status begun = request_.sink->begin(response_);
  return begun.ok() || refuse(std::move(begun));
}

bool HttpExchange::take_body(ConstByteSpan bytes) {
  if (!body_began_ && !begin_body()) return false;
  if (request_.sink != nullptr && response_.status / 100 == 2) {
    Status taken = request_.sink->take(bytes);
    return taken.ok() || refuse(std::move(taken));
  }
  if (bytes.size() > max_body_bytes_ - response_.body.size())
    return refuse(error(Code::out_of_range, cat("more than ", max_body_bytes_, " bytes came from ",
                                                printable(request_.url, 200))));
  if (request_.on_body && response_.body.empty()) heard_.push_back(id_);
  response_.body.insert(response_.body.end(), bytes.begin(), bytes.end());
  return true;
}

Result<HttpResponse> HttpExchange::outcome(CURLcode code) {
  if (code == CURLE_OK && !body_began_) (void)begin_body();  // there was none
  if (!failure_.ok()) return failure_;
  if (code != CURLE_OK) {
    const Code ours = is_refused_certificate(code, why_.data()) ? Code::denied : code_of(code);
    return error(ours,
                 cat(request_.method, " ", printable(request_.url, 200), ": ",
                     why_[0] != '\0' ? why_.data() : curl_easy_strerror(code)),
                 std::string(hint_of(ours)));
  }
  return std::move(response_);
}

}  // namespace towpath::net
