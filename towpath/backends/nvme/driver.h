// Driver: the seam between what this backend decides and the machine: how a namespace is opened,
// and how commands get to it. The kernel's stands behind it (kernel_driver.h), and in tests one of
// plain memory that says it is a fake (testing/fake_driver.h).
//
// Thread: Driver and Namespace any; an Engine belongs to the backend that asked for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <towpath/backends/nvme/nvme_command.h>
#include <towpath/core/result.h>
#include <towpath/memory/block_region.h>
#include <towpath/sys/io_engine.h>

namespace towpath::backends::nvme {

using Access = memory::BlockAccess;

struct NamespaceInfo {
  std::string path;          ///< as it was opened
  std::string model;         ///< of its drive
  std::uint64_t number = 0;  ///< of its device: the same by whatever path
  std::uint32_t id = 0;
  std::uint32_t block_bytes = 0;
  std::uint64_t blocks = 0;
  /// Of one command: the least of what drive and kernel take. A multiple of block_bytes, at
  /// least 1.
  std::uint64_t max_transfer_bytes = 0;
  /// A command that crosses a multiple of it is refused, and so are writes; 0: it is not zoned.
  std::uint64_t zone_bytes = 0;
  bool has_write_cache = false;  ///< flush() is needed for what must survive a power failure
  bool deallocates = false;

  std::uint64_t size_bytes() const noexcept { return blocks * block_bytes; }
};

/// An open namespace. Invariants: the answers never change; open for writing means that nobody
/// else on this machine mounts or claims the device meanwhile.
class Namespace {
 public:
  Namespace(NamespaceInfo info, Access access) : info_(std::move(info)), access_(access) {}
  Namespace(const Namespace&) = delete;
  Namespace& operator=(const Namespace&) = delete;
  virtual ~Namespace() = default;

  const NamespaceInfo& info() const noexcept { return info_; }
  bool writable() const noexcept { return access_ == Access::read_write; }

  /// For the driver's own engines.
  virtual int fd() const noexcept = 0;
  /// Sends one I/O command and waits for it. For what happens seldom: transfers use an Engine.
  /// The answer is that of Done::result.
  virtual std::int32_t execute(const Command& command) = 0;

 private:
  const NamespaceInfo info_;
  const Access access_;
};

struct Io {
  std::uint64_t id = 0;
  Namespace* target = nullptr;
  Command command;
};

/// Its result: 0: done, all of it. Below: a negative errno. Above: an NVMe status.
using Done = sys::IoDone;

/// Carries commands of one backend. The drive may touch the bytes of a command until its id comes
/// back.
class Engine : public sys::IoEngine {
 public:
  /// In words: "io_uring".
  virtual std::string describe() const = 0;

  /// Takes a command in; it need not start before flush(). No system call.
  virtual void submit(const Io& io) = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;
  /// Opens a namespace, or gives the one that is open already.
  /// Errors: not_found, invalid_argument (no namespace of NVMe), denied (not permitted, or the
  /// device is in use: the message says by what), unsupported (its format; zoned, and for writing).
  virtual Result<std::shared_ptr<Namespace>> open(const std::string& path, Access access) = 0;
  /// Errors: as sys::Ring::open.
  virtual Result<std::unique_ptr<Engine>> make_engine(std::uint32_t depth) = 0;
};

}  // namespace towpath::backends::nvme
