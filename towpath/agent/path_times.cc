#include <algorithm>
#include <bit>

#include <towpath/agent/memory_record.h>
#include <towpath/agent/path_times.h>
#include <towpath/core/format.h>

namespace towpath::agent {
namespace {

std::uint64_t class_of(std::uint64_t bytes) {
  return std::bit_floor(std::max<std::uint64_t>(bytes, 1));
}

/// What took `time` for `of` bytes, for `wanted`.
Duration scaled(Duration time, std::uint64_t of, std::uint64_t wanted) {
  const double factor =
      static_cast<double>(wanted) / static_cast<double>(std::max<std::uint64_t>(of, 1));
  return Duration(static_cast<std::int64_t>(static_cast<double>(time.count()) * factor));
}

}  // namespace

TransferClass TransferClass::of(TransferOp op, MemoryKind local, MemoryKind remote,
                                std::uint64_t bytes, std::uint64_t descriptors) noexcept {
  return {.op = op,
          .local = local,
          .remote = remote,
          .least_bytes = class_of(bytes),
          .least_piece_bytes = class_of(bytes / std::max<std::uint64_t>(descriptors, 1))};
}

std::string to_string(const TransferClass& alike) {
  return cat(name_of(alike.op), " ", name_of(alike.local),
             alike.op == TransferOp::read ? " <- " : " -> ", name_of(alike.remote), ", from ",
             format_bytes(alike.least_bytes), ", in pieces from ",
             format_bytes(alike.least_piece_bytes));
}

PathTimes::Known PathTimes::known(const TransferClass& alike, std::size_t instance,
                                  std::uint64_t bytes, unsigned trials) const {
  const run::MutexLock lock(mutex_);
  const auto found = choices_.find(alike);
  if (found == choices_.end()) {
    return {.wants_trial = trials > 0 && choices_.size() < kMaxClasses};
  }
  const MeasuredChoice& choice = found->second;
  Known known{.wants_trial = choice.wants_trial(instance),
              .has_failed = choice.has_failed(instance)};
  if (const auto best = choice.best(instance)) known.time = scaled(*best, alike.least_bytes, bytes);
  known.spread = scaled(choice.spread(instance), alike.least_bytes, bytes);
  return known;
}

bool PathTimes::note(const TransferClass& alike, const Trial& trial, unsigned trials) {
  const run::MutexLock lock(mutex_);
  auto found = choices_.find(alike);
  if (found == choices_.end()) {
    if (choices_.size() >= kMaxClasses) return false;
    found = choices_.emplace(alike, MeasuredChoice(kMaxInstances, trials)).first;
  }
  std::optional<Duration> took = trial.took;
  if (took) took = scaled(*took, trial.bytes, alike.least_bytes);
  return found->second.note(trial.instance, took);
}

std::optional<std::size_t> PathTimes::fastest(const TransferClass& alike) const {
  const run::MutexLock lock(mutex_);
  const auto found = choices_.find(alike);
  if (found == choices_.end()) return std::nullopt;
  return found->second.fastest();
}

}  // namespace towpath::agent
