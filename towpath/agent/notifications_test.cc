// Notifications of an agent whose backends behave as scripted: order, room, loss.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/agent.h>
#include <towpath/agent/channel.h>
#include <towpath/agent/testing/scripted_backend.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/log.h>

namespace towpath::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// An agent that speaks over "talk" and moves bytes over "talk" or "move", to another one.
struct Talk {
  explicit Talk(backend::Notifications notifications = backend::Notifications::reliable) {
    talk.can.notifications = notifications;
    move.can.notifications = backend::Notifications::none;
    EXPECT_TRUE(registry.add(scripted_type("talk", talk)).ok());
    EXPECT_TRUE(registry.add(scripted_type("move", move)).ok());
    near = make("near");
    far = make("far");
    near_pool = pool_of(*near, near_memory);
    far_pool = pool_of(*far, far_memory);
    EXPECT_TRUE(near->load_metadata(*far->metadata()).ok());
  }

  std::unique_ptr<Agent> make(const std::string& name) {
    auto agent = Agent::create({.name = name, .registry = &registry, .clock = &clock, .log = &log});
    EXPECT_TRUE(agent.ok()) << agent.status().to_string();
    EXPECT_TRUE((*agent)->add_backend("talk").ok());
    EXPECT_TRUE((*agent)->add_backend("move").ok());
    return *std::move(agent);
  }
  static memory::Registration pool_of(Agent& agent, memory::SharedRegion& region) {
    region = *memory::SystemRegion::allocate(4096);
    return *agent.register_region(region);
  }
  static DescriptorList whole(const memory::SharedRegion& region) {
    DescriptorList list(MemoryKind::system);
    EXPECT_TRUE(list.add(Descriptor{region->descriptor().address, 4096, 0}).ok());
    return list;
  }
  Transfer make_transfer(const std::string& message, const std::string& backend) {
    auto made =
        near->create_transfer(TransferOp::write, whole(near_memory), "far", whole(far_memory),
                              {.notification = to_bytes(message), .backends = {backend}});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return *std::move(made);
  }
  std::vector<std::string> said() const {
    std::vector<std::string> words;
    for (const Bytes& message : talk.notified) {
      const auto envelope = decode_envelope(message);
      if (envelope->kind == Envelope::Kind::message) words.emplace_back(as_text(envelope->payload));
    }
    return words;
  }
  static Status full(ScriptedConnection&, ConstByteSpan) { return error(Code::exhausted, "full"); }

  sys::SystemClock clock;
  telemetry::CollectingSink log;
  Script talk, move;
  backend::Registry registry;
  memory::SharedRegion near_memory, far_memory;
  std::unique_ptr<Agent> near, far;
  memory::Registration near_pool, far_pool;
};

TEST(NotificationsTest, a_later_message_does_not_overtake_that_of_a_transfer_over_another_backend) {
  Talk t;
  Transfer first = t.make_transfer("first", "move");
  Transfer third = t.make_transfer("third", "talk");
  ASSERT_TRUE(first.post().ok());
  ASSERT_TRUE(first.ended()) << "nobody made progress yet: its message waits";
  ASSERT_TRUE(t.near->notify("far", as_bytes("second")).ok());
  ASSERT_TRUE(third.post().ok());
  t.near->progress();
  EXPECT_THAT(t.said(), ElementsAre("first", "second", "third"));
}

TEST(NotificationsTest, an_empty_one_of_a_post_takes_the_last_away_or_is_sent_as_it_is_asked) {
  Talk t;
  for (const char* const backend : {"talk", "move"}) {
    Transfer transfer = t.make_transfer("made", backend);
    ASSERT_TRUE(transfer.post({.timeout = {}, .notification = Bytes()}).ok());
    ASSERT_TRUE(transfer.post().ok());
    ASSERT_TRUE(transfer.post({.timeout = {}, .notification = Bytes(), .sends_empty = true}).ok());
    ASSERT_TRUE(transfer.post().ok());
    t.near->progress();
  }
  EXPECT_THAT(t.said(), ElementsAre("", "", "", ""));
}

TEST(NotificationsTest, keep_their_order_while_the_backend_that_carries_them_is_full) {
  Talk t;
  t.talk.on_notify = Talk::full;
  std::vector<std::string> expected;
  for (int i = 0; i < 20; ++i) {
    expected.push_back(std::to_string(i));
    if (i % 3 == 0) {
      ASSERT_TRUE(t.near->notify("far", as_bytes(expected.back())).ok());
    } else {
      Transfer transfer = t.make_transfer(expected.back(), i % 3 == 1 ? "move" : "talk");
      ASSERT_TRUE(transfer.post().ok());
      ASSERT_EQ(transfer.outcome(), Outcome::done);
    }
    if (i % 5 == 0) t.near->progress();
  }
  int room = 3;  // for three at a time
  t.talk.on_notify = [&](ScriptedConnection&, ConstByteSpan) {
    return room-- > 0 ? Status() : error(Code::exhausted, "full");
  };
  for (int i = 0; i < 20; ++i, room = 3) t.near->progress();
  EXPECT_EQ(t.said(), expected);
}

TEST(NotificationsTest, of_transfers_under_way_count_and_what_does_not_fit_is_refused_at_post) {
  Talk t;
  t.talk.on_notify = Talk::full;
  t.move.is_eager = false;
  std::vector<Transfer> posted;
  std::size_t smallest = 0;
  for (std::size_t size = kMaxMessageBytes; size > 0; size /= 2) {  // until not one byte more fits
    for (bool fits = true; fits;) {
      Transfer transfer = t.make_transfer(std::string(size, 'm'), "move");
      fits = transfer.post().ok();
      if (!fits) break;
      smallest = size;
      posted.push_back(std::move(transfer));
    }
  }
  ASSERT_GT(posted.size(), 4U);
  Transfer over = t.make_transfer("one too many", "move");
  const Status refused = over.post();
  EXPECT_EQ(refused.code(), Code::exhausted);
  EXPECT_THAT(std::string(refused.hint()), HasSubstr("make progress"));
  EXPECT_EQ(over.state(), TransferState::prepared);
  EXPECT_EQ(t.make_transfer("the same, over its backend", "talk").post().code(), Code::exhausted);
  EXPECT_EQ(t.near->notify("far", as_bytes("nor this")).code(), Code::exhausted);
  EXPECT_TRUE(over.post({.timeout = {}, .notification = Bytes()}).ok()) << "silent, it may";
  over.cancel();
  // What ends as done keeps its room until it is sent; what does not gives it back.
  t.move.active.back()->complete({});
  EXPECT_EQ(t.near->notify("far", as_bytes("nor now")).code(), Code::exhausted);
  posted.front().cancel();
  t.near->progress();
  EXPECT_TRUE(t.near->notify("far", as_bytes("now")).ok());
  EXPECT_EQ(t.near->notify("far", Bytes(kMaxMessageBytes)).code(), Code::exhausted);
  for (Transfer& transfer : posted) transfer.cancel();
  t.near->progress();
  t.talk.on_notify = nullptr;
  t.near->progress();
  EXPECT_THAT(t.said(), ElementsAre(std::string(smallest, 'm'), "now"));
}

TEST(NotificationsTest, room_that_a_refused_post_kept_is_given_back) {
  Talk t;
  t.talk.on_notify = Talk::full;
  t.move.is_eager = false;
  Transfer transfer = t.make_transfer("once", "move");
  ASSERT_TRUE(transfer.post().ok());
  const std::string longest(kMaxMessageBytes, 'm');
  for (int i = 0; i < 8; ++i)
    ASSERT_EQ(transfer.post({.timeout = {}, .notification = to_bytes(longest)}).code(),
              Code::not_ready);
  EXPECT_TRUE(t.near->notify("far", as_bytes(longest)).ok());
}

TEST(NotificationsTest, a_burst_is_taken_while_nobody_makes_progress) {
  Talk t;
  t.talk.on_notify = Talk::full;
  constexpr int kBurst = 100'000;
  for (int i = 0; i < kBurst; ++i)
    ASSERT_TRUE(t.near->notify("far", as_bytes("16 bytes of text")).ok());
  const Bytes longest(kMaxMessageBytes);
  while (t.near->notify("far", longest).ok()) {
  }
  const Status full = t.near->notify("far", longest);
  EXPECT_EQ(full.code(), Code::exhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("of 67108864"));
  EXPECT_EQ(t.near->peers().at(0).waiting_notifications, kBurst + 3U);
}

TEST(NotificationsTest, that_were_accepted_leave_though_their_agent_ends) {
  Talk t;
  t.talk.on_notify = Talk::full;
  ASSERT_TRUE(t.near->notify("far", as_bytes("first")).ok());
  ASSERT_TRUE(t.near->notify("far", as_bytes("second")).ok());
  int turns = 0;
  t.talk.on_progress = [&] {
    if (++turns == 3) t.talk.on_notify = nullptr;
  };
  t.near.reset();
  EXPECT_THAT(t.said(), ElementsAre("first", "second"));
}

TEST(NotificationsTest, that_cannot_travel_are_refused_at_post) {
  Talk t;
  Transfer transfer = t.make_transfer("short", "talk");
  EXPECT_EQ(transfer.post({.timeout = {}, .notification = Bytes(kMaxMessageBytes + 1)}).code(),
            Code::invalid_argument);
  t.talk.can.notifications = backend::Notifications::none;
  auto mute = t.make("mute");
  ASSERT_TRUE(mute->load_metadata(*t.far->metadata()).ok());
  memory::SharedRegion region;
  const auto pool = Talk::pool_of(*mute, region);
  auto silent = mute->create_transfer(TransferOp::write, Talk::whole(region), "far",
                                      Talk::whole(t.far_memory));
  ASSERT_TRUE(silent.ok());
  EXPECT_EQ(silent->post({.timeout = {}, .notification = to_bytes("x")}).code(), Code::unsupported);
  EXPECT_TRUE(silent->post().ok());
}

TEST(NotificationsTest, a_message_stays_whole_while_it_is_handed_over_though_the_peer_is_lost) {
  Talk t;
  Bytes before, after;
  t.talk.on_notify = [&](ScriptedConnection& connection, ConstByteSpan message) {
    before.assign(message.begin(), message.end());
    connection.events.on_peer_lost(connection, error(Code::peer_lost, "it hung up"));
    after.assign(message.begin(), message.end());
    return error(Code::peer_lost, "it hung up");
  };
  Transfer transfer = t.make_transfer("of a transfer", "talk");
  t.talk.is_eager = false;
  ASSERT_TRUE(transfer.post().ok());
  ASSERT_TRUE(t.near->notify("far", as_bytes("the first of three, and long enough")).ok());
  EXPECT_FALSE(before.empty());
  EXPECT_EQ(before, after);
  EXPECT_TRUE(t.near->peer("far")->lost);
  EXPECT_EQ(transfer.outcome(), Outcome::peer_lost);
  EXPECT_TRUE(transfer.ended()) << "what follows from the loss is done before the call returns";
  EXPECT_EQ(t.near->notify("far", as_bytes("more")).code(), Code::peer_lost);
  EXPECT_EQ(t.near->check_peer("far").code(), Code::peer_lost);
}

/// The far side hangs up on the next message.
void hang_up(Talk& t) {
  t.talk.on_notify = [](ScriptedConnection& connection, ConstByteSpan) {
    connection.events.on_peer_lost(connection, error(Code::peer_lost, "it hung up"));
    return error(Code::peer_lost, "it hung up");
  };
  (void)t.near->notify("far", as_bytes("goodbye"));
}

TEST(NotificationsTest, that_a_peer_is_lost_is_a_warning) {
  Talk t;
  hang_up(t);
  EXPECT_TRUE(t.near->peer("far")->lost);
  EXPECT_EQ(t.log.count_of("peer lost"), 1U);
}

TEST(NotificationsTest, that_an_excused_peer_goes_is_no_warning) {
  Talk t;
  ASSERT_TRUE(t.near->expect_departure("far").ok());
  hang_up(t);
  EXPECT_TRUE(t.near->peer("far")->lost);
  EXPECT_EQ(t.log.count_of("peer lost"), 0U);
  EXPECT_EQ(t.log.count_of("peer gone"), 1U);
  EXPECT_EQ(t.near->expect_departure("nobody").code(), Code::not_found);
}

TEST(NotificationsTest, that_an_excused_peer_goes_in_the_middle_of_a_transfer_is_a_warning) {
  Talk t;
  t.talk.is_eager = false;
  Transfer transfer = t.make_transfer("of a transfer", "talk");
  ASSERT_TRUE(transfer.post().ok());
  ASSERT_TRUE(t.near->expect_departure("far").ok());
  hang_up(t);
  EXPECT_EQ(transfer.outcome(), Outcome::peer_lost);
  EXPECT_EQ(t.log.count_of("peer lost"), 1U);
}

TEST(NotificationsTest, travel_over_the_backend_with_the_lowest_latency) {
  Talk t;
  t.talk.can.cost.latency = Duration(100);
  t.move.can.notifications = backend::Notifications::reliable;
  t.move.can.cost.latency = Duration(99);
  const auto again = t.make("again");
  ASSERT_TRUE(t.near->load_metadata(*again->metadata()).ok());
  ASSERT_TRUE(t.near->notify("again", as_bytes("quickly")).ok());
  ASSERT_TRUE(t.near->notify("far", as_bytes("as it was met")).ok());
  EXPECT_THAT(t.move.notified, testing::SizeIs(1));
  EXPECT_THAT(t.talk.notified, testing::SizeIs(1));
}

}  // namespace
}  // namespace towpath::agent
