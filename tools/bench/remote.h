// Remote: the other side of the transfers, as the one who measures sees it: memory of another
// agent, or a file of its own. Thread: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <towpath/agent/agent.h>

#include "tools/bench/meeting.h"
#include "tools/bench/options.h"
#include "tools/bench/pattern.h"

namespace towpath::tools::bench {

class Remote {
 public:
  virtual ~Remote() = default;

  /// Whose memory: the name for Agent::prepare_remote.
  virtual const std::string& peer() const = 0;
  /// Of its first byte.
  virtual Descriptor begin() const = 0;
  virtual MemoryKind kind() const = 0;
  /// "process 4711", "file /var/tmp/x, past the page cache".
  virtual std::string what() const = 0;

  struct Prepare {
    std::uint64_t bytes = 0;
    std::optional<std::uint64_t> seed;  ///< nothing: poison
  };
  /// Fills the first bytes. Returns the other process' CPU time so far; 0: it is this process.
  virtual Result<Duration> prepare(const Prepare& what) = 0;

  struct Looked {
    Duration cpu{0};                     ///< so far, before it looked
    std::optional<std::uint64_t> wrong;  ///< the first byte that is not right
  };
  /// With no blocks it only tells the CPU time.
  virtual Result<Looked> look(const Blocks& blocks) = 0;
};

/// Memory of the target that was met: asks it for a region. Both must outlive it.
Result<std::unique_ptr<Remote>> open_peer_remote(Meeting& meeting, agent::Agent& agent,
                                                 const Options& options, std::uint64_t bytes);
/// A file. Errors: those of DiskRegion and of the registration.
Result<std::unique_ptr<Remote>> open_file_remote(agent::Agent& agent, const Options& options,
                                                 std::uint64_t bytes);

}  // namespace towpath::tools::bench
