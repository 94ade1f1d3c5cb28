// The decode side of a replay: asks prefill for the blocks of each request, pulls them into its own
// pool in one transfer, and looks at every byte.
//
// One thread does all, also the agent's progress; prefill works ahead meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include <towpath/core/result.h>
#include <towpath/kv/digest.h>
#include <towpath/kv/trace.h>
#include <towpath/layout/physical_layout.h>
#include <towpath/layout/remote_layout.h>
#include <towpath/standard/standard.h>

#include "tools/replay/meeting.h"
#include "tools/replay/options.h"
#include "tools/replay/outcome.h"

namespace towpath::tools::replay {

class DecodeWorker {
 public:
  /// Publishes its card at `options.rendezvous`; prefill may be started now.
  static Result<std::unique_ptr<DecodeWorker>> open(const Options& options);

  /// Plays all of `source`. `prefill_lives` is asked until prefill was met. Errors: what ends the
  /// run before its end (peer_lost, timed_out, a bad trace); what is found wrong is in the outcome.
  Result<ReplayOutcome> run(kv::RequestSource& source, const Alive& prefill_lives);

 private:
  explicit DecodeWorker(const Options& options) : options_(options), digester_(options.salt) {}

  struct Order {
    std::uint64_t ordinal = 0;
    std::vector<std::uint64_t> blocks;
  };

  Status hear_hello();
  Status open_pool(const layout::LayoutConfig& like);
  Status fill_window(kv::RequestSource& source);
  Status fetch_next(kv::RequestSource& source);
  Status ask(const kv::Request& request);
  Instant due() const;
  Result<std::optional<Message>> hear();
  Status take_ready(const Message& ready);
  Status pull(const Order& order, const Message& ready);
  Status verify(const Order& order, const Message& ready);
  std::string examine(const Order& order, std::size_t index, const kv::Digest& told);
  Status finish();
  void take_summary(const Message& summary);
  void check_against_kernel();
  void show_progress(bool last);

  const Options options_;
  std::unique_ptr<standard::Node> node_;
  std::unique_ptr<Meeting> meeting_;
  std::optional<layout::RemoteLayout> remote_;
  std::optional<layout::PhysicalLayout> pool_;
  kv::Digester digester_;

  std::vector<Order> outstanding_;  // in order
  std::uint64_t next_ordinal_ = 0;
  std::optional<kv::Request> next_;  // of the source; nothing: it has ended
  std::optional<std::uint64_t> first_ms_;
  Instant heard_;  // when prefill said its last word, or had nothing to say until then
  Hop pulled_;
  ReplayOutcome outcome_;
  Instant started_;
  const bool is_live_ = isatty(STDERR_FILENO) == 1;  ///< a terminal shows the progress
  Instant shown_;
};

}  // namespace towpath::tools::replay
