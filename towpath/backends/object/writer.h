// Writer: the writes of one operation: each object is put whole, in one request or in parts.
//
//   small    PUT
//   large    POST ?uploads --> PUT part 1 .. n, several at a time --> POST ?uploadId   (in place)
//                                  | a part fails, or it is cancelled
//                                  +--> DELETE ?uploadId           (the store forgets the parts)
//
// Invariant: an upload that was begun in a store is either completed or taken back, also when its
// operation was cancelled while it began: then by requests of nobody's operation.
// Thread: loop.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <towpath/backend/request_progress.h>
#include <towpath/backends/object/asks.h>
#include <towpath/backends/object/plan.h>
#include <towpath/backends/object/scatter.h>

namespace towpath::backends::object {

class Writer {
 public:
  /// All outlive it.
  Writer(Asks& asks, backend::RequestProgress& progress, Counters& counters,
         const telemetry::Log& log) noexcept
      : asks_(asks), progress_(progress), counters_(counters), log_(log) {}
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// `plan` must stay as it is until it is done or stopped. Objects that it does not put whole are
  /// reported to the request progress, and left alone.
  void start(const Plan& plan);
  /// Asks for one thing more. False: nothing can be asked now.
  bool issue();
  /// Nothing is left to ask, and every answer is there (but for what Asks counts).
  bool idle() const noexcept { return uploads_.empty(); }
  /// After Asks::cancel_all(): takes uploads back.
  void stop();

 private:
  enum class State { fresh, putting, creating, sending, completing, failed };
  struct Upload {
    const Share* share = nullptr;
    std::uint64_t size_bytes = 0;
    std::uint64_t part_bytes = 0;
    State state = State::fresh;
    std::string id;
    std::vector<std::string> tags;  // of the parts, as the store gave them
    std::size_t next_part = 0;
    std::size_t parts_done = 0;
    std::size_t asked = 0;
    Status why;
    /// Shared with the request that begins it, which nobody cancels.
    std::shared_ptr<bool> abandoned;
  };
  using Place = std::list<Upload>::iterator;

  void plan_parts(Upload& upload) const;
  bool issue(Place place);
  void put(Place place);
  void create(Place place);
  void created(Place place, const Result<net::HttpResponse>& response);
  void put_part(Place place);
  void part_done(Place place, std::size_t part, const Result<net::HttpResponse>& response);
  void complete(Place place);
  void finish(Place place, const Status& outcome);
  void fail(Place place, const Status& why);

  Asks& asks_;
  backend::RequestProgress& progress_;
  Counters& counters_;
  const telemetry::Log& log_;
  std::list<Upload> uploads_;  // those that are not finished
};

/// Takes an upload back: the store forgets its parts. In the background; what comes of it is
/// logged.
void abort_upload(Client& client, Counters& counters, const telemetry::Log& log,
                  const ObjectName& name, const std::string& upload);

/// The number of bytes in each part but the last: `part_bytes`, or more where there would be more
/// parts than a store takes.
std::uint64_t part_size(std::uint64_t size_bytes, std::uint64_t part_bytes);

/// The body that says of which parts an object consists.
std::string completion_of(const std::vector<std::string>& tags);

}  // namespace towpath::backends::object
