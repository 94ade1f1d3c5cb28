#include <algorithm>
#include <bit>

#include <towpath/blockcopy/copy_times.h>

namespace towpath::blockcopy {
namespace {

constexpr PieceMover other_than(PieceMover mover) {
  return mover == PieceMover::kernel ? PieceMover::engine : PieceMover::kernel;
}

constexpr std::size_t index_of(PieceMover mover) { return static_cast<std::size_t>(mover); }

}  // namespace

CopyTrial CopyTimes::choose(RouteEnd source, RouteEnd target, std::uint64_t bytes,
                            std::uint64_t piece_bytes) const {
  const PieceMover declared = piece_bytes < bound_ ? PieceMover::kernel : PieceMover::engine;
  CopyTrial trial{.alike = {source, target, std::bit_floor(bytes), std::bit_floor(piece_bytes)},
                  .mover = declared,
                  .bytes = bytes};
  const auto known = choices_.find(trial.alike);
  if (trials_ == 0 || !is_near(piece_bytes) || known == choices_.end()) return trial;
  const MeasuredChoice& choice = known->second;
  for (const PieceMover mover : {declared, other_than(declared)}) {
    trial.mover = mover;
    if (choice.wants_trial(index_of(mover))) return trial;
  }
  trial.mover = static_cast<PieceMover>(choice.fastest().value_or(index_of(declared)));
  return trial;
}

void CopyTimes::note(const CopyTrial& trial, std::optional<Duration> took) {
  if (trials_ == 0 || !is_near(trial.alike.least_piece_bytes)) return;
  auto known = choices_.find(trial.alike);
  if (known == choices_.end()) {
    if (choices_.size() == kMaxClasses) return;
    known = choices_.try_emplace(trial.alike, 2, trials_).first;
  }
  if (!known->second.wants_trial(index_of(trial.mover))) return;
  if (took) {
    const double share =
        static_cast<double>(trial.alike.least_bytes) / static_cast<double>(trial.bytes);
    took =
        std::max(Duration(1),
                 Duration(static_cast<std::int64_t>(static_cast<double>(took->count()) * share)));
  }
  (void)known->second.note(index_of(trial.mover), took);
}

}  // namespace towpath::blockcopy
