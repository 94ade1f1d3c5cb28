// Dispatcher: brings the I/Os of all operations through one engine: at most `depth` at a time, in
// turns, batched; continues what came back short; settles every byte once; tells the outcome.
//
// It is not the backend (posix_backend.cc): it knows no registrations and no peers, and sees the
// kernel only through Engine.
// Invariants:
//   - Bytes count as in place only when the engine reported them.
//   - An operation completes when nothing of it is in the engine any more.
//   - Buffered and O_DIRECT writes of one file are never in the engine together (open_file.h).
// Thread: loop. Cost: no allocation, lock or system call per I/O; one flush per batch.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backends/posix/bounce_pool.h>
#include <towpath/backends/posix/counters.h>
#include <towpath/backends/posix/engine.h>
#include <towpath/backends/posix/flight.h>
#include <towpath/backends/posix/operation.h>

namespace towpath::backends::posix {

class Dispatcher {
 public:
  struct Options {
    std::uint32_t depth = 64;
    Limits limits;
    std::uint32_t bounce_buffers = 16;
    bool buffers_for_page_cache = false;  ///< registered ones, where there are any
  };

  /// All must outlive it.
  Dispatcher(const Options& options, Engine& engine, backend::Events& events, Counters& counters);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Makes ready for O_DIRECT files. Errors: exhausted.
  Status prepare_bounce() { return bounce_.prepare(); }

  void start(PosixOperation& operation, const backend::Request& request);
  void cancel(PosixOperation& operation);
  /// As Backend::progress().
  bool progress();

  /// Whether an I/O in the engine reads or writes this memory. For the checks of who destroys it.
  bool touches(const PosixMemory& memory) const noexcept;

  Counters& counters() const noexcept { return counters_; }
  std::uint32_t in_flight() const noexcept { return in_flight_; }

 private:
  enum class Launch { started, waits };

  bool submit_some();
  Launch launch(PosixOperation& operation, std::uint64_t& buffered_budget);
  bool admit(Flight& flight, bool write);
  void flush();
  std::size_t reap_some();

  void submit(Flight& flight);
  void settle(Flight& flight, std::int32_t result);
  void on_error(Flight& flight, int errno_value);
  void on_moved(Flight& flight, std::uint64_t bytes);
  void on_nothing(Flight& flight);
  void retry_or_fail(Flight& flight, int errno_value);
  void continue_short(Flight& flight);
  void fail_part(Flight& flight, const Status& why);
  void go_on(Flight& flight);
  void stop(Flight& flight);
  void release(Flight& flight);

  void complete_if_quiet(PosixOperation& operation);
  void complete(PosixOperation& operation, const backend::Completion& completion);

  Engine& engine_;
  backend::Events& events_;
  Limits limits_;
  const bool buffers_for_page_cache_;
  Counters& counters_;
  BouncePool bounce_;
  std::vector<Flight> flights_;  // depth of them; never grows
  std::vector<Flight*> free_;
  OperationQueue queue_;
  std::uint32_t in_flight_ = 0;
  std::uint32_t idle_calls_ = 0;
  bool unflushed_ = false;
  bool busy_ = false;  // events are being told: what they start is picked up afterwards
};

}  // namespace towpath::backends::posix
