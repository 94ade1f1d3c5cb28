// PageAllocator: memory for arrays that are read at random. Large ones lie in transparent huge
// pages where the kernel makes them on request: so a look at an entry is one miss of the caches,
// without one of the translations before it.
//
//   std::vector<Entry, sys::PageAllocator<Entry>> entries(count);
//
// Without memory it ends as operator new does. Thread: any.
#pragma once

#include <cstddef>

namespace towpath::sys {

/// At least aligned to a cache line; from some MiB on in huge pages, if they can be had.
void* allocate_pages(std::size_t size_bytes);
/// Of as many bytes as were allocated.
void free_pages(void* pages, std::size_t size_bytes) noexcept;

template <class T>
struct PageAllocator {
  using value_type = T;

  PageAllocator() = default;
  template <class Other>
  PageAllocator(const PageAllocator<Other>&) noexcept {}  // NOLINT: containers convert it

  T* allocate(std::size_t count) { return static_cast<T*>(allocate_pages(count * sizeof(T))); }
  void deallocate(T* array, std::size_t count) noexcept { free_pages(array, count * sizeof(T)); }

  friend bool operator==(const PageAllocator&, const PageAllocator&) = default;
};

}  // namespace towpath::sys
