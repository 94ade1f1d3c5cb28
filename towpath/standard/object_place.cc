#include <utility>

#include <towpath/backends/object/listing.h>
#include <towpath/backends/object/options.h>
#include <towpath/core/text.h>
#include <towpath/standard/environment.h>
#include <towpath/standard/object_place.h>
#include <towpath/standard/object_settings.h>

namespace towpath::standard {
namespace {

using backends::object::BackendOptions;
using backends::object::Client;
using backends::object::Counters;

/// The store itself, asked beside the transfers.
class StoreShelf final : public kv::ObjectShelf {
 public:
  static Result<std::unique_ptr<kv::ObjectShelf>> open(const BackendOptions& options,
                                                       std::string bucket, const Clock& clock) {
    std::unique_ptr<StoreShelf> shelf(new StoreShelf(std::move(bucket)));
    TOWPATH_TRY(shelf->client_, Client::open(options, clock, shelf->counters_, {}));
    return shelf;
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
  explicit StoreShelf(std::string bucket) : bucket_(std::move(bucket)) {}

  static Result<kv::ShelfPage> page_of(const Result<net::HttpResponse>& response) {
    TOWPATH_TRY(response.status());
    TOWPATH_TRY(auto read, backends::object::read_page(as_text(response->body)));
    kv::ShelfPage page{.objects = {}, .next = std::move(read.next)};
    for (auto& one : read.objects)
      page.objects.push_back({std::move(one.key), one.bytes, std::move(one.modified)});
    return page;
  }

  const std::string bucket_;
  Counters counters_;
  std::unique_ptr<Client> client_;
};

}  // namespace

Result<ObjectPlace> ObjectPlace::parse(const std::string& text) {
  constexpr std::string_view kScheme = "s3://";
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
  TOWPATH_TRY(place.bound_bytes, parse_bytes(text.substr(colon + 1)));
  if (place.bound_bytes == 0) return refused();
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
  TOWPATH_TRY(auto shelf,
              StoreShelf::open(store, place.bucket.empty() ? store.bucket : place.bucket, clock));
  return kv::ObjectTier::open(options, std::move(shelf));
}

}  // namespace towpath::standard
