// The values that drivers speak in: what a device is, what to copy, where a pointer points.
// Addresses are numbers of one space: those of the host and of all devices do not overlap.
// Thread: immutable.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include <towpath/core/memory_kind.h>

namespace towpath::device {

struct DriverInfo {
  std::string name;     ///< "cuda", "host"
  std::string version;  ///< of the interface: "12.9"
  std::string library;  ///< the file that was loaded; empty: none
  bool is_gpu = false;  ///< false: a stand-in over host memory
};

struct DeviceInfo {
  unsigned ordinal = 0;
  std::string name;
  std::uint64_t memory_bytes = 0;
  int compute_major = 0;  ///< compute capability; 0.0 where there is none
  int compute_minor = 0;
  std::string pci_address;            ///< as in /sys: "0000:17:00.0"; empty: on no PCI bus
  std::optional<unsigned> numa_node;  ///< nothing: the machine does not report; never guessed
  bool has_pools = false;             ///< Device::create_pool works
};

/// The device that a memory names (RegionDescriptor::device_id). One that fits no ordinal is one
/// that no driver has.
constexpr unsigned ordinal_of(std::uint64_t device_id) noexcept {
  constexpr std::uint64_t kNone = std::numeric_limits<unsigned>::max();
  return static_cast<unsigned>(device_id < kNone ? device_id : kNone);
}

struct MemoryFigures {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

/// Between any two of host, pinned and device memory. Source and target must not overlap.
struct Copy {
  std::uint64_t target = 0;
  std::uint64_t source = 0;
  std::uint64_t length = 0;  ///< bytes
};

/// `rows` rows of `width` bytes; a pitch is bytes from one row's start to the next, and not less
/// than the width.
struct Copy2d {
  std::uint64_t target = 0;
  std::uint64_t target_pitch = 0;
  std::uint64_t source = 0;
  std::uint64_t source_pitch = 0;
  std::uint64_t width = 0;
  std::uint64_t rows = 0;
};

/// Pieces of `length` bytes at every point of a few dimensions: rows, scattered blocks, or bytes
/// whose order changes, as one value. Targets must not overlap each other, nor a source.
struct BoxCopy {
  /// The same again, `extent` times, strides in bytes apart.
  struct Dimension {
    std::uint64_t extent = 1;
    std::uint64_t source_stride = 0;
    std::uint64_t target_stride = 0;

    friend auto operator<=>(const Dimension&, const Dimension&) = default;
  };
  static constexpr std::size_t kMaxRank = 8;

  std::uint64_t target = 0;
  std::uint64_t source = 0;
  std::uint64_t length = 0;
  std::size_t rank = 0;
  std::array<Dimension, kMaxRank> dimensions{};  ///< the first `rank`

  std::span<const Dimension> steps() const noexcept { return {dimensions.data(), rank}; }
};

struct Fill {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::byte value{};
};

/// A store of 8 bytes that whoever polls them sees whole.
struct WordWrite {
  std::uint64_t address = 0;  ///< a multiple of 8
  std::uint64_t value = 0;
};

/// What a driver knows of a pointer.
struct PointerFacts {
  MemoryKind kind = MemoryKind::system;  ///< system: the driver does not know it
  unsigned device = 0;                   ///< of pinned and device memory
  bool managed = false;                  ///< the driver moves it between host and device by itself
};

/// May be sent to another process of this machine as bytes.
struct IpcHandle {
  std::array<std::byte, 64> bytes{};

  friend bool operator==(const IpcHandle&, const IpcHandle&) = default;
};

/// Memory as another process may map it: the whole allocation, and where in it an address lies.
struct ExportedMemory {
  IpcHandle handle;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;  ///< of the allocation

  friend bool operator==(const ExportedMemory&, const ExportedMemory&) = default;
};

struct EventOptions {
  bool timed = false;          ///< Event::since works
  bool interprocess = false;   ///< may be exported; never timed
  bool blocking_wait = false;  ///< wait() sleeps; else the driver chooses, and may spin
};

struct PoolOptions {
  /// What the pool keeps of memory that was freed, rather than give it back at each wait.
  std::uint64_t keep_bytes = 64ull << 20;
};

struct PoolFigures {
  std::uint64_t reserved_bytes = 0;  ///< held from the device
  std::uint64_t used_bytes = 0;      ///< given out of that
};

/// Runs in a stream's order on a thread of the driver, which may be one for all streams: while it
/// runs, functions of others may have to wait. Must not throw, wait for a stream, or call a driver;
/// what it holds dies there too.
using HostFunction = std::function<void()>;

}  // namespace towpath::device
