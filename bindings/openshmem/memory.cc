// The symmetric heap. A block is let go of when it is freed, and lives on while a region holds it.
#include <cstring>

#include <towpath/core/checked.h>

#include "bindings/openshmem/process.h"

using namespace towpath;
using namespace towpath::openshmem;

namespace {

void* allocate(std::uint64_t size, const shmem::AllocateOptions& options) {
  if (size == 0) return nullptr;
  Process& self = process();
  auto block = shmem::allocate_block(self.context().underneath(), size, options);
  if (answer(block.status()) != 0) return nullptr;
  std::byte* const at = (*block)->local();
  self.keep(*std::move(block));
  return at;
}

}  // namespace

extern "C" {

void* shmem_malloc(size_t size) { return allocate(size, {}); }
void* shmem_malloc_with_hints(size_t size, long) { return allocate(size, {}); }

void* shmem_calloc(size_t count, size_t size) {
  // What wraps is larger than any heap.
  return allocate(checked_multiply(count, size).value_or(~std::size_t{0}), {.zeroed = true});
}

void* shmem_align(size_t alignment, size_t size) {
  return allocate(size, {.alignment = alignment});
}

void* shmem_realloc(void* ptr, size_t size) {
  if (ptr == nullptr) return shmem_malloc(size);
  if (size == 0) {
    shmem_free(ptr);
    return nullptr;
  }
  shmem::SharedBlock block = process().find(ptr);
  const std::uint64_t old_size = block->place().size_bytes;
  if (size <= old_size) return answer(shmem::keep_block(*block, size)) == 0 ? ptr : nullptr;
  block = nullptr;  // the heap gets it back below
  void* const moved = shmem_malloc(size);
  if (moved == nullptr) return nullptr;  // what there was stays
  std::memcpy(moved, ptr, old_size);
  shmem_free(ptr);  // all have copied when this returns
  return moved;
}

void shmem_free(void* ptr) {
  if (ptr != nullptr) must(shmem::free_block(process().take(ptr)));
}

}  // extern "C"
