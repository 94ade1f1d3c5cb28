// The fake libcuda's pools, streams, events and copies; see fake_cuda.cc.
#include <algorithm>
#include <cstring>
#include <vector>

#include <towpath/device/testing/fake_cuda_state.h>

using namespace towpath::device;             // NOLINT: the whole file speaks of it
using namespace towpath::device::cuda;       // NOLINT
using namespace towpath::device::fake_cuda;  // NOLINT

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.
extern "C" {

// Pools -------------------------------------------------------------------------------------------

CuResult cuMemPoolCreate(CuPool* pool, const PoolProperties* properties) {
  TOWPATH_FAKE("cuMemPoolCreate", true);
  const bool zeros = std::ranges::all_of(properties->reserved, [](auto byte) { return byte == 0; });
  if (properties->allocation_type != 1 || properties->handle_types != 0 || !zeros ||
      properties->location.type != kLocationDevice || properties->windows_only != nullptr ||
      properties->location.id != current.back()->device)
    return complain("cuMemPoolCreate", "properties that CUDA refuses");
  *pool = new CuPoolTag{device()->create_pool().value()};
  return kSuccess;
}
CuResult cuMemPoolDestroy(CuPool pool) {
  TOWPATH_FAKE("cuMemPoolDestroy", true);
  delete pool;
  return kSuccess;
}
CuResult cuMemPoolTrimTo(CuPool pool, std::size_t keep_bytes) {
  TOWPATH_FAKE("cuMemPoolTrimTo", true);
  return result_of(pool->pool->trim(keep_bytes));
}
CuResult cuMemPoolSetAttribute(CuPool pool, PoolAttribute attribute, void* value) {
  TOWPATH_FAKE("cuMemPoolSetAttribute", true);
  if (attribute != PoolAttribute::release_threshold)
    return complain("cuMemPoolSetAttribute", "another attribute");
  std::memcpy(&pool->threshold, value, sizeof pool->threshold);
  return kSuccess;
}
CuResult cuMemPoolGetAttribute(CuPool pool, PoolAttribute attribute, void* value) {
  TOWPATH_FAKE("cuMemPoolGetAttribute", true);
  const PoolFigures figures = pool->pool->figures().value();
  const std::uint64_t reported =
      attribute == PoolAttribute::used_current ? figures.used_bytes : figures.reserved_bytes;
  std::memcpy(value, &reported, sizeof reported);
  return kSuccess;
}
CuResult cuMemAllocFromPoolAsync(CuAddress* address, std::size_t size, CuPool pool,
                                 CuStream stream) {
  TOWPATH_FAKE("cuMemAllocFromPoolAsync", true);
  const auto at = pool->pool->allocate(size, *stream->stream);
  if (!at.ok()) return result_of(at.status());
  *address = *at;
  const std::lock_guard lock(fake().mutex);
  fake().pooled[*at] = pool->pool;
  return kSuccess;
}
CuResult cuMemFreeAsync(CuAddress address, CuStream stream) {
  TOWPATH_FAKE("cuMemFreeAsync", true);
  std::shared_ptr<Pool> pool;
  {
    const std::lock_guard lock(fake().mutex);
    const auto found = fake().pooled.find(address);
    if (found == fake().pooled.end()) return kInvalidValue;
    pool = std::move(found->second);
    fake().pooled.erase(found);
  }
  return result_of(pool->free(address, *stream->stream));
}

// Streams and events ------------------------------------------------------------------------------

CuResult cuStreamCreate(CuStream* stream, unsigned flags) {
  TOWPATH_FAKE("cuStreamCreate", true);
  if (flags != kStreamNonBlocking) return complain("cuStreamCreate", "it waits for stream 0");
  *stream = new CuStreamTag{device()->create_stream().value()};
  const std::lock_guard lock(fake().mutex);
  fake().streams.emplace(*stream, current.back()->device);
  return kSuccess;
}
CuResult cuStreamDestroy_v2(CuStream stream) {
  TOWPATH_FAKE("cuStreamDestroy_v2", true);
  {
    const std::lock_guard lock(fake().mutex);
    fake().streams.erase(stream);
  }
  delete stream;
  return kSuccess;
}
CuResult cuStreamQuery(CuStream stream) {
  TOWPATH_FAKE("cuStreamQuery", true);
  return *stream->stream->is_idle() ? kSuccess : kNotReady;
}
CuResult cuStreamSynchronize(CuStream stream) {
  TOWPATH_FAKE("cuStreamSynchronize", true);
  return result_of(stream->stream->synchronize());
}
CuResult cuStreamWaitEvent(CuStream stream, CuEvent event, unsigned flags) {
  TOWPATH_FAKE("cuStreamWaitEvent", true);
  if (flags != 0) return complain("cuStreamWaitEvent", "flags must be 0");
  return result_of(stream->stream->wait(*event->event));
}
CuResult cuLaunchHostFunc(CuStream stream, CuHostFunction function, void* argument) {
  TOWPATH_FAKE("cuLaunchHostFunc", true);
  return result_of(stream->stream->run([=] { function(argument); }));
}
CuResult cuEventCreate(CuEvent* event, unsigned flags) {
  TOWPATH_FAKE("cuEventCreate", true);
  const bool interprocess = (flags & kEventInterprocess) != 0;
  const bool timed = (flags & kEventDisableTiming) == 0;
  if (interprocess && timed) return complain("cuEventCreate", "interprocess and timed");
  *event = new CuEventTag{
      device()->create_event({.timed = timed, .interprocess = interprocess}).value(), flags};
  return kSuccess;
}
CuResult cuEventDestroy_v2(CuEvent event) {
  TOWPATH_FAKE("cuEventDestroy_v2", true);
  delete event;
  return kSuccess;
}
CuResult cuEventRecord(CuEvent event, CuStream stream) {
  TOWPATH_FAKE("cuEventRecord", true);
  return result_of(stream->stream->record(*event->event));
}
CuResult cuEventQuery(CuEvent event) {
  TOWPATH_FAKE("cuEventQuery", true);
  return *event->event->is_done() ? kSuccess : kNotReady;
}
CuResult cuEventSynchronize(CuEvent event) {
  TOWPATH_FAKE("cuEventSynchronize", true);
  return result_of(event->event->wait());
}
CuResult cuEventElapsedTime(float* milliseconds, CuEvent start, CuEvent end) {
  TOWPATH_FAKE("cuEventElapsedTime", true);
  const auto time = end->event->since(*start->event);
  if (!time.ok()) return time.code() == towpath::Code::not_ready ? kNotReady : kInvalidHandle;
  *milliseconds = static_cast<float>(time->count()) / 1e6F;
  return kSuccess;
}

// Copies ------------------------------------------------------------------------------------------

CuResult cuMemcpyAsync(CuAddress target, CuAddress source, std::size_t size, CuStream stream) {
  TOWPATH_FAKE("cuMemcpyAsync", true);
  return result_of(stream->stream->copy({.target = target, .source = source, .length = size}));
}
CuResult cuMemcpyBatchAsync(CuAddress* targets, CuAddress* sources, std::size_t* sizes,
                            std::size_t count, CopyAttributes* attributes,
                            std::size_t* first_of_attribute, std::size_t attribute_count,
                            std::size_t* failed, CuStream stream) {
  TOWPATH_FAKE("cuMemcpyBatchAsync", true);
  if (count == 0 || attribute_count != 1 || *first_of_attribute != 0 ||
      attributes->source_access != 1 || attributes->flags != 0)
    return complain("cuMemcpyBatchAsync", "attributes that CUDA refuses");
  std::vector<Copy> copies;
  for (std::size_t i = 0; i < count; ++i) {
    *failed = i;
    if (sizes[i] == 0 || targets[i] == 0) return complain("cuMemcpyBatchAsync", "an empty copy");
    copies.push_back({.target = targets[i], .source = sources[i], .length = sizes[i]});
  }
  return result_of(stream->stream->copy_batch(copies));
}
CuResult cuMemcpy2DAsync_v2(const Memcpy2d* what, CuStream stream) {
  TOWPATH_FAKE("cuMemcpy2DAsync_v2", true);
  if (what->source_type != MemoryType::unified || what->target_type != MemoryType::unified ||
      what->source_x != 0 || what->source_y != 0 || what->target_x != 0 || what->target_y != 0)
    return complain("cuMemcpy2DAsync_v2", "not what was meant");
  if (what->source_pitch > kMaxPitch || what->target_pitch > kMaxPitch)
    return complain("cuMemcpy2DAsync_v2", "rows farther apart than the device takes");
  return result_of(stream->stream->copy_2d({.target = what->target_device,
                                            .target_pitch = what->target_pitch,
                                            .source = what->source_device,
                                            .source_pitch = what->source_pitch,
                                            .width = what->width,
                                            .rows = what->height}));
}
CuResult cuMemsetD8Async(CuAddress address, unsigned char value, std::size_t size,
                         CuStream stream) {
  TOWPATH_FAKE("cuMemsetD8Async", true);
  return result_of(
      stream->stream->fill({.address = address, .length = size, .value = std::byte{value}}));
}
CuResult cuStreamWriteValue64_v2(CuStream stream, CuAddress address, std::uint64_t value,
                                 unsigned flags) {
  TOWPATH_FAKE("cuStreamWriteValue64_v2", true);
  if (flags != 0) return complain("cuStreamWriteValue64_v2", "a write that may come too soon");
  return result_of(stream->stream->write_word({.address = address, .value = value}));
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
