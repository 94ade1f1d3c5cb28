#include <towpath/shmem/context.h>
#include <towpath/shmem/gather.h>
#include <towpath/shmem/world_parts.h>

namespace towpath::shmem {

namespace {

Status moved_from() { return error(Code::not_ready, "a context that was moved from"); }

}  // namespace

Version version() noexcept { return {.major = TOWPATH_MAJOR, .minor = TOWPATH_MINOR}; }
Version specification() noexcept { return {.major = 1, .minor = 6}; }

Context::Context(std::shared_ptr<World> world)
    : world_(std::move(world)),
      leaving_(nullptr, [left = world_](const void*) { left->leave(); }) {}

Result<Context> Context::open(Bootstrap bootstrap, const ContextOptions& options) {
  TOWPATH_TRY(auto world, World::open(std::move(bootstrap), options));
  TOWPATH_TRY(make_predefined_teams(*world));
  return Context(std::move(world));
}

Result<SharedBlock> Context::allocate_bytes(std::uint64_t bytes, const AllocateOptions& options) {
  if (world_ == nullptr) return moved_from();
  return allocate_block(world_, bytes, options);
}

Result<Lock> Context::allocate_lock() {
  TOWPATH_TRY(auto word, allocate_zeroed<std::uint64_t>(1));
  return Lock(std::move(word));
}

Status Context::barrier_on_stream(device::Stream& stream) {
  if (world_ == nullptr) return moved_from();
  return stream.run([team = world()] { team.world()->keep_stream_failure(team.barrier()); });
}

Status Context::quiet_on_stream(device::Stream& stream) const {
  if (world_ == nullptr) return moved_from();
  return stream.run([world = world_] {
    thread_fence(std::memory_order_seq_cst);
    world->quiet_far();
  });
}

Status Context::stream_failure() {
  if (world_ == nullptr) return moved_from();
  return world_->take_stream_failure();
}

std::uint64_t Context::free_bytes() const noexcept {
  return world_ ? world_->heap().free_bytes() : 0;
}

std::vector<int> Context::losses() const { return world_ ? world_->losses() : std::vector<int>(); }

void Context::forget_losses() {
  if (world_) world_->forget_losses();
}

Status Context::finalize() {
  if (world_ == nullptr || world_->open_pes() == 0 || world_->is_inherited()) return {};
  Status met = gather(*world_, world_->team(0), {.call = {.kind = CallKind::finalize}});
  world_->finish();
  return met;
}

}  // namespace towpath::shmem
