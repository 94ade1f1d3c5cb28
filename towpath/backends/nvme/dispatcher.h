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
#include <towpath/backend/piece_operation.h>
#include <towpath/backends/nvme/counters.h>
#include <towpath/backends/nvme/driver.h>
#include <towpath/backends/nvme/splitter.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::nvme {

/// One transfer between memory and namespaces. Thread: loop.
class NvmeOperation final : public backend::PieceOperation {
 public:
  using PieceOperation::PieceOperation;

  Splitter& splitter() noexcept { return splitter_; }

 private:
  void begin() override { splitter_.start(segments(), writes()); }
  bool has_more() const override { return !splitter_.done(); }

  Splitter splitter_;
};

/// Blocks of a namespace.
struct Blocks {
  std::uint64_t lba = 0;
  std::uint64_t count = 0;
};

/// What the command in the engine is for.
enum class Step : std::uint8_t {
  move,   ///< the piece itself
  fetch,  ///< the block that a part of is to be changed
};

/// A piece on its way, and the blocks and the window that it needs for that. One that is to be
/// changed goes to the drive twice: it is read, then written back. Thread: loop.
struct Flight : backend::PieceFlight {
  Piece piece;
  Blocks blocks;  ///< that the whole piece touches
  Step step = Step::move;
  ByteSpan window;  ///< its own memory for detours, as long as the longest window

  void carry(const Piece& its_piece) noexcept {
    piece = its_piece;
    start = piece.start;
    length = piece.length;
    copies = piece.path != Path::direct;  // over the window
    step = piece.path == Path::modify ? Step::fetch : Step::move;
  }
  const NamespaceInfo& info() const noexcept { return piece.device->info(); }
};

/// Those that `bytes` bytes of the request from `start` on touch, and what lies between them.
Blocks blocks_of(Segments segments, const Position& start, std::uint64_t bytes,
                 std::uint32_t block_bytes) noexcept;

/// Copies between the user's memory and a window whose first byte is byte `begin` of the namespace.
void scatter(Segments segments, const Position& start, std::uint64_t bytes, ConstByteSpan window,
             std::uint64_t begin) noexcept;
void gather(Segments segments, const Position& start, std::uint64_t bytes, ByteSpan window,
            std::uint64_t begin) noexcept;

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
