#include <atomic>
#include <cstddef>
#include <cstdint>

#include <towpath/device/host/host_copy.h>

namespace towpath::device {
namespace {

template <typename Word>
void copy_words(std::uint64_t target, std::uint64_t source, std::uint64_t count) {
  auto* const to = reinterpret_cast<Word*>(target);
  auto* const from = reinterpret_cast<Word*>(source);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Word word = std::atomic_ref<Word>(from[i]).load(std::memory_order_relaxed);
    std::atomic_ref<Word>(to[i]).store(word, std::memory_order_relaxed);
  }
}

}  // namespace

void copy_bytes(const Copy& what) {
  using Word = std::uint64_t;
  // Words where both ends come to a word's boundary together; what lies around them by bytes.
  const bool aligned_alike = (what.target - what.source) % sizeof(Word) == 0;
  const std::uint64_t to_boundary = (sizeof(Word) - what.source % sizeof(Word)) % sizeof(Word);
  const std::uint64_t head = aligned_alike && to_boundary < what.length ? to_boundary : what.length;
  const std::uint64_t words = (what.length - head) / sizeof(Word);
  const std::uint64_t body_end = head + words * sizeof(Word);
  copy_words<std::uint8_t>(what.target, what.source, head);
  copy_words<Word>(what.target + head, what.source + head, words);
  copy_words<std::uint8_t>(what.target + body_end, what.source + body_end, what.length - body_end);
}

}  // namespace towpath::device
