#include <algorithm>
#include <array>
#include <utility>

#include <towpath/backends/object/listing.h>
#include <towpath/backends/object/options.h>
#include <towpath/core/format.h>
#include <towpath/kv/tiers/object_tier.h>
#include <towpath/standard/object_place.h>
#include <towpath/standard/object_settings.h>
#include <towpath/standard/settings.h>

namespace towpath::standard {
namespace {

using backends::object::BackendOptions;
using backends::object::Client;
using backends::object::Counters;

/// The store itself, asked beside the transfers.
class StoreBucket final : public kv::ObjectBucket {
 public:
  static Result<std::unique_ptr<kv::ObjectBucket>> open(const BackendOptions& options,
                                                        std::string bucket, const Clock& clock) {
    std::unique_ptr<StoreBucket> made(new StoreBucket(std::move(bucket)));
    TOWPATH_TRY(made->client_, Client::open(options, clock, made->counters_, {}));
    return made;
  }

  void list(const std::string& prefix, const std::string& next, Listed listed) override {
    client_->ask(backends::object::ask_for_page(bucket_, prefix, next),
                 [listed = std::move(listed)](const Result<net::HttpResponse>& response) {
                   listed(page_of(response));
                 });
  }
  void remove(const std::string& key, Removed removed) override {
    client_->ask({.method = "DELETE", .name = {bucket_, key}},
                 [removed = std::move(removed)](const Result<net::HttpResponse>& response) {
                   removed(response.code() == Code::not_found ? Status() : response.status());
                 });
  }
  bool progress() override { return client_->progress(); }

 private:
  explicit StoreBucket(std::string bucket) : bucket_(std::move(bucket)) {}

  static Result<kv::BucketPage> page_of(const Result<net::HttpResponse>& response) {
    TOWPATH_TRY(response.status());
    TOWPATH_TRY(auto read, backends::object::read_page(as_text(response->body)));
    kv::BucketPage page{.objects = {}, .next = std::move(read.next)};
    for (auto& one : read.objects)
      page.objects.push_back({std::move(one.key), one.bytes, std::move(one.modified)});
    return page;
  }

  const std::string bucket_;
  Counters counters_;
  std::unique_ptr<Client> client_;
};

/// What a place may say of its store: all that the backend takes, but for what has a place of its
/// own, and what is secret.
bool may_say(const std::string& name) {
  constexpr std::array<std::string_view, 4> kNotInAPlace = {"bucket", "access_key", "secret_key",
                                                            "session_token"};
  const auto all = BackendOptions::describe();
  return std::ranges::find(kNotInAPlace, name) == kNotInAPlace.end() &&
         std::ranges::find(all, name, &backend::ParamInfo::name) != all.end();
}

/// "name=value&name=value". Errors: invalid_argument.
Result<backend::Params> read_params(const std::string& text) {
  backend::Params params;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('&', at), text.size());
    const std::string part = text.substr(at, end - at);
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    if (equals == part.size() || !may_say(name))
      return error(Code::invalid_argument, cat("a place for objects says '", printable(name), "'"),
                   "write name=value, of endpoint_override, region and the like; credentials are "
                   "the environment's");
    params[name] = part.substr(equals + 1);
    at = end + 1;
  }
  return params;
}

}  // namespace

Result<ObjectPlace> ObjectPlace::parse(const std::string& whole) {
  constexpr std::string_view kScheme = "s3://";
  const std::size_t query = whole.find('?');
  const std::string text = whole.substr(0, query);
  const std::size_t colon = text.rfind(':');
  const auto refused = [&] {
    return error(Code::invalid_argument, cat("'", printable(text), "' is no place for objects"),
                 "write s3://BUCKET/PREFIX:10GiB, or PREFIX:10GiB in the bucket of "
                 "AWS_DEFAULT_BUCKET");
  };
  ObjectPlace place;
  std::string path = text.substr(0, colon);
  if (path.starts_with(kScheme)) {
    const std::size_t slash = path.find('/', kScheme.size());
    if (slash == std::string::npos || slash == kScheme.size()) return refused();
    place.bucket = path.substr(kScheme.size(), slash - kScheme.size());
    path.erase(0, slash + 1);
  }
  if (colon == std::string::npos || path.empty() || path.ends_with('/')) return refused();
  place.prefix = std::move(path);
  const auto bound = parse_bytes(text.substr(colon + 1));
  if (!bound.ok() || *bound == 0) return refused();
  place.bound_bytes = *bound;
  if (query != std::string::npos) {
    TOWPATH_TRY(place.params, read_params(whole.substr(query + 1)));
  }
  return place;
}

Result<std::unique_ptr<kv::ObjectTier>> open_object_tier(const ObjectPlace& place,
                                                         kv::ObjectTierOptions options,
                                                         const Clock& clock) {
  TOWPATH_TRY(const backend::Params usual, object_params(read_environment()));
  TOWPATH_TRY(const BackendOptions store,
              BackendOptions::parse(backends::object::merge(usual, place.params)));
  TOWPATH_TRY(options.agent->add_backend("object", place.params));
  options.bucket = place.bucket;
  options.prefix = place.prefix;
  options.bound_bytes = place.bound_bytes;
  options.clock = &clock;
  TOWPATH_TRY(auto bucket,
              StoreBucket::open(store, place.bucket.empty() ? store.bucket : place.bucket, clock));
  return kv::ObjectTier::open(options, std::move(bucket));
}

}  // namespace towpath::standard
