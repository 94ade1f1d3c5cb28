// The other side of a measurement: an agent that offers memory, fills it, and looks at what came.
// Thread: the one that calls serve().
#pragma once

#include <memory>
#include <optional>

#include <towpath/standard/standard.h>

#include "tools/bench/meeting.h"
#include "tools/bench/options.h"
#include "tools/bench/own_memory.h"

namespace towpath::tools::bench {

class Target {
 public:
  /// From here on an initiator can find it. `machine`, which an initiator in the same process
  /// shares, must outlive it.
  static Result<std::unique_ptr<Target>> open(const Options& options, const Machine& machine);

  /// Where it listens; empty: only on this host, in its scope.
  std::string door() const { return meeting_->door(); }

  /// Serves one initiator until it says that it has finished. `lives` is asked while none has come.
  /// Errors: those of Meeting.
  Status serve(const Alive& lives);

 private:
  Target(Options options, const Machine& machine, std::unique_ptr<standard::Node> node)
      : options_(std::move(options)), machine_(machine), node_(std::move(node)) {}

  Status serve_messages();
  Result<Message> answer(const Message& message);
  Result<Message> offer(const Message& hello);

  const Options options_;
  const Machine& machine_;
  std::unique_ptr<standard::Node> node_;
  std::unique_ptr<Meeting> meeting_;
  std::optional<OwnMemory> memory_;  // since somebody said hello
  memory::Registration registration_;
};

/// User and system time of this process.
Duration cpu_time();

}  // namespace towpath::tools::bench
