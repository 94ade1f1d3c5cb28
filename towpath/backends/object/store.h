// Store: one request after the other to a store, each waited for. For queries, tools and tests;
// transfers go through operations, which wait for nobody.
// Thread: one at a time.
#pragma once

#include <memory>
#include <vector>

#include <towpath/backends/object/client.h>

namespace towpath::backends::object {

class Store {
 public:
  /// `clock` outlives it. Errors: the HttpClient's.
  static Result<std::unique_ptr<Store>> open(const BackendOptions& options, const Clock& clock);

  /// Waits for the answers to all of them, for options().timeout together, however often they are
  /// asked; in their order. Errors: timed_out.
  std::vector<Result<net::HttpResponse>> call(std::vector<Ask> asks);
  Result<net::HttpResponse> call(Ask ask);

  // Errors: what status_of() makes of the store's, the client's.
  Status make_bucket(const std::string& bucket);
  Status put(const ObjectName& name, ConstByteSpan bytes);
  Result<Bytes> get(const ObjectName& name);
  Status remove(const ObjectName& name);

  const BackendOptions& options() const noexcept { return client_->options(); }

 private:
  explicit Store(const Clock& clock) : clock_(clock) {}

  const Clock& clock_;
  std::unique_ptr<Counters> counters_;
  std::unique_ptr<Client> client_;
};

}  // namespace towpath::backends::object
