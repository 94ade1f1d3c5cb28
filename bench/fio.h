// fio as a child process: the reference for disk figures.
// Thread: one.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/core/transfer_state.h>

namespace towpath::bench {

/// Blocks of one size at random multiples of it, `depth` of them at a time.
struct DiskLoad {
  TransferOp op = TransferOp::read;
  std::uint64_t block_bytes = 4096;
  std::uint64_t depth = 1;
  bool direct = true;
  bool registered = true;        ///< past the page cache: the ring knows the file and the buffers
  std::uint64_t sync_bytes = 0;  ///< written between two syncs of the data; 0: none
  Duration time = std::chrono::milliseconds(250);
};

struct DiskFile {
  std::string path;
  std::uint64_t size_bytes = 0;
};

/// ok, or why there is no fio to run.
Status find_fio();

/// The command line. As with us, blocks are drawn anew each time (--randrepeat=0), the page cache
/// is left as it is (--invalidate=0) and buffers lie at pages (--iomem_align: without it fio copies
/// half as fast from the page cache).
std::string fio_command(const DiskFile& file, const DiskLoad& load);

struct DiskFigure {
  double nanoseconds_per_byte = 0;
  double cpu_seconds_per_gib =
      0;  ///< of the threads that asked; what an interrupt takes is nobody's
};

/// Runs it; by fio's own count. Errors: unavailable (it failed), corrupt (its report has no such
/// figure).
Result<DiskFigure> run_fio(const std::string& command, TransferOp op);

}  // namespace towpath::bench
