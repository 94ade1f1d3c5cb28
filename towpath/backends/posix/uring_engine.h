// UringEngine: I/Os through io_uring, one io_uring_enter(2) per batch.
//
// Writes through the page cache have a ring of their own, because threads of the kernel do them:
// what such a thread leaves to whoever submitted is tidying up, for which the one ring interrupts
// him and the other (RingOptions::interrupts) does not. Both signal one descriptor.
//
// Files and buffers are registered in sparse tables, so that an I/O skips the look-up of its file
// and pages. Where a table is full or memlock is used up, the caller is told and goes without.
// Thread: the one that serialises the calls on the backend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/backends/posix/engine.h>
#include <towpath/sys/io_ring.h>

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
  int wait_fd() const override { return ring_.wait_fd(); }
  void clear_wait_fd() override { ring_.clear_wait_fd(); }
  bool raise_wait_fd() override { return ring_.raise_wait_fd(); }

 private:
  UringEngine(sys::IoRing<Io> ring, sys::IoRing<Io> writes);

  // A registered table: which places are free.
  struct Table {
    Status refusal;  // why there is no table
    std::vector<int> free;
    Result<int> take(const char* what);
  };

  Status set_file(int slot, int fd);

  sys::IoRing<Io> ring_;    // outlives writes_, which signals its descriptor
  sys::IoRing<Io> writes_;  // through the page cache
  Table files_;
  Table buffers_;
};

}  // namespace towpath::backends::posix
