#include "failing_allocation.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

// Constant-initialised, so that it is there before main(). Relaxed: a plain count.
std::atomic<std::int64_t> left{INT64_MAX};  // allocations until the one that fails

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (left.fetch_sub(1, std::memory_order_relaxed) == 0) return nullptr;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  return alignment <= alignof(std::max_align_t) ? std::malloc(size)
                                                : std::aligned_alloc(alignment, rounded);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace towpath::testing {

void fail_allocation(std::int64_t n) noexcept { left.store(n, std::memory_order_relaxed); }

bool stop_failing() noexcept { return left.exchange(INT64_MAX, std::memory_order_relaxed) < 0; }

}  // namespace towpath::testing

// The forms for arrays call these.
void* operator new(std::size_t size) { return or_throw(allocate(size, 1)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, static_cast<std::size_t>(alignment)));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 1); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
