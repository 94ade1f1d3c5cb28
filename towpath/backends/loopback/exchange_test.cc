#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include <towpath/backends/loopback/exchange.h>

namespace towpath::backends::loopback {
namespace {

TEST(RecordTest, closed_record_lets_nobody_in) {
  Record record({.address = 4096, .length = 64}, 1);
  ASSERT_TRUE(record.enter());
  record.leave();
  record.close();
  EXPECT_FALSE(record.enter());
  EXPECT_FALSE(Record::Use(record));
  record.close();
}

// Breaks (and TSan reports) when close() returns while somebody is inside.
TEST(RecordTest, close_waits_for_those_inside) {
  for (int round = 0; round < 50; ++round) {
    Record record({.address = 4096, .length = 64}, 1);
    int bytes = 0;  // plain on purpose: guarded by the record
    std::atomic<bool> started{false};
    std::thread user([&] {
      while (true) {
        Record::Use inside(record);
        if (!inside) return;
        ++bytes;
        started.store(true);
      }
    });
    while (!started.load()) std::this_thread::yield();
    record.close();
    const int before = bytes;
    bytes = -1;
    user.join();
    EXPECT_EQ(bytes, -1) << before;
  }
}

class ExchangeTest : public ::testing::Test {
 protected:
  std::shared_ptr<Endpoint> open(const char* name) {
    auto endpoint = exchange_.open_endpoint({name, 7});
    EXPECT_TRUE(endpoint.ok());
    return *endpoint;
  }
  Exchange exchange_{5};
};

TEST_F(ExchangeTest, closed_endpoint_says_so_and_takes_no_message) {
  const auto a = open("a");
  const auto b = open("b");
  const Bytes info = encode(exchange_.address_of(*b));
  EXPECT_EQ(*exchange_.find({"b", 7}, info), b);
  EXPECT_TRUE(b->check_open().ok());
  b->close();
  EXPECT_EQ(b->check_open().code(), Code::peer_lost);
  EXPECT_EQ(b->deliver(*a, as_bytes("late")).code(), Code::peer_lost);
  EXPECT_NE(open("c")->id(), b->id());
}

TEST_F(ExchangeTest, closing_takes_registrations_back) {
  const auto a = open("a");
  const RegionDescriptor region{.address = 4096, .length = 64};
  const auto record = a->add_record(region);
  EXPECT_EQ(*a->find_record(record->id, region), record);
  a->close();
  EXPECT_EQ(a->find_record(record->id, region).code(), Code::not_found);
  EXPECT_FALSE(record->enter());
}

TEST_F(ExchangeTest, inbox_is_bounded_by_number_and_by_bytes) {
  const auto a = open("a");
  const auto b = open("b");
  const auto c = open("c");
  for (std::size_t i = 0; i < kMaxQueuedMessages; ++i)
    ASSERT_TRUE(b->deliver(*a, as_bytes("x")).ok());
  EXPECT_EQ(b->deliver(*a, as_bytes("x")).code(), Code::exhausted);
  const Bytes large(kMaxQueuedBytes / 2);
  EXPECT_TRUE(b->deliver(*c, large).ok());  // each sender has a share of its own
  EXPECT_TRUE(b->deliver(*c, large).ok());
  EXPECT_EQ(b->deliver(*c, as_bytes("x")).code(), Code::exhausted);
}

TEST_F(ExchangeTest, a_message_waits_until_it_is_popped) {
  const auto a = open("a");
  const auto b = open("b");
  ASSERT_TRUE(b->deliver(*a, as_bytes("1")).ok());
  ASSERT_TRUE(b->deliver(*a, as_bytes("2")).ok());
  Waiting next;
  ASSERT_TRUE(b->find_next(0, next));
  EXPECT_FALSE(b->find_next(a->id(), next));
  ASSERT_TRUE(b->find_next(0, next));
  EXPECT_EQ(as_text(*next.message), "1");
  EXPECT_EQ(next.from->name, "a");
  b->pop(next);
  ASSERT_TRUE(b->find_next(0, next));
  EXPECT_EQ(as_text(*next.message), "2");
  b->pop(next);
  EXPECT_FALSE(b->find_next(0, next));
}

TEST_F(ExchangeTest, closing_wakes_watchers) {
  const auto a = open("a");
  const auto b = open("b");
  b->add_watcher(a);
  b->add_watcher(a);
  b->close();
  EXPECT_TRUE(a->waker().is_pending());
}

}  // namespace
}  // namespace towpath::backends::loopback
