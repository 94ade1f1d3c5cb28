#include <towpath/core/format.h>
#include <towpath/device/host/host_pool.h>

namespace towpath::device {

Result<std::uint64_t> HostPool::allocate(std::uint64_t size_bytes, Stream&) {
  TOWPATH_TRY(Memory memory, state_->device->allocate(size_bytes));
  const std::uint64_t address = memory.address();
  const run::MutexLock lock(state_->mutex);
  state_->used_bytes += size_bytes;
  state_->given.emplace(address, std::move(memory));
  return address;
}

Status HostPool::free(std::uint64_t address, Stream& stream) {
  Memory memory;
  {
    const run::MutexLock lock(state_->mutex);
    const auto found = state_->given.find(address);
    if (found == state_->given.end())
      return error(Code::invalid_argument, cat(hex(address), " is not out of this pool"),
                   "free what the pool gave, once");
    memory = std::move(found->second);
    state_->given.erase(found);
  }
  // A function can be copied, so what it holds is shared.
  return stream.run([state = state_, held = std::make_shared<Memory>(std::move(memory))] {
    const run::MutexLock lock(state->mutex);
    state->used_bytes -= held->size();
    (void)held->release();
  });
}

Result<PoolFigures> HostPool::figures() const {
  const run::MutexLock lock(state_->mutex);
  return PoolFigures{.reserved_bytes = state_->used_bytes, .used_bytes = state_->used_bytes};
}

}  // namespace towpath::device
