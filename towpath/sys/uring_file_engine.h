// UringFileEngine: I/Os through io_uring, one io_uring_enter(2) per batch.
//
// Writes through the page cache and syncs have a ring of their own, because threads of the kernel
// do them: what such a thread leaves to the caller that submitted is tidying up, for which the one
// ring interrupts him and the other (RingOptions::interrupts) does not. Both signal one descriptor.
//
// Files and buffers are registered in sparse tables, so that an I/O skips the look-up of its file
// and pages. Where a table is full or memlock is used up, the caller is notified and goes without.
// Thread: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/sys/file_engine.h>
#include <towpath/sys/io_ring.h>

namespace towpath::sys {

class UringFileEngine final : public FileEngine {
 public:
  /// `depth`: I/Os at a time. Errors: as Ring::open.
  static Result<std::unique_ptr<UringFileEngine>> open(std::uint32_t depth);

  std::string_view name() const override { return "io_uring"; }
  std::string describe() const override { return "io_uring"; }
  Result<int> add_file(int fd) override;
  void remove_file(int slot) override;
  Result<int> add_buffer(ByteSpan memory) override;
  void remove_buffer(int slot) override;
  void submit(const FileIo& io) override;
  bool flush() override;
  void cancel(std::uint64_t id) override;
  std::size_t reap(std::span<IoDone> into) override;
  int wait_fd() const override { return ring_.wait_fd(); }
  void clear_wait_fd() override { ring_.clear_wait_fd(); }
  bool raise_wait_fd() override { return ring_.raise_wait_fd(); }

 private:
  UringFileEngine(IoRing<FileIo> ring, IoRing<FileIo> writes);

  // A registered table: which places are free.
  struct Table {
    Status refusal;  // why there is no table
    std::vector<int> free;
    Result<int> take(const char* what);
  };

  Status set_file(int slot, int fd);

  IoRing<FileIo> ring_;        // outlives writes_, which signals its descriptor
  IoRing<FileIo> writes_;      // through the page cache, and syncs
  bool writes_first_ = false;  // in the last reap()
  Table files_;
  Table buffers_;
};

}  // namespace towpath::sys
