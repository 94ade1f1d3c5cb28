// Dispatcher: brings the pieces of all operations through one engine: at most `depth` at a time, in
// turns, batched; settles every byte once; tells the outcome.
//
// It is not the backend (nvme_backend.cc): it knows no registrations and no peers, and sees the
// drives only through Engine.
// Invariants:
//   - Bytes count as in place only when the drive completed the command that moves them.
//   - An operation completes when nothing of it is in the engine any more.
//   - While a block is read to be changed and written back, nothing else of ours writes to it.
// Thread: loop. Cost: no allocation, lock or system call per piece; one flush per batch.
#pragma once

#include <cstdint>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backends/nvme/counters.h>
#include <towpath/backends/nvme/driver.h>
#include <towpath/backends/nvme/flight.h>
#include <towpath/backends/nvme/operation.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::nvme {

class Dispatcher {
 public:
  struct Options {
    std::uint32_t depth = 64;
    bool durable = false;
  };

  /// `windows`: kWindowBytes for each of `depth`. The rest must outlive it.
  Dispatcher(const Options& options, sys::Mapping windows, Engine& engine, backend::Events& events,
             Counters& counters);
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  void start(NvmeOperation& operation, const backend::Request& request);
  void cancel(NvmeOperation& operation);
  /// As Backend::progress().
  bool progress();

  /// Whether a command in the engine reads or writes this memory. For the checks of who destroys
  /// it.
  bool touches(const NvmeMemory& memory) const noexcept;
  std::uint32_t in_flight() const noexcept { return in_flight_; }

 private:
  enum class Launch { started, waits };

  bool submit_some();
  Launch launch(NvmeOperation& operation, std::uint64_t& copy_budget);
  bool must_wait(const Flight& flight) const noexcept;
  void flush();
  std::size_t reap_some();

  void submit(Flight& flight);
  Result<Command> encode(Flight& flight) const;
  void settle(Flight& flight, std::int32_t result);
  void on_moved(Flight& flight);
  void on_error(Flight& flight, std::int32_t result);
  void fail_part(Flight& flight, const Status& why);
  void go_on(Flight& flight);
  void stop(Flight& flight);
  void release(Flight& flight);

  void complete_if_quiet(NvmeOperation& operation);
  void complete(NvmeOperation& operation, const backend::Completion& completion);

  const Options options_;
  const sys::Mapping windows_;
  Engine& engine_;
  backend::Events& events_;
  Counters& counters_;
  std::vector<Flight> flights_;  // depth of them; never grows
  std::vector<Flight*> free_;
  OperationQueue queue_;
  std::uint32_t in_flight_ = 0;
  std::uint32_t idle_calls_ = 0;
  bool unflushed_ = false;
  bool busy_ = false;  // events are being told: what they start is picked up afterwards
};

}  // namespace towpath::backends::nvme
