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

constexpr int kSpans = 3;
constexpr long kMaxMappings = 100;          // stacks of threads and the like, kept for later
constexpr long kMaxHeapBytes = 256 * 1024;  // a leak of 27 bytes a round shows at 10,000
constexpr long kMaxResidentBytes = 4 * 1024 * 1024;

/// What `after` has more than `before`.
struct Growth {
  Growth(const Held& before, const Held& after)
      : descriptors(after.descriptors - before.descriptors),
        mappings(after.mappings - before.mappings),
        heap_bytes(after.heap_bytes - before.heap_bytes),
        resident_bytes(after.resident_bytes - before.resident_bytes) {}

  bool is_too_much() const {
    if (descriptors > 0 || heap_bytes >= kMaxHeapBytes) return true;
    if (kIsSanitized) return false;  // they keep what was freed, and map more for it
    return mappings >= kMaxMappings || resident_bytes >= kMaxResidentBytes;
  }

  long descriptors, mappings, heap_bytes, resident_bytes;
};

std::ostream& operator<<(std::ostream& out, const Growth& growth) {
  return out << "descriptors " << growth.descriptors << ", mappings " << growth.mappings
             << ", heap " << growth.heap_bytes << " bytes, resident " << growth.resident_bytes
             << " bytes";
}

}  // namespace

Held held_now() {
  ::malloc_trim(0);  // each thread of UCX's has an arena; how many ever lived at a time is no leak
  const std::filesystem::directory_iterator open("/proc/self/fd");
  const std::string maps = sys::read_text_file("/proc/self/maps", 1U << 20U).value();
  const std::string status = sys::read_text_file("/proc/self/status").value();
  const auto resident = sys::line_after(status, "VmRSS:").value_or("");
  const auto kib = sys::parse_number(resident.substr(0, resident.find("kB"))).value_or(0);
  return {.descriptors = std::distance(begin(open), end(open)),
          .mappings = std::ranges::count(maps, '\n'),
          .heap_bytes = static_cast<long>(heap_bytes()),
          .resident_bytes = static_cast<long>(kib) * 1024};
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
  const int settling = std::max(rounds() / 10, 30);  // until caches are as full as they get
  int next = -settling;
  const auto held_after = [&](int end) {
    for (; next < end && !testing::Test::HasFatalFailure(); ++next) {
      round(next);
      EXPECT_FALSE(testing::Test::HasFatalFailure()) << "round " << next;
    }
    settle();
    return held_now();
  };
  Held before = held_after(0);
  for (int span = 1; span <= kSpans && !testing::Test::HasFatalFailure(); ++span) {
    const Held after = held_after(span * rounds());
    const Growth growth(before, after);
    std::cout << "after " << next << " rounds: " << growth << '\n';
    if (!growth.is_too_much()) return;
    before = after;
  }
  ADD_FAILURE() << "each of " << kSpans << " times " << rounds() << " rounds left something behind";
}

}  // namespace towpath::backend::conformance
