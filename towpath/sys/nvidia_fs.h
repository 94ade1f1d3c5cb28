// What the driver of GPUDirect Storage, nvidia-fs, says of itself in /proc/driver/nvidia-fs.
//
// That it is loaded says nothing of a file, of a GPU, or of io_uring's passthrough, which does not
// go through it: direct_storage.h asks these. Its statistics are never empty while it is loaded
// (gds-nvidia-fs, nvfs-stat.c), so an empty file is reported as what it is, a thing that cannot be.
// Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <towpath/core/finding.h>
#include <towpath/sys/machine.h>

namespace towpath::sys {

inline constexpr std::size_t kMaxNvidiaFsStats = std::size_t{1} << 20U;

struct NvidiaFs {
  enum class State { loaded, empty, absent, denied, too_long, not_text, unreadable, not_built };

  State state = State::absent;
  std::string stats;   ///< as it stands there, when loaded; else empty
  std::string reason;  ///< why not loaded, with what was seen; else empty

  bool is_loaded() const noexcept { return state == State::loaded; }
  /// Reads into GPUs' memory so far, by all processes; nothing where it does not count them.
  std::optional<std::uint64_t> reads() const;
};

/// Reads at most 1 MiB of the statistics; no answer is an error.
NvidiaFs read_nvidia_fs(const MachineRoot& root = {});

/// The same as a finding, with the modules that carry its hooks: without `nvme` among them it takes
/// no local drive.
Finding probe_nvidia_fs(const MachineRoot& root = {});

}  // namespace towpath::sys
