#include <sys/mman.h>

#include <towpath/sys/fork_mark.h>

namespace towpath::sys {

ForkMark::ForkMark() noexcept {
  auto page = Mapping::anonymous(page_size());
  if (!page.ok() || ::madvise(page->data(), page->size(), MADV_WIPEONFORK) != 0) return;
  page_ = *std::move(page);
  *page_.data() = std::byte{1};
}

}  // namespace towpath::sys
