#include "tools/replay/stream.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <towpath/core/format.h>

namespace towpath::tools::replay {
namespace {

constexpr std::uint64_t kGap = 64;                          // a cache line
constexpr std::uint64_t kRoom = std::uint64_t{256} << 20U;  // of each of three areas
constexpr std::uint64_t kMostLanes = 256;

Stream::Move move_of(const RecordedTransfer& recorded) {
  const std::uint64_t wanted =
      std::max<std::uint64_t>(1, recorded.runs != 0 ? recorded.runs : recorded.descriptors);
  const std::uint64_t run_bytes = (recorded.bytes - 1) / std::min(wanted, recorded.bytes) + 1;
  const std::uint64_t runs = (recorded.bytes - 1) / run_bytes + 1;
  const std::uint64_t gap = runs == 1 ? 0 : std::min(kGap, run_bytes);
  return {.at = recorded.at,
          .op = recorded.op,
          .run_bytes = run_bytes,
          .stride = run_bytes + gap,
          .runs = runs,
          .took = recorded.took};
}

/// Duration::max(): it had not ended.
Duration end_of(const Stream::Move& move) {
  const bool fits = move.took.count() > 0 && move.took < Duration::max() - move.at;
  return fits ? move.at + move.took : Duration::max();
}

/// How many were under way at a time, at most. What had not ended counts to the end.
std::uint64_t most_at_once(std::span<const Stream::Move> moves) {
  std::multiset<Duration> ends;
  std::size_t most = 0;
  for (const Stream::Move& move : moves) {
    ends.erase(ends.begin(), ends.upper_bound(move.at));
    ends.insert(end_of(move));
    most = std::max(most, ends.size());
  }
  return most;
}

}  // namespace

Result<Stream> plan_stream(std::span<const RecordedTransfer> recorded) {
  Stream stream;
  std::set<std::string_view> nodes;
  for (const RecordedTransfer& transfer : recorded) {
    if (transfer.node == transfer.peer || transfer.bytes == 0) {
      ++(transfer.bytes == 0 ? stream.empty : stream.own);
      continue;
    }
    if (transfer.bytes > kMaxMoveBytes)
      return error(Code::out_of_range,
                   cat("a transfer of ", format_bytes(transfer.bytes), " at ", transfer.at.count(),
                       " ns; at most ", format_bytes(kMaxMoveBytes), " are moved at once"),
                   "cut it into several lines");
    nodes.insert(transfer.node);
    stream.recorded_bytes += transfer.bytes;
    if (transfer.local != MemoryKind::system || transfer.remote != MemoryKind::system)
      ++stream.elsewhere;
    stream.moves.push_back(move_of(transfer));
    stream.area_bytes = std::max(stream.area_bytes, stream.moves.back().area_bytes());
  }
  if (stream.moves.empty())
    return error(Code::invalid_argument, "the recording has no transfer between two nodes",
                 "record nodes that move bytes to each other");
  std::ranges::stable_sort(stream.moves, {}, &Stream::Move::at);  // recorded as they ended
  const Duration first = stream.moves.front().at;
  for (Stream::Move& move : stream.moves) {
    move.at -= first;
    const Duration end = end_of(move);
    stream.length = std::max(stream.length, end == Duration::max() ? move.at : end);
  }
  stream.nodes = nodes.size();
  stream.lanes = std::min({most_at_once(stream.moves), kMostLanes,
                           std::max<std::uint64_t>(1, kRoom / stream.area_bytes)});
  return stream;
}

}  // namespace towpath::tools::replay
