// FileDevice: reads, writes and syncs files while its user does other things.
//
//   begin(request) --> [ waits, under way ] --progress()--> request.has_ended, request.status
//                           |  cancel(request): soon
//
// It decides nothing: what goes where, and what is synced after what, is its user's affair.
// Requests that are under way together happen in any order; what must follow another begins when
// that one has ended. It does go on with what came back short, and tries again what was
// interrupted. Invariants: a request ends exactly once; nothing touches its bytes afterwards. A
// request that ended well has moved all of its bytes. Thread: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <towpath/core/clock.h>
#include <towpath/sys/file.h>
#include <towpath/sys/io_part.h>

namespace towpath::sys {

/// It is the caller's, who keeps it and its bytes where they are until it has ended.
struct FileRequest {
  FileIo::Kind kind = FileIo::Kind::read;
  std::shared_ptr<File> file;
  std::uint64_t offset = 0;
  /// One after the other in the file; those behind the first may be empty. With File::direct()
  /// each begins and ends at multiples of its alignment, as `offset` does.
  std::array<IoPart, 2> parts{};

  bool has_ended = false;
  /// Errors: corrupt (a read, and the file ends first), exhausted (a write: no space; a read: no
  /// memory), unavailable (a write: no memory), cancelled, io_error and others of their kind.
  Status status;

  std::uint64_t length() const noexcept { return parts[0].size_bytes + parts[1].size_bytes; }

  // For devices.
  std::uint64_t moved = 0;
  std::uint32_t tries = 0;  ///< since a byte moved
  bool is_cancelled = false;
  void end(Status how) {
    status = std::move(how);
    has_ended = true;
  }
};

class FileDevice {
 public:
  virtual ~FileDevice() = default;

  /// Takes any number; so many as it takes at once are under way, the others wait in their order.
  virtual void begin(FileRequest& request) = 0;
  /// It ends soon, as cancelled or as it would have.
  virtual void cancel(FileRequest& request) = 0;
  /// Starts what was begun, ends what is done. True: something has ended.
  virtual bool progress() = 0;
  /// Readable while progress() may find something to end; -1: requests end where they begin.
  virtual int wait_fd() const { return -1; }
  /// Sleeps until progress() may find something, or so long.
  virtual void wait(Duration most) { (void)most; }
  /// In words: "io_uring", ...
  virtual std::string describe() const = 0;

  /// Begins it, and waits for its end. What else ends meanwhile, ends.
  Status finish(FileRequest& request);
};

/// Through the file itself: each request ends where it begins. For files that have no descriptor,
/// such as a test's.
class DirectFileDevice final : public FileDevice {
 public:
  void begin(FileRequest& request) override;
  void cancel(FileRequest&) override {}
  bool progress() override { return false; }
  std::string describe() const override { return "the file's own calls"; }
};

/// What DirectFileDevice does with a request.
Status perform(FileRequest& request);

}  // namespace towpath::sys
