// HttpExchange: one request under way and what has come of its response, as libcurl's easy handle
// sees it. For http.cc alone.
// Invariant: its address is libcurl's, so it stays where it is. Thread: loop.
#pragma once

#include <array>
#include <memory>
#include <new>

#include <curl/curl.h>

#include <towpath/net/http.h>

namespace towpath::net {

class HttpExchange {
 public:
  /// `heard` gets the id when a piece of a stream has come; it outlives the exchange.
  HttpExchange(HttpId id, HttpRequest request, HttpDone done, std::vector<HttpId>& heard);
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  /// Errors: exhausted, invalid_argument (libcurl does not take what is asked for).
  Status prepare(const HttpClientOptions& options);
  /// Of an easy handle that is libcurl's to report about.
  static HttpExchange& of(CURL* easy);

  HttpId id() const noexcept { return id_; }
  CURL* easy() const noexcept { return easy_.get(); }
  /// To be called when the request has left libcurl; the exchange may be gone afterwards.
  void answer(CURLcode code) { done_(outcome(code)); }
  void answer(const Status& why) { done_(why); }
  /// Hands on what came of a stream, to who may then do away with the exchange.
  std::function<Status(ConstByteSpan)> listener() const { return request_.on_body; }
  Bytes take_heard() { return std::exchange(response_.body, {}); }

 private:
  struct EasyEnds {
    void operator()(CURL* easy) const noexcept { curl_easy_cleanup(easy); }
  };
  struct ListEnds {
    void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
  };

  void prepare_method();
  void prepare_body();
  void prepare_times(const HttpClientOptions& options);
  void prepare_trust(const HttpClientOptions& options);
  Result<HttpResponse> outcome(CURLcode code);
  bool take_header(std::string_view line);
  bool take_body(ConstByteSpan bytes);
  bool begin_body();
  bool refuse(Status why);
  /// What libcurl calls throws nothing through it: it would be inside of a callback from then on.
  template <typename Take>
  bool take_or_refuse(Take take) {
    try {
      return take();
    } catch (const std::bad_alloc&) {
      return refuse(no_memory_);
    }
  }
  /// What the request is made of. One of which libcurl does not keep all is not sent: it would be
  /// another, or would trust others. What libcurl has not at all, it does not do either.
  template <typename Value>
  void set(CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(easy_.get(), option, value);
    if (code == CURLE_OUT_OF_MEMORY || code == CURLE_BAD_FUNCTION_ARGUMENT) not_set_ = code;
  }
  void add_header(const char* line);
  static std::size_t on_header(char* data, std::size_t one, std::size_t size, void* self);
  static std::size_t on_body(char* data, std::size_t one, std::size_t size, void* self);
  static std::size_t on_read(char* into, std::size_t one, std::size_t size, void* self);
  static int on_seek(void* self, curl_off_t offset, int origin);

  const HttpId id_;
  const HttpRequest request_;
  const HttpDone done_;
  std::vector<HttpId>& heard_;
  std::size_t max_body_bytes_ = 0;
  std::unique_ptr<CURL, EasyEnds> easy_;
  std::unique_ptr<curl_slist, ListEnds> headers_;
  std::uint64_t sent_ = 0;  // of the source
  std::size_t header_bytes_ = 0;
  HttpResponse response_;
  bool body_began_ = false;
  Status failure_;  // our own verdict; libcurl then only says that writing failed
  CURLcode not_set_ = CURLE_OK;
  const Status no_memory_ = error(Code::exhausted, "no memory was left for a request");
  std::array<char, CURL_ERROR_SIZE> why_{};
};

}  // namespace towpath::net
