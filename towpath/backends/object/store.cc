#include <cstring>

#include <towpath/backends/object/store.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {
namespace {

class BytesSource final : public net::HttpSource {
 public:
  explicit BytesSource(ConstByteSpan bytes) noexcept : bytes_(bytes) {}
  std::uint64_t size_bytes() const override { return bytes_.size(); }
  void read(std::uint64_t offset, ByteSpan into) override {
    std::memcpy(into.data(), bytes_.data() + offset, into.size());
  }

 private:
  const ConstByteSpan bytes_;
};

class BytesSink final : public net::HttpSink {
 public:
  Status begin(const net::HttpResponse&) override {
    bytes.clear();
    return {};
  }
  Status take(ConstByteSpan more) override {
    bytes.insert(bytes.end(), more.begin(), more.end());
    return {};
  }
  Bytes bytes;
};

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const BackendOptions& options, const Clock& clock) {
  std::unique_ptr<Store> store(new Store(clock));
  store->counters_ = std::make_unique<Counters>();
  TOWPATH_TRY(store->client_, Client::open(options, clock, *store->counters_, {}));
  return store;
}

std::vector<Result<net::HttpResponse>> Store::call(std::vector<Ask> asks) {
  std::vector<Result<net::HttpResponse>> answers(
      asks.size(), error(Code::unavailable, "the store cannot be waited for"));
  auto poller = run::Poller::open();
  if (!poller.ok() || !poller->add(client_->wait_fd(), 0).ok()) return answers;
  const Duration timeout = client_->options().timeout;
  answers.assign(asks.size(),
                 error(Code::timed_out,
                       cat("no answer of the store within ", timeout / std::chrono::milliseconds(1),
                           " ms to one of ", asks.size(), " requests that were made together"),
                       "see whether it answers (towpath doctor), or ask for less at a time"));
  const Instant end = clock_.now() + timeout;
  std::size_t left = asks.size();
  std::vector<AskId> ids;
  for (std::size_t i = 0; i < asks.size(); ++i)
    ids.push_back(
        client_->ask(std::move(asks[i]), [&answers, &left, i](Result<net::HttpResponse> response) {
          answers[i] = std::move(response);
          --left;
        }));
  for (Instant now = clock_.now(); left > 0 && now < end; now = clock_.now()) {
    if (!client_->progress()) (void)poller->wait(end - now);
  }
  for (const AskId id : ids) client_->cancel(id);  // those that are answered are no error
  return answers;
}

Result<net::HttpResponse> Store::call(Ask ask) {
  std::vector<Ask> one;
  one.push_back(std::move(ask));
  return std::move(call(std::move(one)).front());
}

Status Store::make_bucket(const std::string& bucket) {
  return call({.method = "PUT", .name = {bucket, {}}}).status();
}

Status Store::put(const ObjectName& name, ConstByteSpan bytes) {
  BytesSource source(bytes);
  return call({.method = "PUT", .name = name, .source = &source}).status();
}

Result<Bytes> Store::get(const ObjectName& name) {
  BytesSink sink;
  TOWPATH_TRY(call({.method = "GET", .name = name, .sink = &sink}));
  return std::move(sink.bytes);
}

Status Store::remove(const ObjectName& name) {
  return call({.method = "DELETE", .name = name}).status();
}

}  // namespace towpath::backends::object
