// Bootstrap: how a PE finds its job, perhaps by a UniqueId. A value: the environment is read above
// (standard/shmem_environment.h).
// Thread: none of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/core/result.h>
#include <towpath/memory/host_pages.h>
#include <towpath/net/tls/tls_certificates.h>
#include <towpath/net/ucx/ucx_options.h>
#include <towpath/run/deadline.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/huge_pages.h>
#include <towpath/telemetry/log.h>

namespace towpath::shmem {

class Remote;

inline constexpr std::uint64_t kDefaultHeapBytes = 256 * 1024 * 1024;

struct UniqueIdOptions {
  bool for_this_host = false;  ///< all PEs are here: no addresses
  std::string interface;  ///< whose addresses to report; empty: of all, as far as there is room
};

/// 128 bytes by which PEs that were started separately find each other. One PE makes it, the bytes
/// travel verbatim by whatever means, and every PE passes them to its bootstrap. They hold where PE
/// 0 is met: a name on its host, addresses and ports of that host, and a secret. Thread: immutable.
class UniqueId {
 public:
  using Raw = std::array<std::byte, 128>;

  /// A new one, which no other call ever gives. PE 0 runs on the host where it was made. Cost:
  /// system calls.
  static UniqueId create(const UniqueIdOptions& options = {});
  /// Errors: invalid_argument (not made by create(), or not copied whole), unsupported (another
  /// version).
  static Result<UniqueId> from_raw(const Raw& raw);
  const Raw& raw() const noexcept { return raw_; }

 private:
  explicit UniqueId(const Raw& raw) noexcept : raw_(raw) {}
  Raw raw_;
};

/// The descriptors of a job: what a PE needs to take part.
struct JobFiles {
  sys::Fd control;
  std::vector<sys::Fd> heaps;  ///< by PE; none for those of other hosts
};

/// What heaps are made of, and where they lie.
struct HeapPages {
  /// Of all heaps of a host; the process that makes them says it. `required`: reserved pages, or an
  /// error; `best_effort`: transparent ones where the kernel makes them, and never reserved ones,
  /// in which no variables of programs in C can lie (decision 0023).
  sys::HugePages huge = sys::HugePages::off;
  /// The NUMA node of this PE's heap; nothing: as the kernel likes.
  std::optional<unsigned> node;
  memory::NodeRule node_rule = memory::NodeRule::best_effort;
};

struct Heartbeat {
  Duration every = std::chrono::seconds(1);
  Duration timeout = std::chrono::seconds(5);  ///< of a PE that says nothing
};

enum class NetworkEngine : std::uint8_t { tcp, ucx };

struct NetworkOptions {
  /// Nothing: UCX where all PEs have RDMA, else TCP.
  std::optional<NetworkEngine> engine;
  bool has_rdma = false;   ///< this PE's host has an adapter, and this process may use it
  bool encrypted = false;  ///< all bytes in TLS 1.3, which UCX does not speak
  net::TlsCertificates certificates;  ///< by which it is; empty: by keys that the PEs exchange
  net::UcxOptions ucx;
  Heartbeat heartbeat;
  telemetry::Log log;  ///< who was refused
};

/// One of four: alone (nothing set), with the descriptors of a job that somebody made (`files`),
/// with an identifier that all PEs were given (`unique_id`; they meet as hosts.h has it), or, when
/// there are PEs on several hosts, with the descriptors of this one's and the way to the others.
struct Bootstrap {
  int my_pe = 0;
  int pes = 1;
  std::optional<JobFiles> files;
  std::optional<UniqueId> unique_id;
  /// A number for each PE's host. With `files`, of which those of heaps elsewhere are none.
  std::vector<std::uint32_t> hosts;
  std::shared_ptr<Remote> remote;
  /// Alone, and with an identifier, where PE 0 makes the heaps.
  std::uint64_t heap_bytes = kDefaultHeapBytes;
  HeapPages pages;
  NetworkOptions network;  ///< with an identifier
};

struct Timeouts {
  /// For all PEs to begin.
  Duration to_start = std::chrono::seconds(60);
  /// For any later wait; the failure then says who has not come, and what it is doing.
  Duration to_wait = Duration::max();
  /// For a PE of this host that a signal has stopped, before it is given up; max: never. Those
  /// of other hosts: Heartbeat.
  Duration with_stopped = std::chrono::seconds(5);
};

struct WorldOptions {
  Timeouts timeouts;
  /// How long to look before sleeping; nothing: by the number of cores that the PEs have.
  std::optional<run::Looks> looks;
};

/// The job's descriptors: those given, or of one that is alone. Errors: invalid_argument (PE,
/// count), or create_job's.
Result<JobFiles> obtain(Bootstrap bootstrap);

}  // namespace towpath::shmem
