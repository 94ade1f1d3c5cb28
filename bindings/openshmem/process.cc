#include "bindings/openshmem/process.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/shmem/world_parts.h>

namespace towpath::openshmem {

Process* the_process = nullptr;

namespace {

void say(const Status& what) {
  const std::string pe = the_process != nullptr ? cat(" PE ", the_process->my_pe(), ":") : "";
  std::fprintf(stderr, "%s:%s %s\n", kDoor, pe.c_str(), what.to_string().c_str());
}

/// The status that all PEs shall end with, if one has asked for that.
std::optional<int> wanted_end() {
  return the_process != nullptr ? the_process->world().job().wanted_end() : std::nullopt;
}

/// A handle is the team's number and 1, so that null is no team.
std::int32_t number_of(shmem_team_t handle) {
  return static_cast<std::int32_t>(reinterpret_cast<std::intptr_t>(handle) - 1);
}

}  // namespace

void end_pe() {
  (void)std::fflush(nullptr);
  ::_exit(wanted_end().value_or(1));
}

void die(const Status& why) {
  // Or else another PE ends all, and this is what that looks like from here.
  if (!wanted_end()) say(why);
  end_pe();
}

void must(const Status& status) {
  if (!status.ok()) [[unlikely]]
    die(status);
}

int answer(const Status& status) {
  if (status.ok()) return 0;
  say(status);
  return 1;
}

Process::Process(shmem::Context context, Statics statics)
    : context_(std::move(context)),
      world_(context_.underneath().get()),
      heap_(address_of(world_->heap_base())),
      heap_bytes_(world_->heap_bytes()),
      statics_(std::move(statics)) {}

std::uint64_t Process::offset(const void* symmetric, std::uint64_t bytes) const {
  const std::byte* const at = in_heap(symmetric, bytes);
  if (at == nullptr && bytes == 0) return 0;  // length 0 is legal everywhere
  if (at == nullptr) die(refusal(symmetric, bytes, my_pe()));
  return address_of(at) - heap_;
}

std::uint64_t Process::room_at(const void* symmetric) const noexcept {
  const std::uint64_t address = address_of(symmetric);
  if (const auto at = address - heap_; at < heap_bytes_) return heap_bytes_ - at;
  const auto at = address - statics_.address();
  return at < statics_.size() ? statics_.size() - at : 0;
}

Status Process::refusal(const void* symmetric, std::uint64_t bytes, int pe) const {
  TOWPATH_TRY(world_->check_pe(pe));
  return error(Code::out_of_range,
               cat(bytes, " bytes at ", hex(address_of(symmetric)),
                   " are not symmetric: they lie neither in the heap (", hex(heap_), ", ",
                   heap_bytes_, " bytes) nor in the program's variables (", hex(statics_.address()),
                   ", ", statics_.size(), " bytes)"),
               "use shmem_malloc(), or a global or static variable of the program itself");
}

int Process::world_pe(shmem_ctx_t ctx, int pe) const {
  if (ctx == SHMEM_CTX_INVALID)
    die(error(Code::invalid_argument, "a call with SHMEM_CTX_INVALID", "create the context first"));
  const int found = ctx->team.translate(pe, context_.world());
  if (found < 0)
    die(error(Code::out_of_range,
              cat("PE ", pe, " of a context whose team has ", ctx->team.n_pes(), " PEs")));
  return found;
}

shmem::Team Process::team(shmem_team_t handle) const {
  return context_.team_from_raw(number_of(handle));
}

shmem_team_t Process::handle_of(const shmem::Team& team) const {
  return reinterpret_cast<shmem_team_t>(static_cast<std::intptr_t>(team.raw()) + 1);
}

void Process::keep(shmem::SharedBlock block) {
  const run::MutexLock lock(mutex_);
  const void* const at = block->local();
  blocks_[at] = std::move(block);
}

shmem::SharedBlock Process::find(const void* ptr) {
  const run::MutexLock lock(mutex_);
  const auto found = blocks_.find(ptr);
  if (found == blocks_.end())
    die(error(Code::invalid_argument,
              cat(hex(address_of(ptr)), " is not what shmem_malloc() gave, or was freed before")));
  return found->second;
}

shmem::SharedBlock Process::take(const void* ptr) {
  shmem::SharedBlock block = find(ptr);
  const run::MutexLock lock(mutex_);
  blocks_.erase(ptr);
  return block;
}

void Process::configure(shmem_team_t team, int num_contexts) {
  const run::MutexLock lock(mutex_);
  if (num_contexts != 0)
    contexts_of_[team] = num_contexts;
  else
    contexts_of_.erase(team);
}

int Process::contexts_of(shmem_team_t team) {
  const run::MutexLock lock(mutex_);
  const auto found = contexts_of_.find(team);
  return found != contexts_of_.end() ? found->second : 0;
}

shmem_ctx_t Process::add_context(const shmem::Team& team) {
  auto made = std::make_unique<towpath_shmem_ctx>();
  made->team = team;
  towpath_shmem_ctx* const handle = made.get();
  const run::MutexLock lock(mutex_);
  contexts_.insert(std::move(made));
  return handle;
}

void Process::remove_context(shmem_ctx_t ctx) {
  const run::MutexLock lock(mutex_);
  std::erase_if(contexts_, [ctx](const auto& one) { return one.get() == ctx; });
}

shmem::Team* Process::find_set(const door_set& set) {
  const run::MutexLock lock(mutex_);
  const auto found = sets_.find({set.start, set.log_stride, set.size});
  return found != sets_.end() ? &found->second : nullptr;
}

void Process::keep_set(const door_set& set, const shmem::Team& team) {
  const run::MutexLock lock(mutex_);
  sets_.insert_or_assign({set.start, set.log_stride, set.size}, team);
}

}  // namespace towpath::openshmem
