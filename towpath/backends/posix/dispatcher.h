// Dispatcher: which I/O a piece is, in which order I/Os may run, and what the kernel's answers
// mean. How pieces take turns is backend/piece_dispatcher.h.
//
// It is not the backend (posix_backend.cc): it knows no registrations and no peers, and sees the
// kernel only through FileEngine.
// Invariant: buffered and O_DIRECT writes of one file are never in the engine together
// (open_file.h). Thread: loop.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/backend/piece_dispatcher.h>
#include <towpath/backend/piece_operation.h>
#include <towpath/backends/posix/counters.h>
#include <towpath/backends/posix/splitter.h>
#include <towpath/device/bounce.h>
#include <towpath/sys/file_engine.h>

namespace towpath::backends::posix {

/// One transfer between memory and files of the agent itself. Thread: loop.
class PosixOperation final : public backend::PieceOperation {
 public:
  PosixOperation(backend::PieceDispatcher& dispatcher, const Limits& limits) noexcept
      : PieceOperation(dispatcher), limits_(limits) {}

  Splitter& splitter() noexcept { return splitter_; }

 private:
  void begin() override { splitter_.start(segments(), writes(), limits_); }
  bool has_more() const override { return !splitter_.done(); }

  const Limits limits_;
  Splitter splitter_;
};

/// Of one I/O. 64 pieces of 4 KiB are 256 KiB, where the cost of a call no longer shows.
inline constexpr std::size_t kMaxParts = 64;

/// An I/O on its way, and the parts of memory that it goes to or comes from. Thread: loop.
struct Flight : backend::PieceFlight {
  Piece piece;
  ByteSpan bounce;                            ///< empty: goes straight
  std::array<sys::IoPart, kMaxParts> parts;   ///< of the whole piece
  std::array<sys::IoPart, kMaxParts> active;  ///< of [done, limit)

  void carry(const Piece& its_piece) noexcept {
    piece = its_piece;
    start = piece.start;
    length = piece.length;
    // A buffered I/O may copy inside the system call that starts it.
    copies = piece.path == Path::buffered;
  }
  std::uint64_t file_offset() const noexcept { return piece.file_offset + done; }
  OpenFile& file() const noexcept { return piece.disk->file(); }
};

/// The whole blocks of the file around [done, limit), and the buffer that they are read into.
struct BounceWindow {
  std::uint64_t offset = 0;  ///< in the file
  ByteSpan buffer;
  std::uint64_t skip = 0;  ///< bytes in front of what is wanted
};
BounceWindow bounce_window(const Flight& flight) noexcept;

/// The parts of `flight` from `done` to `limit`, in flight.active; says how many.
std::uint32_t select_parts(Flight& flight) noexcept;

/// Copies the first bytes of `from` to the parts that select_parts() would give, as far as both go.
void scatter(const Flight& flight, ConstByteSpan from) noexcept;

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
  Status prepare_bounce();
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
  const device::BounceSlots::Size bounce_size_;
  device::BounceSlots bounce_;   // none before prepare_bounce()
  std::vector<Flight> flights_;  // depth of them; never grows
};

}  // namespace towpath::backends::posix
