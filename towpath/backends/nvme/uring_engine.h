// UringEngine: commands through an io_uring with 128-byte submissions and 32-byte completions.
//
// The 72 bytes of a command lie in the submission itself, so nothing of ours needs to outlive
// submit() but the data. A drive's command cannot be taken back: cancel() is asked, and may do
// nothing. Thread: loop.
#pragma once

#include <vector>

#include <towpath/backends/nvme/driver.h>
#include <towpath/sys/uring.h>

namespace towpath::backends::nvme {

class UringEngine final : public Engine {
 public:
  /// Errors: as sys::Ring::open.
  static Result<std::unique_ptr<Engine>> open(std::uint32_t depth);

  std::string describe() const override { return "NVMe commands through io_uring"; }
  void submit(const Io& io) override;
  bool flush() override;
  void cancel(std::uint64_t id) override;
  std::size_t reap(std::span<Done> into) override;
  int wait_fd() const override { return event_fd_; }
  void clear_wait_fd() override;

 private:
  UringEngine(sys::Ring ring, int event_fd, std::uint32_t depth);
  Status prepare(const Io& io);

  sys::Ring ring_;
  int event_fd_;
  std::vector<Io> backlog_;  // found the ring full of cancellations; at most depth
};

}  // namespace towpath::backends::nvme
