#include <algorithm>
#include <cstring>

#include <towpath/backends/sim/flight.h>
#include <towpath/core/check.h>
#include <towpath/core/text.h>

namespace towpath::backends::sim {

Flight::Flight(backend::Operation& of, const backend::Request& request)
    : operation(of),
      connection(request.connection),
      op_(request.op),
      segments_(request.segments.begin(), request.segments.end()) {
  for (const backend::Segment& segment : segments_) {
    local_.push_back(static_cast<const SimMemory*>(segment.local)->record);
    remote_.push_back(static_cast<const SimMemory*>(segment.remote)->record);
  }
  cursor_.start(segments_);
}

void Flight::step(const Behaviour& behaviour, Random& random) {
  const std::uint64_t enough = bytes_ + behaviour.piece_bytes;
  do {
    move_piece(behaviour, random);
  } while (!behaviour.tears && !cursor_.done() && bytes_ < enough);
}

void Flight::move_piece(const Behaviour& behaviour, Random& random) {
  if (cursor_.done()) return;
  TOWPATH_CHECK(!local_[cursor_.index()]->freed, "local memory let go of under a transfer");
  if (remote_[cursor_.index()]->closed) {
    return fail_extent(
        error(Code::not_found, "the peer took its memory back", "load the peer's newest metadata"));
  }
  const std::uint64_t longest = std::min(cursor_.left(), behaviour.piece_bytes);
  const std::uint64_t length = behaviour.tears ? 1 + random.below(longest) : longest;
  const bool fails = random.chance(behaviour.failing);
  std::byte* const here = bytes_at(cursor_.local_address(), length).data();
  std::byte* const there = bytes_at(cursor_.remote_address(), length).data();
  const bool pulls = op_ == TransferOp::read;
  // memmove: a transfer to oneself may overlap, which must not be undefined behaviour.
  const std::uint64_t moved = fails ? length / 2 : length;
  std::memmove(pulls ? here : there, pulls ? there : here, moved);
  bytes_ += moved;
  if (moved > 0) cursor_.advance(moved);
  if (fails) fail_extent(error(Code::io_error, "the simulated network lost a packet"));
}

void Flight::fail_extent(Status why) {
  if (cursor_.done()) return;
  ++failed_;
  if (failures_.size() < backend::kMaxFailures)
    failures_.push_back({cursor_.index(), cursor_.extent(), cursor_.offset(), std::move(why)});
  cursor_.skip_extent();
}

void Flight::finish(Status status) {
  state = State::arrived;
  status_ = std::move(status);
  if (!status_.ok()) return failures_.clear();
  if (failed_ == 0) return;
  status_ = error(failures_.front().status.code(), cat(failed_, " extents are not in place"))
                .because(failures_.front().status);
}

}  // namespace towpath::backends::sim
