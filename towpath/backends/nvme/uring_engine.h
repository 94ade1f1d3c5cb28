// UringEngine: commands through an io_uring with 128-byte submissions and 32-byte completions.
//
// The 72 bytes of a command lie in the submission itself, so nothing of ours needs to outlive
// submit() but the data. A drive's command cannot be taken back: cancel() is asked, and may do
// nothing. Thread: loop.
#pragma once

#include <memory>
#include <utility>

#include <towpath/backends/nvme/driver.h>
#include <towpath/sys/io_ring.h>

namespace towpath::backends::nvme {

class UringEngine final : public Engine {
 public:
  /// Errors: as sys::Ring::open.
  static Result<std::unique_ptr<Engine>> open(std::uint32_t depth);

  std::string describe() const override { return "NVMe commands through io_uring"; }
  void submit(const Io& io) override { ring_.submit(io); }
  bool flush() override { return ring_.flush(); }
  void cancel(std::uint64_t id) override { ring_.cancel(id); }
  std::size_t reap(std::span<Done> into) override { return ring_.reap(into); }
  int wait_fd() const override { return ring_.wait_fd(); }
  void clear_wait_fd() override { ring_.clear_wait_fd(); }

 private:
  explicit UringEngine(sys::IoRing<Io> ring) : ring_(std::move(ring)) {}

  sys::IoRing<Io> ring_;
};

}  // namespace towpath::backends::nvme
