// Streams: I/Os that libcufile does in the order of a GPU's streams. No thread of ours waits in a
// call; each GPU has some streams, which take turns, and an I/O is one piece of work in one of
// them.
//
// An I/O that a stream has cannot be cancelled. Invariants: those of engine.h; the numbers of an
// I/O stay where they are until its stream has passed it. Thread: as engine.h; only the waker is
// used by threads of the driver.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include <towpath/backends/gds/counters.h>
#include <towpath/backends/gds/engine.h>
#include <towpath/device/device.h>
#include <towpath/run/waker.h>

namespace towpath::backends::gds {

class Streams final : public Engine {
 public:
  struct Options {
    std::uint32_t streams = 8;  ///< of each GPU
  };
  /// All outlive it. Errors: exhausted.
  static Result<std::unique_ptr<Streams>> open(const Options& options, const CuFile& cufile,
                                               Counters& counters);
  /// Waits for what is in the streams.
  ~Streams() override;

  std::string describe() const override;
  Status submit(const Job& job) override;
  bool flush() override { return true; }
  void cancel(std::uint64_t) override {}
  std::size_t reap(std::span<Done> into) override;
  int wait_fd() const override { return waker_->fd(); }
  void clear_wait_fd() override { waker_->clear(); }

 private:
  class Gpu;

  Streams(const Options& options, const CuFile& cufile, Counters& counters,
          std::unique_ptr<run::Waker> waker);

  const Options options_;
  const CuFile& cufile_;
  Counters& counters_;
  const std::unique_ptr<run::Waker> waker_;
  std::map<unsigned, std::unique_ptr<Gpu>> gpus_;  // by number; last: their streams use the waker
};

}  // namespace towpath::backends::gds
