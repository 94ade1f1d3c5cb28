// The file engine for this machine: io_uring, or threads where that is forbidden.
// Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <towpath/sys/file_device.h>

namespace towpath::sys {
class FileEngine;
}

namespace towpath::run {

enum class FileEngineKind { automatic, io_uring, threads };

/// For those that include sys/file_engine.h.
struct OpenedFileEngine {
  std::unique_ptr<sys::FileEngine> engine;
  std::string refusal;  ///< why it is not io_uring although that was wanted
};

/// `depth`: I/Os at a time. Errors: as UringFileEngine::open (only where io_uring must be), as
/// ThreadFileEngine::open.
Result<OpenedFileEngine> open_file_engine(FileEngineKind kind, std::uint32_t depth);

inline constexpr std::uint32_t kFileDeviceDepth = 64;

/// A device with that engine. Errors: as above.
Result<std::unique_ptr<sys::FileDevice>> open_file_device(
    FileEngineKind kind = FileEngineKind::automatic, std::uint32_t depth = kFileDeviceDepth);

}  // namespace towpath::run
