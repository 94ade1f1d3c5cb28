#include "tools/bench/message.h"

#include <gtest/gtest.h>

namespace towpath::tools::bench {
namespace {

TEST(BenchMessageTest, comes_back_as_it_went) {
  const Message message{.kind = MessageKind::checked,
                        .bytes = 1,
                        .address = 2,
                        .device_id = 3,
                        .memory = MemoryKind::device,
                        .cpu_ns = 4,
                        .fill = true,
                        .wrong = true,
                        .wrong_at = 5,
                        .blocks = {6, 7, 8, 9},
                        .metadata = Bytes(10),
                        .text = "why",
                        .hint = "do"};
  const Message back = decode(encode(message).value()).value();
  EXPECT_EQ(back.kind, message.kind);
  EXPECT_EQ(back.memory, MemoryKind::device);
  EXPECT_EQ(back.bytes + back.address + back.device_id + back.cpu_ns, 10U);
  EXPECT_TRUE(back.fill && back.wrong);
  EXPECT_EQ(back.wrong_at, 5U);
  EXPECT_EQ(back.blocks.seed + back.blocks.block_bytes * 10, 76U);
  EXPECT_EQ(back.blocks.stride + back.blocks.count * 10, 98U);
  EXPECT_EQ(back.metadata, message.metadata);
  EXPECT_EQ(back.text, "why");
  EXPECT_EQ(back.hint, "do");
}

TEST(BenchMessageTest, what_is_no_message_is_refused) {
  EXPECT_EQ(decode({}).code(), Code::corrupt);
  Bytes bytes = encode({}).value();
  bytes.pop_back();
  EXPECT_EQ(decode(bytes).code(), Code::corrupt);
  Message long_metadata;
  long_metadata.metadata.resize(40 * 1024);
  EXPECT_FALSE(encode(long_metadata).ok());
}

}  // namespace
}  // namespace towpath::tools::bench
