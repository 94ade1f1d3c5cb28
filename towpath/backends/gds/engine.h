// Engine: the seam between deciding which I/O happens (dispatcher.h) and having libcufile do it.
// Two stand behind it: threads that wait in its calls (workers.h), and streams of the GPU
// (streams.h).
//
// Invariants: those of IoEngine; until an id comes back the GPU may touch the job's bytes.
// Thread: the one that serialises the calls on the backend.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/backends/gds/memories.h>
#include <towpath/sys/io_engine.h>

namespace towpath::backends::gds {

struct Job {
  std::uint64_t id = 0;
  bool write = false;
  const GdsFile* file = nullptr;
  const DeviceMemory* memory = nullptr;
  std::uint64_t memory_offset = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t length = 0;
};

/// How it ended: as CuFile::result_of() puts it.
using Done = sys::IoDone;

class Engine : public sys::IoEngine {
 public:
  /// By what, and by how many.
  virtual std::string describe() const = 0;
  /// Errors: what it needs of the GPU is not there; then the id does not come back.
  virtual Status submit(const Job& job) = 0;
};

}  // namespace towpath::backends::gds
