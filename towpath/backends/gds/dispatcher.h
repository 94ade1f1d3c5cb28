// Dispatcher: which call a piece is, and what libcufile's answers mean. How pieces take turns is
// backend/piece_dispatcher.h.
//
// A piece ends where memory or file have a gap, and after `chunk_bytes`. The dispatcher knows no
// registrations and no peers. Thread: loop.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/backend/piece_dispatcher.h>
#include <towpath/backends/gds/counters.h>
#include <towpath/backends/gds/engine.h>

namespace towpath::backends::gds {

/// One transfer between a GPU's memory and files.
class GdsOperation final : public backend::PieceOperation {
 public:
  using PieceOperation::PieceOperation;

  backend::Position at;  ///< what is in no piece yet

 private:
  void begin() override { at = backend::first_byte(segments(), {}); }
  bool has_more() const override { return at.segment < segments().size(); }
};

struct Flight : backend::PieceFlight {
  const DeviceMemory* memory = nullptr;
  const GdsFile* file = nullptr;
  std::uint64_t memory_offset = 0;  ///< of the piece's first byte, in the registered memory
  std::uint64_t file_offset = 0;
};

class Dispatcher final : public backend::PieceDispatcher {
 public:
  struct Options {
    std::uint32_t depth = 64;
    std::uint64_t chunk_bytes = 16U << 20U;
  };
  /// All must outlive it.
  Dispatcher(const Options& options, const CuFile& cufile, Engine& engine, backend::Events& events,
             Counters& counters);

  std::unique_ptr<GdsOperation> make_operation() { return std::make_unique<GdsOperation>(*this); }

 private:
  Status check(const backend::Segment& segment, bool write) const override;
  Take take(backend::PieceOperation& operation, backend::PieceFlight& flight) override;
  Status hand_in(backend::PieceFlight& flight) override;
  void settle(backend::PieceFlight& flight, std::int32_t result) override;
  std::uint64_t unit_of(const backend::PieceFlight&) const override { return 1; }

  void on_moved(Flight& flight, std::uint64_t bytes);
  void on_nothing(Flight& flight);
  void on_error(Flight& flight, std::int32_t result);

  const Options options_;
  const CuFile& cufile_;
  Engine& engine_;
  Counters& counters_;
  std::vector<Flight> flights_;  // depth of them; never grows
};

}  // namespace towpath::backends::gds
