// Nvshmem: symmetric memory of GPUs, by NVIDIA's library where there is one. It is opened at run
// time.
//
//   TOWPATH_TRY(auto library, NvshmemLibrary::open());
//   TOWPATH_TRY(auto context, NvshmemContext::open(library, {.id = id, .my_pe = 1, .pes = 4}));
//
// It is no Context: its memory is a GPU's, addresses differ between PEs, what the host cannot do
// there (atomic operations: declared by NVIDIA, and not there) it does not offer, and errors within
// the library end the process. Towpath's own libnvshmem_host.so.3 has the same name; it is refused
// unless it is asked for, as tests do. Invariants: the library stays loaded. Nothing collective
// happens in a destructor: call finalize(). Thread: NvshmemLibrary any; a context by one thread at
// a time (NVSHMEM serialises, whatever is asked).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/core/finding.h>
#include <towpath/core/result.h>
#include <towpath/shmem/team.h>

namespace towpath::shmem {

struct NvshmemOptions {
  /// Tried in this order: names for the loader, or paths. Older ones had other structures.
  std::vector<std::string> names = {"libnvshmem_host.so.3", "libnvshmem_host.so"};
  /// Whether Towpath's own, which needs no GPU, may be taken for it.
  bool accept_stand_in = false;
};

class NvshmemLibrary {
 public:
  using Id = std::array<std::byte, 128>;

  /// Errors: unsupported (not there, functions are missing, another major version, our own; each
  /// with the places that were tried).
  static Result<std::shared_ptr<const NvshmemLibrary>> open(const NvshmemOptions& options = {});
  virtual ~NvshmemLibrary() = default;

  /// "3.5.1", as the vendor says it.
  virtual std::string version() const = 0;
  virtual std::string path() const = 0;
  virtual bool is_stand_in() const = 0;
  /// By one PE, for all of a job. Errors: unavailable.
  virtual Result<Id> create_id() const = 0;
};

/// Whether NVSHMEM can be used here. Nothing stays of it, but the library loaded.
Finding probe_nvshmem(const NvshmemOptions& options = {});

enum class Engine : std::uint8_t { host, nvshmem };

struct EngineWish {
  Engine engine = Engine::host;
  bool may_fall_back_to_host = false;
};
/// What to use, by what probe_nvshmem() found. Errors: unsupported (no NVSHMEM, and the host may
/// not be used instead), with the finding's reason and hint.
Result<Engine> choose_engine(const EngineWish& wish, const Finding& nvshmem);

struct NvshmemJob {
  /// Of create_id(), the same for all; without it the library looks for a launcher
  /// (NVSHMEM_BOOTSTRAP).
  std::optional<NvshmemLibrary::Id> id;
  int my_pe = 0;
  int pes = 1;
};

/// Bytes of any PE's heap, by their address in this one's.
struct NvshmemCopy {
  void* target = nullptr;
  const void* source = nullptr;
  std::size_t size_bytes = 0;
  int pe = 0;
};

class NvshmemContext {
 public:
  /// Collective. Errors: unavailable (the library refused, or came no further than its bootstrap).
  static Result<NvshmemContext> open(std::shared_ptr<const NvshmemLibrary> library,
                                     const NvshmemJob& job = {});

  int my_pe() const;
  int n_pes() const;

  // Errors of all that follows: not_ready (finalized), out_of_range (PE), unsupported (not in this
  // library's version).

  /// Collective. Errors: exhausted.
  Result<void*> allocate(std::size_t size_bytes) const;
  /// Collective.
  Status free(void* at) const;
  /// Null: it cannot be reached by loads and stores.
  Result<void*> ptr(const void* at, int pe) const;

  Status put(const NvshmemCopy& what) const;
  Status get(const NvshmemCopy& what) const;
  Status quiet() const;
  Status fence() const;
  Status barrier() const;
  Status sync() const;
  /// In the order of a CUDA stream (a cudaStream_t).
  Status put_on_stream(const NvshmemCopy& what, void* stream) const;
  Status get_on_stream(const NvshmemCopy& what, void* stream) const;
  Status barrier_on_stream(void* stream) const;
  /// Of the host. NVIDIA's library has none.
  static constexpr bool has_atomics() noexcept { return false; }

  // Teams are numbers here; Team::kWorld and kShared always are. -1: not a member.

  /// Collective over the parent. Errors: invalid_argument.
  Result<std::int32_t> split_strided(std::int32_t parent, const Strided& which) const;
  Result<int> my_pe_in(std::int32_t team) const;
  Result<int> n_pes_of(std::int32_t team) const;
  Result<int> translate(std::int32_t team, int pe, std::int32_t other) const;
  /// Collective over the team. Predefined ones stay: NVSHMEM would destroy them.
  Status destroy(std::int32_t team) const;

  /// Collective, after all memory and teams were let go of. Idempotent.
  Status finalize();

 private:
  struct Opened;
  explicit NvshmemContext(std::shared_ptr<Opened> opened) : opened_(std::move(opened)) {}
  /// The library's functions, if `pe` can be asked for something.
  Status check(int pe) const;
  Status check_open() const;

  std::shared_ptr<Opened> opened_;
};

}  // namespace towpath::shmem
