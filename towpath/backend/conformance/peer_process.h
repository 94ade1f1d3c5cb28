// PeerProcess: an agent in a child process, with a pool of memory, that obeys.
//
// The child is this program started anew. It inherits nothing but its end of a socket pair: no
// descriptor or thread of the parent's agents lives on in it. It dies with the parent, and by
// itself after a while.
//
//   message to the child:  | verb u8 | argument ... |      each is answered by one message
//
// Thread: one at a time.
#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include <towpath/backend/conformance/candidate.h>
#include <towpath/backend/conformance/freezer.h>
#include <towpath/backend/conformance/test_memory.h>
#include <towpath/sys/fd.h>

namespace towpath::backend::conformance {

class PeerProcess {
 public:
  struct Options {
    std::string name = "far";
    Store store = Store::system;
    std::uint64_t pool_bytes = 0;
  };
  PeerProcess(const Candidate& candidate, const Options& options);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const std::string& name() const noexcept { return options_.name; }
  Bytes metadata() const { return ask('c'); }
  bool load_metadata(ConstByteSpan metadata) const { return as_text(ask('l', metadata)) == "ok"; }
  /// The pool, as the child's agent knows it.
  const RegionDescriptor& region() const noexcept { return region_; }
  void fill(std::uint64_t seed) const;
  /// Of all bytes of the pool.
  std::uint64_t digest() const;
  /// The pool mapped into this process; Store::shared only.
  TestMemory map() const;
  /// Waits for `count` notifications; their texts, a line each.
  std::string take(std::uint64_t count) const;
  /// Sends "0", "1" ... `count` - 1 to the agent called `to`.
  bool send(const std::string& to, std::uint64_t count) const;
  /// Begins to write its pool to `target` of the agent called `to`, in extents of so many bytes,
  /// over and over, until that fails. False: there is no path.
  bool keep_writing(const std::string& to, const RegionDescriptor& target,
                    std::uint64_t extent_bytes) const;
  bool answers() const { return as_text(ask('p')) == "ok"; }
  /// Takes its pool back; whether it could. register_again() undoes it.
  bool deregister() const { return as_text(ask('u')) == "ok"; }
  bool register_again() const { return as_text(ask('g')) == "ok"; }
  /// Ends its agent. It answers nothing but go_on() and the end of itself then.
  bool close_agent() const { return as_text(ask('x')) == "ok"; }

  void stop() const { ::kill(pid_, SIGSTOP); }
  /// It stands still in a control group; the first call makes that. Errors: as of Freezer.
  Status freeze();
  /// Whatever it was that stopped it.
  void go_on() const;
  /// The pool as it is, past the child: also while that stands still. False: there is none any
  /// more.
  bool write_pool(ConstByteSpan bytes) const;
  bool read_pool(ByteSpan into) const;
  /// Does not wait for its end: dying takes the time it takes.
  void kill_now() const { ::kill(pid_, SIGKILL); }

 private:
  Bytes ask(char verb, ConstByteSpan argument = {}) const;

  const Options options_;
  pid_t pid_ = -1;
  std::unique_ptr<Freezer> freezer_;
  sys::Fd channel_;
  RegionDescriptor region_;
};

std::uint64_t digest_of(ConstByteSpan bytes);

/// For main(): if this argument says so, be the child of a PeerProcess; the exit status.
std::optional<int> run_as_peer(std::string_view argument);

}  // namespace towpath::backend::conformance
