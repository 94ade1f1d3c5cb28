#include <algorithm>
#include <filesystem>
#include <iostream>

#include <gtest/gtest.h>
#include <malloc.h>

#include <towpath/backend/conformance/growth.h>
#include <towpath/sys/text_file.h>

#if defined(TOWPATH_ASAN) || defined(__SANITIZE_THREAD__)
// Of the sanitizers' runtime; g++ comes without the header that declares it.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace towpath::backend::conformance {
namespace {

#if defined(TOWPATH_ASAN) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
std::size_t heap_bytes() { return __sanitizer_get_current_allocated_bytes(); }
#else
constexpr bool kIsSanitized = false;
std::size_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}
#endif

constexpr std::size_t kMaxMappings = 100;  // stacks of threads and the like, kept for later
// Kept for later: requests, and buffers of UCX's frames (512 KiB each), as many as there ever were
// at a time; a leak of 160 bytes a round shows at 10,000.
constexpr std::size_t kMaxHeapBytes = 1536 * 1024;
constexpr std::size_t kMaxResidentBytes = 4 * 1024 * 1024;

long grown(std::size_t before, std::size_t after) {
  return static_cast<long>(after) - static_cast<long>(before);
}

}  // namespace

Held held_now() {
  ::malloc_trim(0);  // each thread of UCX's has an arena; how many ever lived at a time is no leak
  const std::filesystem::directory_iterator open("/proc/self/fd");
  const std::string maps = sys::read_text_file("/proc/self/maps", 1U << 20U).value();
  const std::string status = sys::read_text_file("/proc/self/status").value();
  const auto resident = sys::line_after(status, "VmRSS:").value_or("");
  return {static_cast<std::size_t>(std::distance(begin(open), end(open))),
          static_cast<std::size_t>(std::ranges::count(maps, '\n')), heap_bytes(),
          sys::parse_number(resident.substr(0, resident.find("kB"))).value_or(0) * 1024};
}

Soak& soak() {
  static Soak set;
  return set;
}

int& rounds() {
  static int count = kIsSanitized ? 100 : 300;  // there a round takes ten times as long
  return count;
}

void expect_no_growth(const std::function<void(int)>& round, const std::function<void()>& settle) {
  Held before;
  const int settling = std::max(rounds() / 10, 30);  // until caches are as full as they get
  for (int i = -settling; i < rounds(); ++i) {
    if (i == 0) {
      settle();
      before = held_now();
    }
    ASSERT_NO_FATAL_FAILURE(round(i)) << "round " << i;
  }
  settle();
  const Held after = held_now();
  std::cout << "after " << rounds() << " rounds: descriptors "
            << grown(before.descriptors, after.descriptors) << ", mappings "
            << grown(before.mappings, after.mappings) << ", heap "
            << grown(before.heap_bytes, after.heap_bytes) << " bytes, resident "
            << grown(before.resident_bytes, after.resident_bytes) << " bytes\n";
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_LT(after.heap_bytes, before.heap_bytes + kMaxHeapBytes);
  if (kIsSanitized) return;  // they keep what was freed, and map more for it
  EXPECT_LT(after.mappings, before.mappings + kMaxMappings);
  EXPECT_LT(after.resident_bytes, before.resident_bytes + kMaxResidentBytes);
}

}  // namespace towpath::backend::conformance
