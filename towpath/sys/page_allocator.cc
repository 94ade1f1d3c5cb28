#include <cstdint>
#include <new>

#include <sys/mman.h>

#include <towpath/core/checked.h>
#include <towpath/sys/page_allocator.h>

namespace towpath::sys {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20U;
constexpr std::size_t kTooMuch = SIZE_MAX / 2;  // operator new says so, where it would wrap

std::align_val_t alignment_of(std::size_t size_bytes) {
  return std::align_val_t{size_bytes >= kHugePage ? kHugePage : kCacheLine};
}

}  // namespace

void* allocate_pages(std::size_t size_bytes) {
  const std::align_val_t alignment = alignment_of(size_bytes);
  const std::size_t whole = align_up(size_bytes, std::size_t(alignment)).value_or(kTooMuch);
  void* const pages = ::operator new(whole, alignment);
  if (size_bytes >= kHugePage) (void)::madvise(pages, whole, MADV_HUGEPAGE);  // or ordinary ones
  return pages;
}

void free_pages(void* pages, std::size_t size_bytes) noexcept {
  ::operator delete(pages, alignment_of(size_bytes));
}

}  // namespace towpath::sys
