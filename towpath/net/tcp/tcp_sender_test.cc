// What TcpSender makes of a body that nobody but the kernel may touch, over a stream that touches
// it.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/net/tcp/tcp_sender.h>

namespace towpath::net {
namespace {

constexpr std::size_t kBufferBytes = 10'000;
constexpr std::size_t kBodyBytes = 9'000;

/// Remembers where its bytes were copied to.
struct Fragile final : BodySource {
  std::size_t parts(std::span<ConstByteSpan>) override {
    ADD_FAILURE() << "somebody looks at it";
    return 0;
  }
  void left(std::uint64_t) override {}
  void copy_out(ByteSpan into) override {
    std::ranges::fill(into, std::byte{'b'});
    copied_to = into;
  }
  bool may_fault() const noexcept override { return true; }
  void done() override { is_done = true; }

  ConstByteSpan copied_to;
  bool is_done = false;
};

TEST(TcpSenderTest, body_that_may_fault_is_copied_into_a_buffer_that_was_used_before) {
  auto [ours, theirs] = sys::make_memory_streams({.capacity_bytes = 1'000'000});
  MessageBuffers buffers(kBufferBytes);
  std::vector<ConstByteSpan> known;
  std::vector<std::unique_ptr<MessageBuffer>> taken;
  for (int i = 0; i < 2; ++i) taken.push_back(buffers.take());
  for (auto& buffer : taken) known.emplace_back(buffer->room());
  for (auto& buffer : taken) buffers.give_back(std::move(buffer));

  TcpSender sender(buffers);
  for (int i = 0; i < 5; ++i) {
    auto buffer = buffers.take();
    buffer->room().front() = std::byte{'h'};
    buffer->size = 1;
    Fragile body;
    ASSERT_TRUE(sender.send(ours.get(), std::move(buffer), &body, kBodyBytes).ok());
    EXPECT_TRUE(body.is_done);
    ASSERT_EQ(body.copied_to.size(), kBodyBytes);
    EXPECT_TRUE(std::ranges::any_of(
        known, [&](ConstByteSpan room) { return room.data() == body.copied_to.data(); }));
    Bytes came(MessagePrefix::kBytes + 1 + kBodyBytes);
    ASSERT_EQ(theirs->read_some(came)->size_bytes, came.size());
    EXPECT_EQ(as_text(came).substr(MessagePrefix::kBytes), "h" + std::string(kBodyBytes, 'b'));
  }
  EXPECT_EQ(sender.unsent(), 0U);
}

}  // namespace
}  // namespace towpath::net
