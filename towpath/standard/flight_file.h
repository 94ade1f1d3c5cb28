// FlightFile: a flight recorder in a file, so that what a process did last outlives it, however it
// ended: the bytes are the kernel's from the moment they are written. `towpath flight` reads it.
//
// One file per agent, DIRECTORY/AGENT.PID.flight, mode 0600, of a size that is fixed and reserved
// when it is made; AGENT.PID-2.flight and so on while the name is taken, as it is in a container
// that was restarted, whose process has one number. It stays when the process ends; of one agent's,
// the newest few are kept, and all that are still written to; what a crash left half made goes, on
// file systems that have marks. Not for a power failure: nothing is synced. Thread: any.
#pragma once

#include <memory>
#include <string>

#include <towpath/core/clock.h>
#include <towpath/sys/file.h>
#include <towpath/sys/mapping.h>
#include <towpath/telemetry/flight_recorder.h>

namespace towpath::standard {

struct FlightFileOptions {
  std::string directory;  ///< made when there is none
  std::string agent;      ///< any bytes; they become letters that are safe in a file name
  std::uint64_t process = 0;
  std::uint64_t records = 4096;  ///< of 64 bytes each; at most kMostFlightRecords
  std::size_t keep = 8;  ///< files of this agent, the new one included; more while more live
};
inline constexpr std::uint64_t kMostFlightRecords = std::uint64_t{1} << 22U;

class FlightFile {
 public:
  /// `clock` must outlive it. Errors: invalid_argument (no records, or too many), denied,
  /// exhausted (no space for all of it), io_error.
  static Result<std::unique_ptr<FlightFile>> open(sys::FileSystem& files, const Clock& clock,
                                                  const FlightFileOptions& options);

  telemetry::FlightRecorder& recorder() noexcept { return recorder_; }
  const std::string& path() const noexcept { return file_->path(); }

 private:
  FlightFile(std::unique_ptr<sys::File> file, sys::Mapping mapping,
             telemetry::FlightRecorder recorder)
      : file_(std::move(file)), mapping_(std::move(mapping)), recorder_(recorder) {}

  std::unique_ptr<sys::File> file_;  // marked in use, where the file system has that
  sys::Mapping mapping_;
  telemetry::FlightRecorder recorder_;
};

/// Whether what writes to this flight recorder lives: it has marked the file in use; or, where it
/// could not, or is of an older release, a process has its number now.
bool flight_writer_lives(sys::File& file);

}  // namespace towpath::standard
