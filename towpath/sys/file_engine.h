// FileEngine: moves bytes between files and memory. It is the seam between deciding which I/O
// happens and making it happen. Two real ones stand behind it, io_uring (uring_file_engine.h) and a
// few threads (run/thread_file_engine.h); a test drives a third.
//
// It knows only ids. It neither continues what comes back short nor repeats what was interrupted:
// the result says so. Invariants: those of IoEngine. Thread: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/sys/file_device.h>
#include <towpath/sys/io_engine.h>
#include <towpath/sys/io_part.h>

namespace towpath::sys {

/// IoDone::result: bytes, or a negative errno.
class FileEngine : public IoEngine {
 public:
  /// "io_uring" or "threads".
  virtual std::string_view name() const = 0;
  /// In words, and for how many.
  virtual std::string describe() const = 0;

  /// Informs the kernel of a file, or of memory, beforehand, so that each I/O is cheaper.
  /// Errors: unsupported (this engine has no such table), exhausted (it is full, or memlock is).
  virtual Result<int> add_file(int fd) = 0;
  virtual void remove_file(int slot) = 0;
  virtual Result<int> add_buffer(ByteSpan memory) = 0;
  virtual void remove_buffer(int slot) = 0;

  /// Reads what the page cache has of one read, in one system call and without waiting for a disk.
  /// Bytes, or a negative errno: EAGAIN where it has nothing, EOPNOTSUPP where the file system
  /// cannot determine.
  virtual std::int32_t read_cached(const FileIo& io);

  /// Takes an I/O in; it need not start before flush(). No system call.
  virtual void submit(const FileIo& io) = 0;
};

/// A FileDevice through an engine, which needs a file's descriptor.
class EngineFileDevice final : public FileDevice {
 public:
  /// `engine` takes `depth` I/Os at once.
  EngineFileDevice(std::unique_ptr<FileEngine> engine, std::uint32_t depth);
  /// Nothing is under way.
  ~EngineFileDevice() override;

  void begin(FileRequest& request) override;
  void cancel(FileRequest& request) override;
  bool progress() override;
  int wait_fd() const override { return engine_->wait_fd(); }
  void wait(Duration most) override;
  std::string describe() const override { return engine_->describe(); }

 private:
  void start();
  void submit(std::uint32_t place);
  bool settle(std::uint32_t place, std::int32_t result);

  const std::unique_ptr<FileEngine> engine_;
  struct Place {
    FileRequest* request = nullptr;
    std::array<IoPart, 2> rest{};  // of its parts, that is not moved yet
  };
  std::vector<Place> places_;  // by id
  std::vector<std::uint32_t> free_;
  std::deque<FileRequest*> waiting_;
  bool may_be_readable_ = false;  // wait_fd(), for what was ended already
};

}  // namespace towpath::sys
