// Dispatcher: which I/O a piece is, in which order I/Os may run, and what the kernel's answers
// mean. How pieces take turns is backend/piece_dispatcher.h.
//
// It is not the backend (posix_backend.cc): it knows no registrations and no peers, and sees the
// kernel only through FileEngine.
// Invariant: buffered and O_DIRECT writes of one file are never in the engine together
// (open_file.h). Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/backend/piece_dispatcher.h>
#include <towpath/backends/posix/bounce_pool.h>
#include <towpath/backends/posix/counters.h>
#include <towpath/backends/posix/flight.h>
#include <towpath/backends/posix/operation.h>
#include <towpath/sys/file_engine.h>

namespace towpath::backends::posix {

class Dispatcher final : public backend::PieceDispatcher {
 public:
  struct Options {
    std::uint32_t depth = 64;
    Limits limits;
    std::uint32_t bounce_buffers = 16;
    bool buffers_for_page_cache = false;  ///< registered ones, where there are any
  };

  /// All must outlive it.
  Dispatcher(const Options& options, sys::FileEngine& engine, backend::Events& events,
             Counters& counters);

  /// Makes ready for O_DIRECT files. Errors: exhausted.
  Status prepare_bounce() { return bounce_.prepare(); }
  std::unique_ptr<PosixOperation> make_operation() {
    return std::make_unique<PosixOperation>(*this, limits_);
  }
  Counters& counters() const noexcept { return counters_; }

 private:
  Status check(const backend::Segment& segment, bool write) const override;
  Take take(backend::PieceOperation& operation, backend::PieceFlight& flight) override;
  Status hand_in(backend::PieceFlight& flight) override;
  void settle(backend::PieceFlight& flight, std::int32_t result) override;
  std::uint64_t unit_of(const backend::PieceFlight& flight) const override;
  void let_go(backend::PieceFlight& flight) override;

  bool admit(Flight& flight, bool write);
  bool read_cached(PosixOperation& operation, Flight& flight);
  void on_error(Flight& flight, int errno_value);
  void on_moved(Flight& flight, std::uint64_t bytes);
  void on_nothing(Flight& flight);
  void retry_or_fail(Flight& flight, int errno_value);
  void continue_short(Flight& flight);

  sys::FileEngine& engine_;
  Limits limits_;
  const bool buffers_for_page_cache_;
  Counters& counters_;
  BouncePool bounce_;
  std::vector<Flight> flights_;  // depth of them; never grows
};

}  // namespace towpath::backends::posix
