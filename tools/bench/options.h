// What `towpath bench` measures, and between whom. Names and meaning are those of nixlbench where
// it has them. Thread: immutable once parsed.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/core/clock.h>
#include <towpath/core/memory_kind.h>
#include <towpath/core/transfer_state.h>

namespace towpath::tools::bench {

/// Where the other side is.
enum class Partner {
  child,    ///< a process that this one starts
  thread,   ///< an agent of this process, with a thread of its own
  host,     ///< a process that listens: --connect
  oneself,  ///< no other agent: storage of this one
};

struct Options {
  std::string backend;        ///< empty: what the kind of the target's memory takes
  bool all_backends = false;  ///< both agents have every one that opens
  TransferOp op = TransferOp::write;
  MemoryKind local = MemoryKind::system;  ///< or pinned, or device
  MemoryKind remote = MemoryKind::system;
  std::string device = "gpu";  ///< host: host memory emulates it

  std::uint64_t start_block_size = 4096;
  std::uint64_t max_block_size = std::uint64_t{64} << 20U;
  std::uint64_t start_batch_size = 1;
  std::uint64_t max_batch_size = 1;
  std::uint64_t total_buffer_size = std::uint64_t{1} << 30U;
  std::uint64_t iterations = 1000;
  std::uint64_t warmup = 100;
  std::uint64_t large_block_factor = 16;  ///< fewer iterations above 1 MiB, by this
  std::uint64_t threads = 1;
  std::uint64_t pipeline_depth = 1;
  bool recreate = false;
  bool scatter = false;  ///< a gap behind each block, so that none can be merged with its neighbour
  bool verify = true;
  bool progress_thread = false;

  std::string directory = "/var/tmp";  ///< for the file, where the remote kind is disk
  bool direct = false;
  std::string file;   ///< empty: a nameless one in `directory`
  std::string drive;  ///< where the remote kind is block: /dev/ng0n1
  bool overwrite_drive = false;

  std::string listen;      ///< HOST:PORT
  std::string connect;     ///< HOST:PORT
  std::string token_file;  ///< holds the secret that both sides share
  std::string scope;       ///< under which child and parent meet; made when empty
  bool one_process = false;
  std::string json;
  Duration timeout = std::chrono::seconds(30);
};

/// One row of the result.
struct Shape {
  std::uint64_t block_bytes = 0;
  std::uint64_t batch = 1;

  std::uint64_t bytes() const noexcept { return block_bytes * batch; }
};

/// From one block's start to the next one's.
inline std::uint64_t stride_of(const Options& options, const Shape& shape) {
  return options.scatter ? 2 * shape.block_bytes : shape.block_bytes;
}
/// What one transfer's blocks span, and what all transfers that are in flight at a time do.
inline std::uint64_t span_of(const Options& options, const Shape& shape) {
  return stride_of(options, shape) * shape.batch;
}
inline std::uint64_t area_of(const Options& options, const Shape& shape) {
  return span_of(options, shape) * options.pipeline_depth * options.threads;
}
inline std::uint64_t blocks_of(const Options& options, const Shape& shape) {
  return shape.batch * options.pipeline_depth * options.threads;
}
/// Whether the other side is storage of this process: no other agent is needed.
inline bool is_storage(MemoryKind kind) noexcept {
  return kind == MemoryKind::disk || kind == MemoryKind::object || kind == MemoryKind::block;
}

}  // namespace towpath::tools::bench
