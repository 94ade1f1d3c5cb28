#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/net/framed_connection.h>

namespace towpath::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr wire::OpenLimits kLimits{
    .type = wire::MessageType::rendezvous_frame, .max_version = 1, .max_payload_bytes = 100'000};

Bytes sealed(std::string_view text, wire::MessageType type = kLimits.type) {
  return wire::seal({.type = type, .version = 1}, as_bytes(text));
}
std::string text_of(const Frame& frame) { return std::string(as_text(frame.payload())); }

class FramedConnectionTest : public testing::Test {
 protected:
  void connect(const sys::MemoryStreamOptions& options = {}) {
    auto [a, b] = sys::make_memory_streams(options);
    here = std::make_unique<FramedConnection>(std::move(a), kLimits);
    raw = std::move(b);
  }
  // All that comes until nothing more does, or a failure.
  std::vector<std::string> receive_all(FramedConnection& from) {
    std::vector<std::string> texts;
    for (int idle = 0; idle < 3;) {
      std::size_t budget = SIZE_MAX;
      auto frame = from.receive(budget);
      status = frame.status();
      if (!frame.ok()) break;
      if (*frame) texts.push_back(text_of(**frame));
      idle = budget < SIZE_MAX ? 0 : idle + 1;
    }
    return texts;
  }

  std::unique_ptr<FramedConnection> here;
  std::unique_ptr<sys::ByteStream> raw;
  Status status;
};

TEST_F(FramedConnectionTest, frames_survive_any_cutting_of_the_stream) {
  for (const std::size_t most : {1UL, 31UL, 32UL, 33UL, 5000UL}) {
    connect({.capacity_bytes = 200'000, .most_per_read = most, .every_other_call_stalls = true});
    FramedConnection there(std::move(raw), kLimits);
    for (const char* text : {"one", "", "three"}) there.send(sealed(text));
    there.send(sealed(std::string(1000, 'x')));
    while (there.has_unsent()) ASSERT_TRUE(there.flush().ok());
    EXPECT_THAT(receive_all(*here), ElementsAre("one", "", "three", std::string(1000, 'x')));
  }
}

TEST_F(FramedConnectionTest, budget_bounds_one_call) {
  connect();
  const Bytes frame = sealed("a frame");
  (void)raw->write_some(frame);
  std::size_t budget = 10;
  EXPECT_FALSE(here->receive(budget).value().has_value());
  EXPECT_EQ(budget, 0U);
  EXPECT_EQ(here->buffered_bytes(), 10U);
  EXPECT_TRUE(here->is_busy());
  budget = 1000;
  EXPECT_TRUE(here->receive(budget).value().has_value());
  EXPECT_EQ(here->received_bytes(), frame.size());
  EXPECT_FALSE(here->is_busy());
}

TEST_F(FramedConnectionTest, promise_of_much_is_refused_before_it_is_stored) {
  connect();
  (void)raw->write_some(ConstByteSpan(sealed(std::string(100'001, 'x'))).first(40));
  receive_all(*here);
  EXPECT_EQ(status.code(), Code::out_of_range);
}

TEST_F(FramedConnectionTest, garbage_is_heard_before_a_header_of_it_has_come) {
  connect();
  (void)raw->write_some(as_bytes("GET /"));
  receive_all(*here);
  EXPECT_EQ(status.code(), Code::corrupt);
}

TEST_F(FramedConnectionTest, memory_grows_by_what_arrived) {
  connect();
  (void)raw->write_some(ConstByteSpan(sealed(std::string(100'000, 'x'))).first(40));
  EXPECT_THAT(receive_all(*here), testing::IsEmpty());
  EXPECT_EQ(here->buffered_bytes(), 40U);
}

TEST_F(FramedConnectionTest, each_damage_is_refused_by_name) {
  const auto poked = [&](std::size_t offset) {
    connect();
    Bytes frame = sealed("payload");
    frame[offset] ^= std::byte{0x40};
    (void)raw->write_some(frame);
    receive_all(*here);
    return status.code();
  };
  EXPECT_EQ(poked(0), Code::corrupt) << "magic";
  EXPECT_EQ(poked(4), Code::unsupported) << "version";
  EXPECT_EQ(poked(22), Code::out_of_range) << "length";
  EXPECT_EQ(poked(24), Code::corrupt) << "checksum";
  EXPECT_EQ(poked(34), Code::corrupt) << "payload";
}

TEST_F(FramedConnectionTest, first_frame_may_be_of_another_type) {
  connect();
  here = std::make_unique<FramedConnection>(
      std::exchange(raw, nullptr),
      wire::OpenLimits{.type = wire::MessageType::peer_hello, .max_payload_bytes = 10});
  connect();
  FramedConnection reader(std::move(raw),
                          {.type = wire::MessageType::peer_hello, .max_payload_bytes = 10});
  here->send(sealed("hi", wire::MessageType::peer_hello));
  here->send(sealed("the rest of it"));
  ASSERT_TRUE(here->flush().ok());
  std::size_t budget = 1000;
  ASSERT_TRUE(reader.receive(budget).value().has_value());
  reader.expect(kLimits);
  EXPECT_THAT(receive_all(reader), ElementsAre("the rest of it"));
}

TEST_F(FramedConnectionTest, end_is_reported_and_where_it_came) {
  connect();
  (void)raw->write_some(sealed("whole"));
  raw.reset();
  EXPECT_THAT(receive_all(*here), ElementsAre("whole"));
  EXPECT_EQ(status.code(), Code::peer_lost);
  connect();
  (void)raw->write_some(ConstByteSpan(sealed("half")).first(20));
  raw.reset();
  receive_all(*here);
  EXPECT_THAT(status.to_string(), HasSubstr("in the middle of a frame"));
}

TEST_F(FramedConnectionTest, cut_stream_fails_both_ways) {
  connect({.cut_after_bytes = 50});
  here->send(sealed(std::string(100, 'x')));
  while (status.ok() && here->has_unsent()) status = here->flush();
  EXPECT_EQ(status.code(), Code::peer_lost);
}

TEST_F(FramedConnectionTest, what_is_discarded_is_counted_and_gone) {
  connect();
  (void)raw->write_some(Bytes(1000));
  std::size_t budget = 600;
  EXPECT_TRUE(here->discard(budget).ok());
  EXPECT_EQ(here->received_bytes(), 600U);
  raw.reset();
  budget = 600;
  EXPECT_EQ(here->discard(budget).code(), Code::peer_lost);
  EXPECT_EQ(here->buffered_bytes(), 0U);
}

TEST_F(FramedConnectionTest, damaged_streams_fail_or_pass_but_never_crash) {
  std::mt19937 random(11);
  const Bytes whole = sealed("some bytes of metadata");
  for (int round = 0; round < 2000; ++round) {
    Bytes bytes = whole;
    bytes.insert(bytes.end(), whole.begin(), whole.end());
    for (int flips = 0; flips < 3; ++flips)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    bytes.resize(random() % bytes.size() + 1);
    connect({.most_per_read = random() % 40 + 1});
    (void)raw->write_some(bytes);
    receive_all(*here);
  }
}

}  // namespace
}  // namespace towpath::net
