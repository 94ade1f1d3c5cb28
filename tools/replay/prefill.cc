#include "tools/replay/prefill.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/run/worker.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/proc_io.h>
#include <towpath/telemetry/cache_meter.h>

#include "tools/node_telemetry.h"
#include "tools/replay/cache.h"
#include "tools/replay/chance.h"
#include "tools/replay/history.h"
#include "tools/replay/meeting.h"
#include "tools/run/signals.h"

namespace towpath::tools::replay {
namespace {

std::vector<std::string> tier_names() {
  std::vector<std::string> names;
  for (const Place tier : kTiers) names.emplace_back(name_of(tier));
  return names;
}

class Prefill {
 public:
  Prefill(const Options& options, standard::Node& node, Meeting& meeting, Cache& cache,
          std::uint64_t block_bytes)
      : options_(options),
        agent_(node.agent()),
        meeting_(meeting),
        cache_(cache),
        meter_(node.telemetry() ? node.telemetry()->cache_meter() : telemetry::CacheMeterParts(),
               tier_names(), block_bytes) {}

  Status run() {
    meeting_.share_with({.takes = [this](const auto& note) { return is_of_neighbour(note); },
                         .progress = [this] { return cache_.serve(); }});
    TOWPATH_TRY(hello());
    while (!finished() || !orders_.empty()) {
      while (orders_.empty() && !finished()) TOWPATH_TRY(hear_the_next());
      if (orders_.empty()) break;
      if (options_.faults > 0 || options_.peers) TOWPATH_TRY(hear_what_has_come());
      const Meeting::Said order = std::move(orders_.front());
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
    for (const std::string& decode : decodes_) TOWPATH_TRY(send(agent_, decode, message));
    return {};
  }

  bool is_of_neighbour(const agent::Notification& note) {
    if (std::ranges::find(neighbours_, note.from.name) == neighbours_.end()) return false;
    cache_.hear(note);
    return true;
  }

  bool finished() const { return farewells_ == decodes_.size(); }

  // Takes the next word of a decode: orders wait, what was pulled is free to
  // go.
  Status hear() { return hear(options_.timeout); }
  Status hear(Duration timeout) {
    TOWPATH_TRY(Meeting::Said said, meeting_.next_message(decodes_, timeout));
    const Message& message = said.message;
    switch (message.kind) {
      case MessageKind::order: orders_.push_back(std::move(said)); return {};
      case MessageKind::finish: ++farewells_; return {};
      case MessageKind::pulled: {
        const auto granted = granted_.find(message.ordinal);
        if (granted == granted_.end()) return error(Code::internal, "pulled what was not leased");
        granted_.erase(granted);
        return {};
      }
      default: return error(Code::internal, "an unexpected message of decode");
    }
  }

  // Between two requests of a slow trace nothing may be said for as long as it likes, unless decode
  // owes a word of what it pulls.
  Status hear_the_next() {
    const Status heard = hear();
    return heard.code() == Code::timed_out && granted_.empty() ? Status() : heard;
  }

  Status hear_what_has_come() {
    while (true) {
      const Status heard = hear(Duration(0));
      if (heard.code() == Code::timed_out) return {};
      TOWPATH_TRY(heard);
    }
  }

  // Only when another order of the same decode is served after it, which shows it that this one is
  // missing: one that waits already, or one that it has announced.
  bool drops_by_chance(const Meeting::Said& order) {
    const bool waits = std::ranges::any_of(
        orders_, [&](const Meeting::Said& other) { return other.who == order.who; });
    const bool follows = waits || figure_of(order.message, "more") != 0;
    const bool drops = follows && dropped_last_ != order.who && chance_.strikes();
    dropped_last_ = drops ? order.who : "";
    if (drops) {
      chance_.made(Mistake::drop_notification);
      ++dropped_for_[order.who];
    }
    return drops;
  }

  void see(const TierCounts& now) {
    history_.see(sys::SystemClock().now(), now);
    std::array<std::uint64_t, kPlaces.size()> more{};
    for (std::size_t i = 0; i < more.size(); ++i)
      more[i] = now.found[kPlaces[i]] - seen_.found[kPlaces[i]];
    meter_.found(more);
    const kv::TieredCacheFigures figures = cache_.figures();
    meter_.waits(figures.waiting_promotions, figures.waiting_demotions);
    seen_ = now;
  }

  // Decode pulls what it was notified of, a neighbour gives back what it has leased.
  Status make_room(std::uint64_t ordinal) {
    constexpr Duration kMoment = std::chrono::milliseconds(1);
    if (cache_.is_granting()) {
      const Status heard = hear(kMoment);
      return heard.code() == Code::timed_out ? Status() : heard;
    }
    if (granted_.empty())
      return error(Code::exhausted, cat("request ", ordinal, " does not fit the host pool"),
                   "make it larger with --host-blocks");
    return hear();
  }

  Status serve(const Meeting::Said& said) {
    if (drops_by_chance(said)) return {};
    const Message& order = said.message;
    const Meanwhile meanwhile{.make_room = [&] { return make_room(order.ordinal); },
                              .listen = [&] { meeting_.take_notifications(); }};
    TOWPATH_TRY(std::vector<kv::BlockRef> blocks, cache_.gather(order.blocks, meanwhile));
    see(cache_.counts());
    Message ready{.kind = MessageKind::ready, .ordinal = order.ordinal};
    for (const kv::BlockRef& block : blocks) {
      ready.blocks.push_back(block.slot());
      ready.digests.push_back(block.identity().digest.value);
    }
    if (options_.faults > 0) news_for(said.who).put(ready, kMistakes);
    granted_.emplace(order.ordinal, std::move(blocks));
    if (options_.inject == Mistake::drop_notification && served_++ == kDropped) {
      dropped_ = true;
      return {};
    }
    return send(agent_, said.who, ready);
  }

  // Of mistakes that decode meets those of this answer, and of what was dropped before it; of all
  // others what came of them so far.
  Account news_for(const std::string& decode) {
    const Account now = cache_.mistakes();
    Account news = now;
    for (const Mistake mistake : all_mistakes())
      if (is_met_by_decode(mistake)) news.of(mistake).made -= reported_.of(mistake).made;
    news.of(Mistake::drop_notification).made = std::exchange(dropped_for_[decode], 0);
    reported_ = now;
    return news;
  }

  Status summarise() {
    TOWPATH_TRY(cache_.settle());
    Message summary{.kind = MessageKind::summary};
    cache_.report(summary);
    if (options_.faults > 0) {
      Account mistakes = cache_.mistakes();
      mistakes.add(chance_.account());
      mistakes.put(summary, kMistakes);
    }
    history_.put(summary);
    TOWPATH_TRY(const sys::ProcIo after, sys::read_proc_io());
    summary.figures["kernel.read_bytes"] = after.read_bytes - io_before_.read_bytes;
    summary.figures["kernel.written_bytes"] = after.written_bytes - io_before_.written_bytes;
    if (dropped_) summary.figures["mistake_made"] = 1;
    put(summary, cache_.faults());
    excuse_all(agent_);
    TOWPATH_TRY(send(agent_, decodes_.front(), summary));
    return meeting_.stay_until_gone(decodes_.front(), options_.timeout);
  }

  static constexpr std::uint64_t kDropped = 2;

  const Options& options_;
  agent::Agent& agent_;
  Meeting& meeting_;
  Cache& cache_;
  const std::vector<std::string> decodes_ = decode_names(options_);
  const std::vector<std::string> neighbours_ = neighbour_names(options_);
  std::vector<Meeting::Said> orders_;
  std::map<std::uint64_t, std::vector<kv::BlockRef>>
      granted_;  // by ordinal, until decode has pulled
  telemetry::CacheMeter meter_;
  TierCounts seen_;
  History history_;
  Chance chance_{options_.faults, ~options_.generator.seed};  // not that of the tiers
  std::string dropped_last_;                                  // whose order
  std::map<std::string, std::uint64_t> dropped_for_;  // by decode, which does not know it yet
  Account reported_;                                  // of the cache's mistakes
  std::size_t farewells_ = 0;
  std::uint64_t served_ = 0;
  bool dropped_ = false;
  sys::ProcIo io_before_;
};

/// As the signal would have.
void end_by(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  (void)::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  (void)::raise(number);
}

/// A signal still ends this process, but its files go first: where decode runs on another host,
/// nobody else removes them.
Result<run::Worker> remove_files_at_signals(const Options& options) {
  TOWPATH_TRY(sys::Fd watched, watch_ending_signals());
  return run::Worker::start("signals", [signals = std::make_shared<sys::Fd>(std::move(watched)),
                                        own = own_folder(options),
                                        all = run_folder(options)](const run::StopToken& stop) {
    std::array<pollfd, 2> wakes{{{.fd = signals->get(), .events = POLLIN, .revents = 0},
                                 {.fd = stop.fd(), .events = POLLIN, .revents = 0}}};
    while (!stop.stop_requested()) {
      (void)::poll(wakes.data(), wakes.size(), -1);
      const int number = take_signal(*signals);
      if (number == 0) continue;
      std::error_code failed;
      std::filesystem::remove_all(own, failed);
      (void)::rmdir(all.c_str());
      end_by(number);
    }
  });
}

}  // namespace

Status run_prefill(const Options& options) {
  TOWPATH_TRY(const run::Worker signals, remove_files_at_signals(options));
  TOWPATH_TRY(auto telemetry, telemetry_of_environment());
  TOWPATH_TRY(const auto node, standard::Node::open({.name = prefill_name(options.worker),
                                                     .backends = {options.backend, "posix"},
                                                     .progress_thread = false,
                                                     .default_timeout = options.timeout,
                                                     .telemetry = std::move(telemetry)}));
  TOWPATH_TRY(const auto cache, Cache::open(options, node->agent()));
  TOWPATH_TRY(const auto meeting, Meeting::open(options, node->agent(), node->clock()));
  const pid_t decode = getppid();
  const auto lives = [&] {
    return getppid() == decode ? Status() : error(Code::peer_lost, "the decode process is gone");
  };
  for (const std::string& decode_worker : decode_names(options))
    TOWPATH_TRY(meeting->meet(decode_worker, options.timeout, lives));
  TOWPATH_TRY(const std::uint64_t block_bytes, cache->layout().config().block_bytes());
  return Prefill(options, *node, *meeting, *cache, block_bytes).run();
}

}  // namespace towpath::tools::replay
