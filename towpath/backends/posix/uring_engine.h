// UringEngine: I/Os through one io_uring, one io_uring_enter(2) per batch.
//
// Files and buffers are registered in sparse tables, so that an I/O skips the look-up of its file
// and pages. Where a table is full or memlock is used up, the caller is told and goes without.
// Thread: the one that serialises the calls on the backend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/backends/posix/engine.h>
#include <towpath/sys/uring.h>

namespace towpath::backends::posix {

class UringEngine final : public Engine {
 public:
  /// `depth`: I/Os at a time. Errors: as sys::Ring::open.
  static Result<std::unique_ptr<UringEngine>> open(std::uint32_t depth);

  std::string_view name() const override { return "io_uring"; }
  std::string describe() const override { return "io_uring"; }
  Result<int> add_file(int fd) override;
  void remove_file(int slot) override;
  Result<int> add_buffer(ByteSpan memory) override;
  void remove_buffer(int slot) override;
  void submit(const Io& io) override;
  bool flush() override;
  void cancel(std::uint64_t id) override;
  std::size_t reap(std::span<Done> into) override;
  int wait_fd() const override { return event_fd_; }
  void clear_wait_fd() override;

 private:
  UringEngine(sys::Ring ring, int event_fd, std::uint32_t depth);

  Status prepare(const Io& io);

  // A registered table: which places are free.
  struct Table {
    Status refusal;  // why there is no table
    std::vector<int> free;
    Result<int> take(const char* what);
  };

  sys::Ring ring_;
  int event_fd_;
  Table files_;
  Table buffers_;
  std::vector<Io> backlog_;  // found the ring full of cancellations; at most depth
};

}  // namespace towpath::backends::posix
