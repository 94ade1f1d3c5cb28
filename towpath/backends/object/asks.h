// Asks: the requests of one operation that are under way, so that all of them can be stopped.
// Thread: loop.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <utility>

#include <towpath/backends/object/client.h>

namespace towpath::backends::object {

class Asks {
 public:
  /// `client` outlives it. `step` is called after each answer; the asks may be gone afterwards.
  Asks(Client& client, std::function<void()> step) : client_(client), step_(std::move(step)) {}
  Asks(const Asks&) = delete;
  Asks& operator=(const Asks&) = delete;

  void ask(Ask what, AskDone done) {
    const auto id = std::make_shared<AskId>(0);
    *id = client_.ask(std::move(what),
                      [this, id, done = std::move(done)](Result<net::HttpResponse> response) {
                        under_way_.erase(*id);
                        done(std::move(response));
                        step_();
                      });
    under_way_.insert(*id);
  }
  /// Nothing is touched on their behalf afterwards.
  void cancel_all() {
    for (const AskId id : std::exchange(under_way_, {})) client_.cancel(id);
  }
  /// As after an answer.
  void step() { step_(); }
  std::size_t size() const noexcept { return under_way_.size(); }
  Client& client() const noexcept { return client_; }

 private:
  Client& client_;
  const std::function<void()> step_;
  std::set<AskId> under_way_;
};

}  // namespace towpath::backends::object
