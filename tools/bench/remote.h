// Remote: the other side of the transfers, as the one who measures sees it: memory of another
// agent, or storage of its own: a file, objects, a drive. Its bytes are an area, which begins at 0.
// Thread: one at a time.
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
  virtual MemoryKind kind() const = 0;
  /// Names blocks of the area for a transfer. Errors: those of DescriptorList::add.
  virtual Status add(DescriptorList& list, const StridedDescriptor& blocks) const = 0;
  /// "process 4711", "file /var/tmp/x, past the page cache".
  virtual std::string what() const = 0;

  /// What stands in the area before a measurement.
  enum class Before { pattern, poison };
  /// Fills it as far as the blocks go. Returns the other process' CPU time so far; 0: it is this
  /// process.
  virtual Result<Duration> prepare(const Blocks& blocks, Before before) = 0;

  struct Looked {
    Duration cpu{0};                     ///< so far, before it looked
    std::optional<std::uint64_t> wrong;  ///< the first byte that is not right
  };
  /// With no blocks it only reports the CPU time.
  virtual Result<Looked> look(const Blocks& blocks) = 0;
};

/// What the other side has to hold.
struct Room {
  std::uint64_t bytes = 0;   ///< of the area
  std::uint64_t blocks = 0;  ///< as many lie in it at most
};
/// Whether the options name one other side: storage is of this process, a drive is named, and
/// --one_process goes with no other host. Errors: invalid_argument.
Status check_other_side(const Options& options);
/// Whether each place that was given is of a memory that is measured: what would be passed over is
/// a mistake, and something else measured than was meant. Errors: invalid_argument.
Status check_places(const Options& options);
/// Whether the options allow what a measurement does to a drive. Errors: invalid_argument.
Status check_overwriting(const Options& options);

/// The other side that the options name. `meeting` is null where that is storage. Both, and the
/// node, must outlive it. Errors: those of the ones below.
Result<std::unique_ptr<Remote>> open_remote(const Options& options, standard::Node& node,
                                            Meeting* meeting, const Room& room);

/// Memory of the target that was met: asks it for a region. Both must outlive it.
Result<std::unique_ptr<Remote>> open_peer_remote(Meeting& meeting, agent::Agent& agent,
                                                 const Options& options, std::uint64_t bytes);
/// A file. Errors: those of DiskRegion and of the registration.
Result<std::unique_ptr<Remote>> open_file_remote(agent::Agent& agent, const Options& options,
                                                 std::uint64_t bytes);
/// An object for each of up to `blocks` blocks, in the store that the environment names; what was
/// put is removed at the end. `clock` must outlive it. Errors: those of the store's parameters and
/// of the registration.
Result<std::unique_ptr<Remote>> open_object_remote(agent::Agent& agent, const Options& options,
                                                   std::uint64_t blocks, const Clock& clock);
/// The first bytes of a drive, which a measurement overwrites. Errors: those of BlockRegion and of
/// the registration.
Result<std::unique_ptr<Remote>> open_block_remote(agent::Agent& agent, const Options& options,
                                                  std::uint64_t bytes);

/// `blocks` of an area that lies together from `begin` on.
Status add_from(const Descriptor& begin, DescriptorList& list, StridedDescriptor blocks);

}  // namespace towpath::tools::bench
