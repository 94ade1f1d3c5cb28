// Process: this process as a PE: its context, what its symmetric addresses mean, and what C
// programs hold by address or by handle.
//
// There is one, since C functions get none passed: from the initialisation on, and not destroyed at
// the program's end, so that threads may still be in it. Invariants: an address is symmetric
// when it lies in the heap or in the program's own variables. Thread: any; shmem_init() and
// shmem_finalize() beside nothing.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <towpath/run/mutex.h>
#include <towpath/shmem/context.h>

#include "bindings/openshmem/door.h"
#include "bindings/openshmem/statics.h"

/// What a shmem_ctx_t points to.
struct towpath_shmem_ctx {
  towpath::shmem::Team team;
};

namespace towpath::openshmem {

/// What begins messages to people: the interface that they call. Of the library that this is in.
extern const char* const kDoor;

/// Ends this PE; why was said.
[[noreturn]] void end_pe();
/// Ends this PE, with a reason that names it.
[[noreturn]] void die(const Status& why);
/// Goes on only when `status` is ok.
void must(const Status& status);
/// 0, or 1 and a reason on standard error.
int answer(const Status& status);

class Process {
 public:
  Process(shmem::Context context, Statics statics);

  shmem::Context& context() noexcept { return context_; }
  shmem::World& world() noexcept { return *world_; }
  int my_pe() const noexcept { return context_.my_pe(); }

  /// Where `bytes` bytes at a symmetric address lie in the heap of this PE, or null.
  std::byte* in_heap(const void* symmetric, std::uint64_t bytes) const noexcept {
    const std::uint64_t address = address_of(symmetric);
    if (const auto at = address - heap_; at < heap_bytes_ && bytes <= heap_bytes_ - at)
      return static_cast<std::byte*>(const_cast<void*>(symmetric));
    if (const auto at = address - statics_.address();
        at < statics_.size() && bytes <= statics_.size() - at)
      return statics_.in_heap() + at;
    return nullptr;
  }
  /// The same as a place on a PE, counted in the team of `ctx`. Ends this one when there is none.
  shmem::RemoteAddress remote_address(shmem_ctx_t ctx, int pe, const void* symmetric,
                                      std::uint64_t bytes) {
    if (ctx != SHMEM_CTX_DEFAULT) [[unlikely]]
      pe = world_pe(ctx, pe);
    const std::byte* const mine = in_heap(symmetric, bytes);
    if (mine == nullptr || static_cast<std::uint32_t>(pe) >= world_->open_pes()) [[unlikely]]
      die(refusal(symmetric, bytes, pe));
    return {.pe = static_cast<std::uint32_t>(pe), .offset = address_of(mine) - heap_};
  }
  /// From the begin of the heap; ends the PE when it is not symmetric.
  std::uint64_t offset(const void* symmetric, std::uint64_t bytes) const;
  /// To the end of the heap, or of the variables.
  std::uint64_t room_at(const void* symmetric) const noexcept;

  shmem::Team team(shmem_team_t handle) const;
  shmem_team_t handle_of(const shmem::Team& team) const;

  // What shmem_malloc() and the like gave, by where it lies.
  void keep(shmem::SharedBlock block);
  shmem::SharedBlock find(const void* ptr);
  /// As find(), and it is the caller's.
  shmem::SharedBlock take(const void* ptr);

  /// What was asked for when a team was made: reported by shmem_team_get_config(). 0 when it ends.
  void configure(shmem_team_t team, int num_contexts);
  int contexts_of(shmem_team_t team);

  shmem_ctx_t add_context(const shmem::Team& team);
  void remove_context(shmem_ctx_t ctx);

  /// The team of an active set, if it was used before.
  shmem::Team* find_set(const door_set& set);
  void keep_set(const door_set& set, const shmem::Team& team);

 private:
  Status refusal(const void* symmetric, std::uint64_t bytes, int pe) const;
  int world_pe(shmem_ctx_t ctx, int pe) const;

  shmem::Context context_;
  shmem::World* const world_;
  const std::uint64_t heap_;
  const std::uint64_t heap_bytes_;
  const Statics statics_;

  run::Mutex mutex_;  // of what follows; never held while others are waited for
  std::map<const void*, shmem::SharedBlock> blocks_ TOWPATH_GUARDED_BY(mutex_);
  std::map<shmem_team_t, int> contexts_of_ TOWPATH_GUARDED_BY(mutex_);
  std::set<std::unique_ptr<towpath_shmem_ctx>> contexts_ TOWPATH_GUARDED_BY(mutex_);
  std::map<std::array<int, 3>, shmem::Team> sets_ TOWPATH_GUARDED_BY(mutex_);
};

/// Null before shmem_init().
extern Process* the_process;

/// Ends the program when it has not begun.
inline Process& process() {
  if (the_process == nullptr) [[unlikely]]
    die(error(Code::not_ready, "a call before the PE was initialised", "initialise it first"));
  return *the_process;
}

}  // namespace towpath::openshmem
