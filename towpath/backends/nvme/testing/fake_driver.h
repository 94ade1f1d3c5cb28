// FakeDriver: namespaces of plain files, which execute the bytes of commands as a drive and its
// kernel driver would, and fail as the test says. It says that it is a fake wherever it is
// asked.
//
// The path of a namespace is that of a file (a memfd by /proc/self/fd/N); its whole blocks are the
// namespace. Commands are read from their 72 bytes by the kernel's structure, not by our encoder.
// For tests only. Thread: any for what is not scripted; scripts belong to the test's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <linux/nvme_ioctl.h>

#include <towpath/backends/nvme/driver.h>
#include <towpath/sys/fd.h>

namespace towpath::backends::nvme::testing {

/// Commands that touch these blocks end with `result` instead.
struct Fault {
  std::uint64_t from = 0;
  std::uint64_t to = UINT64_MAX;  ///< exclusive
  std::int32_t result = 0;        ///< as Done::result
  std::uint64_t times = UINT64_MAX;
};

struct FakeShape {
  std::uint32_t block_bytes = 512;
  std::uint64_t max_transfer_bytes = 512U << 10U;
  bool has_write_cache = true;
  bool deallocates = true;
};

class FakeNamespace final : public Namespace {
 public:
  FakeNamespace(NamespaceInfo info, Access access, sys::Fd file)
      : Namespace(std::move(info), access), file_(std::move(file)) {}
  int fd() const noexcept override { return file_.get(); }
  std::int32_t execute(const Command& command) override;

  std::vector<Fault> faults;
  std::vector<nvme_uring_cmd> seen;  ///< kept when `keeps` is on
  bool keeps = false;
  bool removed = false;  ///< the drive is gone: everything is -ENODEV

 private:
  std::int32_t carry_out(const nvme_uring_cmd& command);
  std::int32_t move(const nvme_uring_cmd& command);
  std::int32_t deallocate(const nvme_uring_cmd& command);
  std::int32_t fault_for(std::uint64_t lba, std::uint64_t blocks);

  const sys::Fd file_;
};

class FakeEngine final : public Engine {
 public:
  std::string describe() const override { return "a FAKE of NVMe (no drive is touched)"; }
  void submit(const Io& io) override;
  bool flush() override { return true; }
  void cancel(std::uint64_t id) override {
    if (manual) cancelled.push_back(id);
  }
  std::size_t reap(std::span<Done> into) override;
  int wait_fd() const override { return -1; }
  void clear_wait_fd() override {}

  /// Ends a command that waits, by executing it or with this result.
  void end(std::size_t index);
  void answer(std::size_t index, std::int32_t result);

  bool manual = false;  ///< commands wait until the test ends them
  std::deque<Io> waiting;
  std::deque<Done> done;
  std::vector<std::uint64_t> cancelled;  ///< kept while it is manual
  std::size_t most_waiting = 0;
};

class FakeDriver final : public Driver {
 public:
  explicit FakeDriver(FakeShape shape = {}) : shape_(shape) {}
  Result<std::shared_ptr<Namespace>> open(const std::string& path, Access access) override;
  Result<std::unique_ptr<Engine>> make_engine(std::uint32_t depth) override;

  std::shared_ptr<FakeNamespace> last;  ///< opened
  FakeEngine* engine = nullptr;         ///< made last; belongs to its backend

 private:
  const FakeShape shape_;
};

}  // namespace towpath::backends::nvme::testing
