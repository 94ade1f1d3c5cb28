#include <towpath/backends/posix/bounce_pool.h>

namespace towpath::backends::posix {

Status BouncePool::prepare() {
  if (memory_) return {};
  TOWPATH_TRY(memory_, sys::Mapping::anonymous(size_.buffers * size_.buffer_bytes));
  free_.reserve(size_.buffers);
  for (std::uint32_t i = 0; i < size_.buffers; ++i)
    free_.push_back({memory_.bytes().subspan(i * size_.buffer_bytes, size_.buffer_bytes)});
  return {};
}

BouncePool::Buffer BouncePool::take() noexcept {
  if (free_.empty()) return {};
  const Buffer buffer = free_.back();
  free_.pop_back();
  return buffer;
}

}  // namespace towpath::backends::posix
