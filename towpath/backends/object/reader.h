// Reader: the reads of one operation: a ranged GET for each fetch of the plan.
// Thread: loop.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include <towpath/backend/request_progress.h>
#include <towpath/backends/object/asks.h>
#include <towpath/backends/object/plan.h>
#include <towpath/backends/object/scatter.h>

namespace towpath::backends::object {

class Reader {
 public:
  /// All outlive it.
  Reader(Asks& asks, backend::RequestProgress& progress, Counters& counters) noexcept
      : asks_(asks), progress_(progress), counters_(counters) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// `plan` must stay as it is until it is done or stopped.
  void start(const Plan& plan);
  /// Asks for one fetch more. False: there is none.
  bool issue();
  /// After Asks::cancel_all(): counts what has come.
  void stop();

 private:
  using Place = std::list<Scatter>::iterator;
  void ask(Place place);
  void answered(Place place, const Result<net::HttpResponse>& response);
  void settle(Place place);
  std::string describe(const Fetch& fetch) const;

  Asks& asks_;
  backend::RequestProgress& progress_;
  Counters& counters_;
  const Plan* plan_ = nullptr;
  std::vector<Fetch> fetches_;
  std::size_t next_ = 0;
  std::vector<std::string> versions_;  // of each share's object
  std::list<Scatter> under_way_;       // they must not move: libcurl writes through them
};

}  // namespace towpath::backends::object
