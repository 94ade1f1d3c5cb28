// Dispatcher: brings the I/Os of all operations to the workers: at most `depth` at a time, in
// turns, batched; settles every byte once; tells the outcome.
//
// A request is cut where memory or file have a gap, and after `chunk_bytes`. The dispatcher knows
// no registrations and no peers. Invariants: bytes count as in place only when the library reported
// them; an operation completes when no worker has anything of it.
// Thread: loop. Cost: no allocation or system call per I/O; a lock per batch.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/backend/ledger.h>
#include <towpath/backend/turn_queue.h>
#include <towpath/backends/gds/workers.h>

namespace towpath::backends::gds {

class Dispatcher;

/// One transfer between a GPU's memory and files, as state; what happens to it is the dispatcher's.
class GdsOperation final : public backend::Operation {
 public:
  explicit GdsOperation(Dispatcher& dispatcher) noexcept : dispatcher_(dispatcher) {}
  GdsOperation(const GdsOperation&) = delete;
  GdsOperation& operator=(const GdsOperation&) = delete;
  ~GdsOperation() override;

  void post(const backend::Request& request) override;
  void cancel() override;

 private:
  friend class Dispatcher;
  friend class backend::TurnQueue<GdsOperation>;

  Dispatcher& dispatcher_;
  backend::Segments segments_;
  backend::Position at_;  // what is not submitted yet
  backend::Ledger ledger_;
  std::uint32_t in_flight_ = 0;
  bool write_ = false;
  bool active_ = false;
  bool cancelled_ = false;
  bool stopped_ = false;  // something was not tried because of cancelled_
  backend::Turn<GdsOperation> turn_;
};

class Dispatcher {
 public:
  struct Options {
    std::uint32_t depth = 64;
    std::uint64_t chunk_bytes = 16U << 20U;
  };
  /// All must outlive it.
  Dispatcher(const Options& options, Workers& workers, backend::Events& events, Counters& counters);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  void start(GdsOperation& operation, const backend::Request& request);
  void cancel(GdsOperation& operation);
  /// As Backend::progress().
  bool progress();

 private:
  struct Flight {
    GdsOperation* operation = nullptr;  // null: free
    std::uint64_t id = 0;               // of the job; another one each time
    backend::Position start;
    std::uint64_t length = 0;
  };

  bool submit_some();
  bool reap_some();
  Job next_job(GdsOperation& operation, Flight& flight) const;
  void settle(Flight& flight, const Moved& moved);
  void complete_if_quiet(GdsOperation& operation);
  void complete(GdsOperation& operation, const backend::Completion& completion);

  const Options options_;
  Workers& workers_;
  backend::Events& events_;
  Counters& counters_;
  std::vector<Flight> flights_;
  std::vector<Flight*> free_;
  backend::TurnQueue<GdsOperation> queue_;
  bool busy_ = false;  // inside start() or progress()
};

}  // namespace towpath::backends::gds
