// A decode worker of a replay: asks a prefill for the blocks of each of its requests, pulls them
// into its own pool in one transfer, and verifies every byte.
//
// Requests go round: the nth is that of decode worker n mod D, who asks the prefills in turn. When
// one of several prefills dies, what was asked of it is asked of another, who makes the blocks
// anew: misses, and no more. The first decode worker collects what all came to (decode_summary.cc).
//
// One thread does all, also the agent's progress; the prefills work ahead meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include <towpath/core/result.h>
#include <towpath/kv/digest.h>
#include <towpath/layout/physical_layout.h>
#include <towpath/layout/remote_layout.h>
#include <towpath/standard/standard.h>

#include "tools/replay/meeting.h"
#include "tools/replay/options.h"
#include "tools/replay/outcome.h"
#include "tools/traces/trace.h"

namespace towpath::tools::replay {

class DecodeWorker {
 public:
  /// Publishes its metadata at `options.rendezvous`; the others may be started now.
  static Result<std::unique_ptr<DecodeWorker>> open(const Options& options);

  /// Plays its share of `source`. `others_live` is asked until they were met, `kill_one` is called
  /// when options.kill_after requests were served. Errors: what ends the run before its end
  /// (peer_lost, timed_out, a bad trace); what is found wrong is in the outcome.
  Result<ReplayOutcome> run(traces::RequestSource& source, const Alive& others_live,
                            const std::function<void()>& kill_one);

 private:
  explicit DecodeWorker(const Options& options) : options_(options) {}

  struct Prefill {
    std::string name;
    std::optional<layout::RemoteLayout> pool;
    Account reported{};      // of its mistakes, with each "ready"
    bool summed_up = false;  // by itself
    bool lost = false;
  };
  struct Order {
    std::uint64_t ordinal = 0;
    std::vector<std::uint64_t> blocks;
    bool more = false;           // another order for the same prefill comes for certain
    Prefill* prefill = nullptr;  // whom it was asked of
  };

  Status meet(const Alive& others_live);
  Status hear_hellos();
  std::vector<std::string> living() const;
  Prefill* prefill_named(const std::string& name);
  Status lose_the_dead();
  Status ask_again(Order order);
  Status send_order(Order order);
  Result<Prefill*> whom_to_ask(std::uint64_t ordinal);
  Status open_pool(const layout::LayoutConfig& like);
  Status fill_window(traces::RequestSource& source);
  Status fetch_next(traces::RequestSource& source);
  Status ask(const traces::Request& request, std::uint64_t ordinal);
  Instant due() const;
  Result<std::optional<Meeting::Said>> hear();
  Status take_ready(const Meeting::Said& said);
  std::optional<Order> take_order(const Meeting::Said& said);
  Status pull(const Order& order, const Message& ready);
  Status verify(const Order& order, const Message& ready);
  std::string examine(const Order& order, std::size_t index, const kv::Digest& reported);
  Status finish();
  Status dismiss_prefills();
  Result<std::optional<Meeting::Said>> hear_summary(std::vector<std::string>& from);
  Message summary() const;
  void take_decode_summary(const Message& summary);
  void take_summary(const Message& summary);
  void bury_the_dead();
  void check_against_kernel();
  void show_progress(bool last);

  const Options options_;
  std::unique_ptr<standard::Node> node_;
  std::unique_ptr<Meeting> meeting_;
  std::vector<Prefill> prefills_;
  std::optional<layout::PhysicalLayout> pool_;

  std::vector<Order> outstanding_;    // in order
  std::vector<Meeting::Said> early_;  // summaries of decode workers that ended before this one
  std::uint64_t next_ordinal_ = 0;
  std::optional<traces::Request> next_;  // of the source; nothing: it has ended
  std::optional<std::uint64_t> first_ms_;
  Instant heard_;  // when prefill said its last word, or had nothing to say until then
  Hop pulled_;
  ReplayOutcome outcome_;
  Instant started_;
  const bool is_live_ = isatty(STDERR_FILENO) == 1;  ///< a terminal shows the progress
  Instant shown_;
};

}  // namespace towpath::tools::replay
