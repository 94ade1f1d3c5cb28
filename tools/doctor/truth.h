// A transfer that is made to find out: known bytes go to a scratch file and come back, each is
// examined, and those who count on the way are asked before and after. What a backend says of its
// path is a claim; this is the proof, or the contradiction.
//
// Nothing stays: the file never has a name. Thread: immutable.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include <towpath/backend/registry.h>
#include <towpath/core/finding.h>
#include <towpath/memory/device_region.h>

namespace towpath::tools {

/// Read so far, by this process.
struct Counts {
  std::uint64_t fetched_bytes = 0;  ///< from storage, says the kernel; not from the page cache
  /// Reads into a GPU's memory, says libcufile: straight, and through host memory.
  std::optional<std::uint64_t> straight_reads;
  std::uint64_t staged_reads = 0;
  /// Reads into GPUs' memory by any process, says nvidia-fs: where libcufile is too old to count.
  std::optional<std::uint64_t> driver_reads;
};
using Counter = std::function<Counts()>;

/// The kernel's (/proc/self/io), and libcufile's where there is one that counts, else nvidia-fs'.
Counter real_counter();

struct Ends {
  std::string directory;
  std::string backend;
  memory::SharedDevice device;  ///< null: host memory
};

inline constexpr std::uint64_t kTruthBytes = 64 * 1024;

/// yes: every byte is right, and was counted on the straight way (to the host: from storage, past
/// the page cache). degraded: right, by a longer way. no: wrong bytes, or none at all.
Finding prove(const backend::Registry& registry, const Ends& ends, const Counter& count);

}  // namespace towpath::tools
