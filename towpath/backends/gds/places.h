// Places: for each file system, and each drive without one, whether bytes go straight between it
// and a GPU, decided once.
//
// libcufile decides by the file system and the drive under it, so the first file that it looks at
// decides for all. A refusal names the hint; the agent then takes the next backend that can,
// which stages the bytes through pinned memory, and `explain` reports. Thread: loop.
#pragma once

#include <map>
#include <memory>
#include <string>

#include <towpath/backends/gds/gds_file.h>
#include <towpath/telemetry/log.h>

namespace towpath::backends::gds {

class Places {
 public:
  Places(std::shared_ptr<const CuFile> cufile, telemetry::Log log)
      : cufile_(std::move(cufile)), log_(std::move(log)) {}

  /// A file for a region, if its file system is one that goes straight. Reported once for each. A
  /// key with a mode is the file's path, whatever the descriptor says. Errors: GdsFile's, and those
  /// of path_mode.h; those about the file system are remembered.
  Result<std::shared_ptr<GdsFile>> open(const RegionDescriptor& region);
  /// Decides about a directory with a file of no name in it.
  Status decide(const std::string& directory);

 private:
  Result<std::shared_ptr<GdsFile>> open_plain(const RegionDescriptor& region);

  std::shared_ptr<const CuFile> cufile_;
  telemetry::Log log_;
  std::map<GdsFile::Place, Status> decided_;  // ok: straight
};

}  // namespace towpath::backends::gds
