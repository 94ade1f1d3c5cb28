#include "tools/replay/prefill.h"

#include <map>

#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/proc_io.h>

#include "tools/replay/cache.h"
#include "tools/replay/history.h"
#include "tools/replay/meeting.h"

namespace towpath::tools::replay {
namespace {

class Prefill {
 public:
  Prefill(const Options& options, agent::Agent& agent, Meeting& meeting, Cache& cache)
      : options_(options), agent_(agent), meeting_(meeting), cache_(cache) {}

  Status run() {
    TOWPATH_TRY(hello());
    while (!finished_ || !orders_.empty()) {
      while (orders_.empty() && !finished_) TOWPATH_TRY(hear());
      if (orders_.empty()) break;
      const Message order = std::move(orders_.front());
      orders_.erase(orders_.begin());
      TOWPATH_TRY(serve(order));
    }
    return summarise();
  }

 private:
  Status hello() {
    TOWPATH_TRY(io_before_, sys::read_proc_io());
    Message message{.kind = MessageKind::hello};
    TOWPATH_TRY(message.layout, cache_.layout().serialize(agent_.identity().incarnation));
    return send(agent_, kDecode, message);
  }

  // Takes the next word of decode: orders wait, what was pulled is free to go.
  Status hear() {
    TOWPATH_TRY(Message message, meeting_.next_message(kDecode, options_.timeout));
    switch (message.kind) {
      case MessageKind::order: orders_.push_back(std::move(message)); return {};
      case MessageKind::finish: finished_ = true; return {};
      case MessageKind::pulled: {
        const auto lent = lent_.find(message.ordinal);
        if (lent == lent_.end()) return error(Code::internal, "pulled what was not lent");
        lent_.erase(lent);
        return {};
      }
      default: return error(Code::internal, "an unexpected message of decode");
    }
  }

  Status serve(const Message& order) {
    const auto make_room = [&]() -> Status {
      if (lent_.empty())
        return error(Code::exhausted, cat("request ", order.ordinal, " does not fit the host pool"),
                     "make it larger with --host-blocks");
      return hear();
    };
    TOWPATH_TRY(std::vector<kv::BlockRef> blocks, cache_.gather(order.blocks, make_room));
    history_.see(sys::SystemClock().now(), cache_.counts());
    Message ready{.kind = MessageKind::ready, .ordinal = order.ordinal};
    for (const kv::BlockRef& block : blocks) {
      ready.blocks.push_back(block.slot());
      ready.digests.push_back(block.identity().digest.value);
    }
    lent_.emplace(order.ordinal, std::move(blocks));
    if (options_.inject == Mistake::drop_notification && order.ordinal == kDropped) {
      dropped_ = true;
      return {};
    }
    return send(agent_, kDecode, ready);
  }

  Status summarise() {
    Message summary{.kind = MessageKind::summary};
    cache_.report(summary);
    history_.put(summary);
    TOWPATH_TRY(const sys::ProcIo after, sys::read_proc_io());
    summary.figures["kernel.read_bytes"] = after.read_bytes - io_before_.read_bytes;
    summary.figures["kernel.written_bytes"] = after.written_bytes - io_before_.written_bytes;
    if (dropped_) summary.figures["mistake_made"] = 1;
    for (const auto& [name, entry] : cache_.faults().by_name()) {
      summary.figures["fault." + name] = entry.count;
      summary.texts["fault." + name] = entry.first;
    }
    TOWPATH_TRY(send(agent_, kDecode, summary));
    // Stay until decode has read it: it closes first.
    while (check_alive(agent_, kDecode).ok()) {
      if (auto last = meeting_.next_message(kDecode, options_.timeout);
          last.code() == Code::timed_out)
        return last.status();
    }
    return {};
  }

  static constexpr std::uint64_t kDropped = 2;

  const Options& options_;
  agent::Agent& agent_;
  Meeting& meeting_;
  Cache& cache_;
  std::vector<Message> orders_;
  std::map<std::uint64_t, std::vector<kv::BlockRef>> lent_;  // by ordinal, until decode has pulled
  History history_;
  bool finished_ = false;
  bool dropped_ = false;
  sys::ProcIo io_before_;
};

}  // namespace

Status run_prefill(const Options& options) {
  TOWPATH_TRY(const auto node, standard::Node::open({.name = kPrefill,
                                                     .backends = {options.backend, "posix"},
                                                     .progress_thread = false,
                                                     .default_timeout = options.timeout}));
  TOWPATH_TRY(const auto cache, Cache::open(options, node->agent()));
  TOWPATH_TRY(const auto meeting, Meeting::open(options, node->agent(), node->clock()));
  const pid_t decode = getppid();
  const auto lives = [&] {
    return getppid() == decode ? Status() : error(Code::peer_lost, "the decode process is gone");
  };
  TOWPATH_TRY(meeting->meet(kDecode, options.timeout, lives));
  return Prefill(options, node->agent(), *meeting, *cache).run();
}

}  // namespace towpath::tools::replay
