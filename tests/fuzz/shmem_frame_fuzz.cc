// What a PE of another host may say once it is proven: frames of any kind, number and content.
// Their seals are right, or nobody would listen. The PE that hears them has a small
// heap between two guards, in which alone they may change a byte; it answers, or gives the other
// up.
#include <algorithm>
#include <cstdint>

#include <towpath/shmem/bootstrap_words.h>
#include <towpath/shmem/testing/fake_pe.h>
#include <towpath/wire/little_endian.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath;
using namespace towpath::shmem;

constexpr std::size_t kHeap = 256;
constexpr std::size_t kGuard = 64;
constexpr std::byte kMark{0xA5};

/// Takes numbers off the input; zeros once it is empty.
class Numbers {
 public:
  explicit Numbers(ConstByteSpan bytes) : left_(bytes) {}
  template <typename T>
  T take() {
    std::byte room[sizeof(T)] = {};
    std::ranges::copy(bytes(sizeof(T)), room);
    return wire::load<T>(room);
  }
  ConstByteSpan bytes(std::size_t count) {
    const ConstByteSpan taken = left_.first(std::min(count, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }
  bool is_empty() const noexcept { return left_.empty(); }

 private:
  ConstByteSpan left_;
};

/// PE 0 of two.
class Listener {
 public:
  Listener() {
    must(links_.open(other_.network()).ok());
    const ByteSpan heap = ByteSpan(memory_).subspan(kGuard, kHeap);
    must(links_
             .greet({.job = &job_, .my_pe = 0, .heap = heap},
                    {.secret = Secret(shmem::testing::kJobSecret), .places = {{}, other_.place()}})
             .ok());
    other_.meet(links_);
    must((*links_.find(1))->is_open());
  }
  void hear(const FrameHeader& header, ConstByteSpan bytes) {
    const bool is_arrival = header.kind == FrameKind::arrival;
    other_.say(header, is_arrival ? ConstByteSpan() : bytes, is_arrival ? bytes : ConstByteSpan());
    while (links_.turn()) {
    }
  }
  void check() const {
    const auto is_mark = [](std::byte byte) { return byte == kMark; };
    must(std::all_of(memory_.begin(), memory_.begin() + kGuard, is_mark));
    must(std::all_of(memory_.end() - kGuard, memory_.end(), is_mark));
  }

 private:
  ManualClock clock_;
  net::testing::FakeNetwork network_;
  shmem::testing::FakePe other_{network_, 1};
  JobFiles files_ = *create_job({.pes = 2, .heap_bytes = 4096, .heaps = 1});
  JobView job_ = *JobView::map(files_.control.get());
  Bytes memory_ = Bytes(kHeap + 2 * kGuard, kMark);
  Links links_{clock_, {}};
};

/// Seldom out of turn. Ranges are often near the heap's end.
FrameHeader header_of(Numbers& input, std::uint64_t& sequence) {
  FrameHeader header;
  header.kind = static_cast<FrameKind>(input.take<std::uint8_t>() % 15);
  header.op = static_cast<ChangeOp>(input.take<std::uint8_t>() % (kChangeOps + 1));
  header.word_bytes = input.take<std::uint8_t>();
  const auto choice = input.take<std::uint8_t>();
  header.sequence = ++sequence + (choice % 16 == 15 ? choice / 16 : 0);
  header.aux = (choice & 16) != 0 ? input.take<std::uint32_t>() : input.take<std::uint8_t>();
  header.offset =
      (choice & 32) != 0 ? input.take<std::uint64_t>() : input.take<std::uint16_t>() % 512;
  header.operand = (choice & 64) != 0 ? input.take<std::uint64_t>() : input.take<std::uint8_t>();
  header.ticket = choice >> 7;
  header.expected = header.operand;
  return header;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Numbers input(std::as_bytes(std::span(data, size)));
  Listener listener;
  std::uint64_t sequence = 1;  // the hello's
  while (!input.is_empty()) {
    const FrameHeader header = header_of(input, sequence);
    listener.hear(header, input.bytes(input.take<std::uint8_t>()));
  }
  listener.check();
  // And what whoever comes to the meeting before may say.
  (void)decode_bootstrap_words(std::as_bytes(std::span(data, size)));
  return 0;
}
