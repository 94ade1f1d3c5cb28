#include "tools/replay/stream_owner.h"

#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/memory/shared_region.h>
#include <towpath/standard/standard.h>

#include "tools/bench/pattern.h"
#include "tools/replay/meeting.h"

namespace towpath::tools::replay {
namespace {

class Owner {
 public:
  Owner(const Options& options, const Stream& stream, agent::Agent& agent, Meeting& meeting,
        RegionDescriptor memory)
      : options_(options), stream_(stream), agent_(agent), meeting_(meeting), memory_(memory) {}

  Status run() {
    for (std::uint64_t lane = 0; lane < stream_.lanes; ++lane) {
      bench::fill(area(lane), read_seed(lane));
      bench::poison(area(stream_.lanes + lane));
    }
    TOWPATH_TRY(send(agent_, player_,
                     {.kind = MessageKind::hello,
                      .figures = {{"address", memory_.address}, {"device", memory_.device_id}}}));
    while (true) {
      // Between two moves of a slow stream nothing may be said for as long as it likes.
      const auto said = meeting_.next_message(std::span(&player_, 1), options_.timeout);
      if (said.code() == Code::timed_out) continue;
      if (!said.ok()) return said.status();
      if (said->message.kind == MessageKind::finish) break;
      TOWPATH_TRY(look_at(said->message));
    }
    excuse_all(agent_);
    TOWPATH_TRY(send(agent_, player_, {.kind = MessageKind::summary}));
    return meeting_.stay_until_gone(player_, options_.timeout);
  }

 private:
  ByteSpan area(std::uint64_t index) const {
    return bytes_at(memory_.address + index * stream_.area_bytes, stream_.area_bytes);
  }

  /// `written`: lane, bytes and stride of its runs, and how many.
  Status look_at(const Message& written) {
    const std::vector<std::uint64_t>& reported = written.blocks;
    if (written.kind != MessageKind::pulled || reported.size() != 4 || reported[0] >= stream_.lanes)
      return error(Code::internal, "an unexpected message of the player");
    const ByteSpan bytes = area(stream_.lanes + reported[0]);
    const auto wrong = bench::first_wrong(bytes, {.seed = write_seed(written.ordinal),
                                                  .block_bytes = reported[1],
                                                  .stride = reported[2],
                                                  .count = reported[3]});
    bench::poison(bytes.first(std::min<std::uint64_t>(bytes.size(), reported[2] * reported[3])));
    return send(agent_, player_,
                {.kind = MessageKind::ready,
                 .ordinal = written.ordinal,
                 .blocks = {reported[0], wrong ? *wrong + 1 : 0}});
  }

  const Options& options_;
  const Stream& stream_;
  agent::Agent& agent_;
  Meeting& meeting_;
  const RegionDescriptor memory_;
  const std::string player_ = decode_name(0);
};

}  // namespace

Status run_stream_owner(const Options& options, const Stream& stream) {
  TOWPATH_TRY(const auto node, standard::Node::open({.name = prefill_name(0),
                                                     .backends = {options.backend},
                                                     .progress_thread = false,
                                                     .default_timeout = options.timeout}));
  TOWPATH_TRY(const auto region,
              memory::SharedMemoryRegion::create(
                  {.name = "towpath-replay", .size_bytes = 2 * stream.lanes * stream.area_bytes}));
  TOWPATH_TRY(const auto registration, node->agent().register_region(region));
  TOWPATH_TRY(const auto meeting, Meeting::open(options, node->agent(), node->clock()));
  const pid_t player = getppid();
  const auto lives = [&] {
    return getppid() == player ? Status() : error(Code::peer_lost, "the player is gone");
  };
  TOWPATH_TRY(meeting->meet(decode_name(0), options.timeout, lives));
  return Owner(options, stream, node->agent(), *meeting, region->descriptor()).run();
}

}  // namespace towpath::tools::replay
