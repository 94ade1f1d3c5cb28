#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/far_copy.h>

namespace towpath::backend {
namespace {

std::vector<std::byte> numbered(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

TEST(FarCopyTest, copies_all_and_nothing_else_at_any_alignment) {
  const auto source = numbered(8192);
  for (std::size_t length : {0, 1, 63, 64, 1023, 1024, 1025, 4096, 5000}) {
    for (std::size_t to = 0; to < 65; to += 3) {
      for (std::size_t from = 0; from < 65; from += 7) {
        std::vector<std::byte> target(8192, std::byte{0xee});
        auto expected = target;
        std::memcpy(expected.data() + to, source.data() + from, length);
        far_copy(target.data() + to, source.data() + from, length);
        ASSERT_EQ(target, expected) << length << " bytes from " << from << " to " << to;
      }
    }
  }
}

TEST(FarCopyTest, extents_that_overlap_are_copied_as_by_memmove) {
  for (const std::ptrdiff_t distance : {-2000, -1, 0, 1, 64, 2000}) {
    auto bytes = numbered(12000);
    auto expected = bytes;
    std::memmove(expected.data() + 3000 + distance, expected.data() + 3000, 5000);
    far_copy(bytes.data() + 3000 + distance, bytes.data() + 3000, 5000);
    ASSERT_EQ(bytes, expected) << "by " << distance;
  }
}

}  // namespace
}  // namespace towpath::backend
