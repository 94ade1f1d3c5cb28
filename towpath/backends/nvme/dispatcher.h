// Dispatcher: which command a piece is, which pieces must wait for each other, and what a drive's
// answers mean. How pieces take turns is backend/piece_dispatcher.h.
//
// It is not the backend (nvme_backend.cc): it knows no registrations and no peers, and sees the
// drives only through Engine.
// Invariant: while a block is read to be changed and written back, nothing else of ours writes to
// it. Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/backend/piece_dispatcher.h>
#include <towpath/backends/nvme/counters.h>
#include <towpath/backends/nvme/driver.h>
#include <towpath/backends/nvme/flight.h>
#include <towpath/backends/nvme/operation.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::nvme {

class Dispatcher final : public backend::PieceDispatcher {
 public:
  struct Options {
    std::uint32_t depth = 64;
    bool durable = false;
  };

  /// `windows`: kWindowBytes for each of `depth`. The rest must outlive it.
  Dispatcher(const Options& options, sys::Mapping windows, Engine& engine, backend::Events& events,
             Counters& counters);

  std::unique_ptr<NvmeOperation> make_operation() { return std::make_unique<NvmeOperation>(*this); }

 private:
  Status check(const backend::Segment& segment, bool write) const override;
  Take take(backend::PieceOperation& operation, backend::PieceFlight& flight) override;
  Status hand_in(backend::PieceFlight& flight) override;
  void settle(backend::PieceFlight& flight, std::int32_t result) override;
  std::uint64_t unit_of(const backend::PieceFlight& flight) const override;

  bool must_wait(const Flight& flight) const noexcept;
  Result<Command> encode(Flight& flight) const;
  void on_moved(Flight& flight);
  void on_error(Flight& flight, std::int32_t result);

  const Options options_;
  const sys::Mapping windows_;
  Engine& engine_;
  Counters& counters_;
  std::vector<Flight> flights_;  // depth of them; never grows
};

}  // namespace towpath::backends::nvme
