#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/connection_table.h>

namespace towpath::backend {
namespace {

Status gone() { return error(Code::peer_lost, "gone"); }

/// Does something while it is notified of a loss, as agents may.
class BusyEvents final : public Events {
 public:
  void on_complete(Operation&, const Completion&) override {}
  bool on_notification(const AgentIdentity&, ConstByteSpan) override { return true; }
  void on_peer_lost(Connection& connection, const Status&) override {
    lost.push_back(&connection);
    if (react) react();
  }

  std::vector<Connection*> lost;
  std::function<void()> react;
};

class ConnectionTableTest : public ::testing::Test {
 protected:
  std::unique_ptr<TrackedConnection> open(const char* peer) {
    return std::make_unique<TrackedConnection>(table_, AgentIdentity{peer, 3});
  }
  void report() {
    table_.report_losses([&](const Connection& connection, const Status& why) {
      EXPECT_EQ(why.code(), Code::peer_lost);
      ended_.push_back(&connection);
    });
  }

  BusyEvents events_;
  ConnectionTable table_{events_};
  std::vector<const Connection*> ended_;
};

TEST_F(ConnectionTableTest, a_connection_is_found_while_it_lives) {
  auto first = open("p");
  const auto second = open("p");
  EXPECT_EQ(table_.find(first->id()), first.get());
  const std::uint64_t id = first->id();
  first.reset();
  EXPECT_EQ(table_.find(id), nullptr);
  const auto third = open("q");
  EXPECT_NE(third->id(), id);
  EXPECT_EQ(third->peer().name, "q");
}

TEST_F(ConnectionTableTest, a_loss_is_reported_once_with_its_first_reason) {
  const auto one = open("p");
  const auto other = open("p");
  table_.mark_lost(*other, gone());
  table_.mark_lost(*other, error(Code::timed_out, "later"));
  EXPECT_TRUE(events_.lost.empty()) << "nobody is notified before report_losses()";
  EXPECT_EQ(other->state().code(), Code::peer_lost);
  report();
  report();
  EXPECT_EQ(events_.lost, std::vector<Connection*>{other.get()});
  EXPECT_EQ(ended_.size(), 1u);
  EXPECT_FALSE(one->is_lost());
}

TEST_F(ConnectionTableTest, only_those_that_are_up_are_asked) {
  const auto one = open("p");
  const auto other = open("p");
  table_.mark_lost(*one, gone());
  int asked = 0;
  table_.mark_if([&](const TrackedConnection& connection) -> Status {
    ++asked;
    return &connection == other.get() ? gone() : Status();
  });
  EXPECT_EQ(asked, 1);
  report();
  EXPECT_EQ(events_.lost.size(), 2u);
}

TEST_F(ConnectionTableTest, a_connection_that_is_dropped_when_reported_is_not_ended) {
  auto one = open("p");
  auto other = open("p");
  table_.mark_lost(*one, gone());
  table_.mark_lost(*other, gone());
  events_.react = [&] {
    one.reset();
    other.reset();
  };
  report();
  EXPECT_EQ(events_.lost.size(), 1u);
  EXPECT_TRUE(ended_.empty());
}

TEST_F(ConnectionTableTest, what_is_marked_meanwhile_is_reported_too) {
  const auto one = open("p");
  const auto other = open("p");
  table_.mark_lost(*one, gone());
  events_.react = [&] { table_.mark_lost(*other, gone()); };
  report();
  EXPECT_EQ(events_.lost, (std::vector<Connection*>{one.get(), other.get()}));
}

TEST_F(ConnectionTableTest, a_cut_is_reported_to_nobody) {
  const auto one = open("p");
  const auto other = open("p");
  table_.cut(*one, gone());
  table_.mark_lost(*other, gone());
  table_.cut(*other, gone());
  table_.mark_lost(*one, gone());
  EXPECT_TRUE(one->is_lost());
  report();
  EXPECT_TRUE(events_.lost.empty());
}

}  // namespace
}  // namespace towpath::backend
