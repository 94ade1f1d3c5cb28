// What somebody on the wire may do to a session, and what comes of it.
#include <algorithm>
#include <functional>
#include <iterator>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include <towpath/backends/messages/connection_info.h>
#include <towpath/backends/messages/inbound_frames.h>
#include <towpath/backends/messages/memory.h>
#include <towpath/backends/messages/message_backend_fixture.h>
#include <towpath/net/session/handshake.h>

namespace towpath::backends::messages {
namespace {

using namespace backend;
using net::testing::FakeNetwork;

class MessageSessionTest : public MessageBackendTest {
 protected:
  std::list<FakeNetwork::Arrived>& to_far() { return network_.port(far_.port).arrived; }
  std::list<FakeNetwork::Arrived>& to_near() { return network_.port(near_.port).arrived; }
  void settle_far() {
    for (int i = 0; i < 50; ++i) far_.backend->progress();
  }
  /// What far has to say to a read, before near hears it.
  void ask() {
    settle();
    near_before_ = near_.pool;
    post(TransferOp::read);
    far_.backend->progress();
    ASSERT_FALSE(to_near().empty());
  }
  void expect_lost(std::string_view why) {
    settle();
    ASSERT_EQ(near_.events.losses.size(), 1U);
    const std::string reported = near_.events.losses.front().why.to_string();
    EXPECT_NE(reported.find(why), std::string::npos) << reported;
    EXPECT_EQ(outcome().code(), Code::peer_lost);
  }
  std::vector<std::byte> near_before_;
};

/// Holds the metadata, and keeps to no rule but the handshake's.
class Rogue final : public net::MessageListener {
 public:
  Rogue(FakeNetwork& network, ConnectionInfo info, std::uint64_t session)
      : session_(session), info_(std::move(info)), worker_(network.open(kFrameBytes, *this)) {
    const auto address = worker_->address();
    const net::SessionParty self{
        .agent = {"rogue", 1},
        .instance = 99,
        .data = encode(PartyData{session_, {address.begin(), address.end()}})};
    dial_.emplace(
        net::DialHandshake::begin({info_.secret, "ucx"}, self, {{"far", 7}, info_.instance})
            .value());
    endpoint_ = worker_->connect(info_.address, hello(dial_->hello(), 0), this).value();
  }
  net::BodySink* on_message(const net::Message& message) override {
    const auto frame = decode_frame(message.head, message.body_bytes);
    if (frame->header.kind != FrameKind::hello) return ++heard, nullptr;
    inbound_.emplace([this, from = frame->header.session](InboundText& inbound, bool) {
      const auto outcome = dial_->take(inbound.text).value();
      sealer.emplace(outcome.keys.sending);
      EXPECT_TRUE(endpoint_->send(hello(outcome.confirmation, from), nullptr, 0, {}).ok());
    });
    inbound_->begin(*frame, 0);
    return &*inbound_;
  }
  void on_broken(void*, const Status&) override {}
  void note(std::uint64_t number, const std::string& text) {
    auto buffer = worker_->buffers().take();
    FrameWriter frame(*buffer,
                      {.kind = FrameKind::note, .session = session_, .stamp = 1, .id = number});
    frame.add(sealer->prove_body(as_bytes(text)));
    frame.append(as_bytes(text));
    frame.finish();
    send(std::move(buffer));
  }
  /// Asks for all bytes of the piece.
  void read(const Piece& piece, std::uint64_t id) {
    auto buffer = worker_->buffers().take();
    FrameWriter frame(*buffer,
                      {.kind = FrameKind::read, .session = session_, .stamp = 1, .id = id});
    frame.add(piece);
    frame.finish();
    send(std::move(buffer));
  }
  void send_plain(FrameKind kind, std::uint8_t flags, std::uint64_t id) {
    auto buffer = worker_->buffers().take();
    FrameWriter(*buffer, {.kind = kind, .flags = flags, .session = session_, .stamp = 1, .id = id})
        .finish();
    send(std::move(buffer));
  }
  void progress() { worker_->progress(); }

  int heard = 0;
  std::optional<net::Sealer> sealer;  ///< the session is up

 private:
  const std::uint64_t session_;
  void send(std::unique_ptr<net::MessageBuffer> buffer) {
    sealer->seal(head_of(*buffer));
    EXPECT_TRUE(endpoint_->send(std::move(buffer), nullptr, 0, {}).ok());
  }
  std::unique_ptr<net::MessageBuffer> hello(ConstByteSpan bytes, std::uint64_t to) {
    auto buffer = worker_->buffers().take();
    FrameWriter frame(*buffer, {.kind = FrameKind::hello, .session = session_, .id = to});
    frame.append(bytes);
    frame.finish();
    return buffer;
  }

  const ConnectionInfo info_;
  std::unique_ptr<net::MessageWorker> worker_;
  std::optional<net::DialHandshake> dial_;
  std::unique_ptr<net::MessageEndpoint> endpoint_;
  std::optional<InboundText> inbound_;
};

/// Is written to, and keeps to no rule but the handshake's.
class RogueOwner final : public net::MessageListener {
 public:
  explicit RogueOwner(FakeNetwork& network)
      : worker_(network.open(kFrameBytes, *this)), info(make_connection_info(worker_->address())) {}

  net::BodySink* on_message(const net::Message& message) override {
    const FrameHeader header = decode_frame(message.head, message.body_bytes)->header;
    if (header.kind == FrameKind::write) last_write = header.id;
    if (header.kind != FrameKind::hello) return nullptr;
    inbound_.emplace([this, is_begun = header.id != 0](InboundText& inbound, bool) {
      is_begun ? confirm(inbound.text) : answer(inbound.text);
    });
    inbound_->begin(*decode_frame(message.head, message.body_bytes), 0);
    return &*inbound_;
  }
  void on_broken(void*, const Status&) override {}
  void send(FrameKind kind, std::uint8_t flags, std::uint64_t id) {
    auto buffer = worker_->buffers().take();
    FrameWriter(*buffer,
                {.kind = kind, .flags = flags, .session = kSession, .stamp = ++stamp_, .id = id})
        .finish();
    sealer_->seal(head_of(*buffer));
    EXPECT_TRUE(endpoint_->send(std::move(buffer), nullptr, 0, {}).ok());
  }
  void progress() { worker_->progress(); }
  bool is_up() const { return sealer_.has_value(); }

 private:
  static constexpr std::uint64_t kSession = 77;

  void answer(ConstByteSpan hello) {
    const auto address = worker_->address();
    const net::SessionParty self{
        .agent = kIdentity,
        .instance = info.instance,
        .data = encode(PartyData{kSession, {address.begin(), address.end()}})};
    accepts_.emplace(net::AcceptHandshake::begin({info.secret, "ucx"}, self, hello).value());
    const PartyData dialler = decode_party_data(accepts_->dialler().data).value();
    auto buffer = worker_->buffers().take();
    FrameWriter frame(*buffer,
                      {.kind = FrameKind::hello, .session = kSession, .id = dialler.session});
    frame.append(accepts_->answer());
    frame.finish();
    endpoint_ = worker_->connect(dialler.address, std::move(buffer), this).value();
  }
  void confirm(ConstByteSpan confirmation) {
    sealer_.emplace(accepts_->take(confirmation).value().sending);
  }

  std::unique_ptr<net::MessageWorker> worker_;
  std::optional<net::AcceptHandshake> accepts_;
  std::unique_ptr<net::MessageEndpoint> endpoint_;
  std::optional<net::Sealer> sealer_;
  std::optional<InboundText> inbound_;
  std::uint64_t stamp_ = 0;

 public:
  const ConnectionInfo info;
  static inline const AgentIdentity kIdentity{"rogue", 1};
  std::uint64_t last_write = 0;
};

INSTANTIATE_TEST_SUITE_P(Bodies, MessageSessionTest, ::testing::Values(Bodies::whole), kBothWays);

TEST_P(MessageSessionTest, secret_of_the_metadata_is_in_no_message) {
  const std::string secret =
      decode_connection_info(far_.backend->connection_info())->secret.reveal();
  ASSERT_EQ(secret.size(), 32U);
  std::size_t seen = 0;
  const auto look = [&](const auto& arrived) {
    for (const auto& message : arrived) {
      ++seen;
      EXPECT_EQ(as_text(message.head).find(secret.substr(0, 8)), std::string_view::npos);
      EXPECT_EQ(as_text(message.body).find(secret.substr(0, 8)), std::string_view::npos);
    }
  };
  post(TransferOp::write);
  for (int i = 0; i < 100; ++i) {
    look(to_far());
    look(to_near());
    turn();
  }
  EXPECT_EQ(done(), 1U);
  EXPECT_GT(seen, 5U);
}

TEST_P(MessageSessionTest, hello_says_whether_this_processor_has_aes) {
  const ConnectionInfo info = decode_connection_info(far_.backend->connection_info()).value();
  const net::SessionParty far{.agent = far_.self, .instance = info.instance, .data = {}};
  const auto heard = net::AcceptHandshake::begin({info.secret, "ucx"}, far, to_far().front().body);
  ASSERT_TRUE(heard.ok()) << heard.status().to_string();
  EXPECT_EQ(heard->dialler().has_aes, net::Mac::is_available(net::Mac::Algorithm::aes_cmac));
}

TEST_P(MessageSessionTest, listener_says_nothing_to_who_does_not_hold_the_secret) {
  settle();
  Side intruder(network_, clock_, "intruder");
  ConnectionInfo known = *decode_connection_info(far_.backend->connection_info());
  known.secret = Secret(std::string(32, 'x'));  // it knows the address, and the instance too
  const auto path = intruder.backend->connect(far_.self, encode(known));
  ASSERT_TRUE(path.ok());
  for (int i = 0; i < 50; ++i) {
    far_.backend->progress();
    EXPECT_TRUE(network_.port(intruder.port).arrived.empty());
    intruder.backend->progress();
  }
  EXPECT_EQ(intruder.backend->notify(**path, as_bytes("let me in")).code(), Code::exhausted);
}

TEST_P(MessageSessionTest, replayed_handshake_leads_nowhere) {
  // The whole beginning of a session, as it was recorded.
  std::vector<FakeNetwork::Arrived> recorded;
  for (int i = 0; i < 20; ++i) {
    near_.backend->progress();
    for (const auto& message : to_far()) recorded.push_back(message);
    far_.backend->progress();
  }
  ASSERT_GE(recorded.size(), 2U);
  ASSERT_TRUE(near_.backend->notify(*way_, as_bytes("once")).ok());
  for (const auto& message : to_far()) recorded.push_back(message);
  settle();
  ASSERT_EQ(far_.events.notifications.size(), 1U);
  near_.operation.reset();
  remote_.reset();
  way_.reset();
  near_.memory.reset();
  near_.backend.reset();
  settle_far();
  for (const auto& message : recorded) network_.send(far_.port, message.head, message.body);
  settle_far();
  EXPECT_EQ(far_.events.notifications.size(), 1U) << "it came a second time";
}

TEST_P(MessageSessionTest, altered_head_ends_the_session_by_name) {
  ask();
  to_near().front().head[32] ^= std::byte{1};  // of which request it is the answer
  expect_lost("forged or altered");
  EXPECT_TRUE(near_.pool == near_before_);
}

TEST_P(MessageSessionTest, repeated_head_ends_the_session_by_name) {
  ask();
  const auto again = to_near().front();
  to_near().push_front(again);
  expect_lost("repeated");
}

TEST_P(MessageSessionTest, head_of_another_session_ends_it_by_name) {
  ask();
  Side third(network_, clock_, "third");
  const auto path = third.backend->connect(far_.self, far_.backend->connection_info()).value();
  for (int i = 0; i < 20; ++i) {
    far_.backend->progress();
    if (!network_.port(third.port).arrived.empty() && i > 5) break;
    third.backend->progress();
  }
  // What far said to near, as if it had said it later; and near's session in what it said to third.
  ASSERT_TRUE(third.backend->notify(*path, as_bytes("x")).ok());
  settle_far();
  auto& to_third = network_.port(third.port).arrived;
  ASSERT_FALSE(to_third.empty());
  FakeNetwork::Arrived swapped = to_third.back();
  std::copy_n(to_near().front().head.begin() + 8, 8, swapped.head.begin() + 8);
  to_near().push_front(swapped);
  expect_lost("forged");
}

TEST_P(MessageSessionTest, altered_notification_is_not_delivered) {
  settle();
  ASSERT_TRUE(near_.backend->notify(*way_, as_bytes("pay 1")).ok());
  to_far().back().body.back() = std::byte{'9'};
  settle();
  EXPECT_TRUE(far_.events.notifications.empty());
  EXPECT_TRUE(near_.backend->notify(*way_, as_bytes("again")).ok());
  settle();
  EXPECT_TRUE(far_.events.notifications.empty()) << "the session is over";
}

TEST_P(MessageSessionTest, notifications_that_wait_for_an_earlier_one_are_bounded_in_bytes) {
  for (const std::size_t count : {15U, 17U}) {  // below a mebibyte, and above
    far_.events.notifications.clear();
    Rogue rogue(network_, *decode_connection_info(far_.backend->connection_info()), count);
    for (int i = 0; i < 10; ++i) far_.backend->progress(), rogue.progress();
    ASSERT_TRUE(rogue.sealer);
    for (std::uint64_t i = 0; i < count; ++i) rogue.note(i + 2, std::string(kMaxNoteBytes, 'x'));
    settle_far();
    EXPECT_TRUE(far_.events.notifications.empty());
    rogue.note(1, "first");
    settle_far();
    EXPECT_EQ(far_.events.notifications.size(), count < 16 ? count + 1 : 0);
  }
}

// A holder of the metadata may begin any number, each of them a descriptor of this side.
TEST_P(MessageSessionTest, connections_that_peers_begin_are_bounded_and_bar_none_of_ours) {
  constexpr std::size_t kMost = 8;
  Side small(network_, clock_, "far", false, {}, kMost);
  const auto info = *decode_connection_info(small.backend->connection_info());
  std::list<Rogue> rogues;
  for (std::size_t i = 0; i <= kMost; ++i) {
    Rogue& rogue = rogues.emplace_back(network_, info, i + 1);
    for (int k = 0; k < 10; ++k) small.backend->progress(), rogue.progress();
    EXPECT_EQ(rogue.sealer.has_value(), i < kMost);
  }
  const auto way = small.backend->connect(near_.self, near_.backend->connection_info());
  ASSERT_TRUE(way.ok()) << way.status().to_string();
  for (int i = 0; i < 20; ++i) small.backend->progress(), near_.backend->progress();
  EXPECT_TRUE(small.backend->notify(**way, as_bytes("hello")).ok());
  for (int i = 0; i < 20; ++i) small.backend->progress(), near_.backend->progress();
  EXPECT_EQ(near_.events.notifications.size(), 1U);
}

// Breaks when two sides that live keep up what neither of them uses.
TEST_P(MessageSessionTest, peers_that_have_let_go_bar_nobody) {
  constexpr std::size_t kMost = 2;
  Side small(network_, clock_, "small", false, {}, kMost);
  std::list<Side> peers;
  const auto pass = [&](int turns, Duration time) {
    for (int i = 0; i < turns; ++i) {
      for (Side& peer : peers) peer.backend->progress();
      small.backend->progress();
      clock_.advance(time);
    }
  };
  for (std::size_t i = 0; i < 3 * kMost; ++i) {
    Side& peer = peers.emplace_back(network_, clock_, std::to_string(i));
    auto way = peer.backend->connect(small.self, small.backend->connection_info()).value();
    pass(20, Duration::zero());
    ASSERT_TRUE(peer.backend->notify(*way, as_bytes("hello")).ok()) << i;
    pass(100, std::chrono::milliseconds(100));  // in use, and kept up
    ASSERT_TRUE(peer.backend->notify(*way, as_bytes("farewell")).ok()) << i;
    pass(20, Duration::zero());
    EXPECT_EQ(small.events.notifications.size(), 2 * (i + 1));
    way.reset();
    pass(80, std::chrono::milliseconds(100));
    EXPECT_TRUE(peer.events.losses.empty());
  }
}

// While a program takes no notification.
TEST_P(MessageSessionTest, last_notes_of_who_is_gone_bar_nobody_and_are_bounded) {
  constexpr std::size_t kGone = 1100;
  Side small(network_, clock_, "far", false, {}, 8);
  const auto info = *decode_connection_info(small.backend->connection_info());
  small.events.accept = 0;
  for (std::size_t i = 0; i < kGone; ++i) {
    Rogue rogue(network_, info, i + 1);
    for (int k = 0; k < 5; ++k) small.backend->progress(), rogue.progress();
    ASSERT_TRUE(rogue.sealer) << i << " were here before, and are gone";
    rogue.note(1, "farewell");
    rogue.send_plain(FrameKind::bye, 0, 0);
    for (int k = 0; k < 5; ++k) small.backend->progress();
  }
  small.events.accept = UINT64_MAX;
  for (int k = 0; k < 5; ++k) small.backend->progress();
  EXPECT_EQ(small.events.notifications.size(), 1024U);
}

// It is heard all the time, so that no silence ends it.
TEST_P(MessageSessionTest, peer_that_asks_and_reads_no_answer_is_lost_before_much_waits_for_it) {
  const Piece piece{.token = static_cast<const MessageMemory&>(*far_.memory).token,
                    .address = far_.region().address,
                    .length = kPayloadBytes};
  const std::function<void(Rogue&, std::uint64_t)> asks[] = {
      [&](Rogue& rogue, std::uint64_t n) { rogue.read(piece, n); },
      [](Rogue& rogue, std::uint64_t n) { rogue.send_plain(FrameKind::alive, kAnswerMe, n); },
      [](Rogue& rogue, std::uint64_t n) { rogue.send_plain(FrameKind::fence, 0, n << 32U); },
      [&](Rogue& rogue, std::uint64_t n) {
        rogue.note(n, "an answer says that it was taken");
        far_.backend->progress();
      }};
  const std::size_t enough[] = {8, 100, 100, 100};
  const std::uint64_t notes[] = {0, 0, 0, 100};
  for (std::size_t kind = 0; kind < std::size(asks); ++kind) {
    Rogue rogue(network_, *decode_connection_info(far_.backend->connection_info()), kind + 1);
    for (int i = 0; i < 10; ++i) far_.backend->progress(), rogue.progress();
    ASSERT_TRUE(rogue.sealer);
    network_.stalled = network_.last();
    for (std::uint64_t n = 1; n <= enough[kind]; ++n) asks[kind](rogue, n);
    settle_far();
    network_.stalled = 0;
    far_.events.notifications.clear();
    rogue.note(notes[kind] + 1, "it is heard no more");
    settle_far();
    EXPECT_TRUE(far_.events.notifications.empty()) << "kind " << kind;
  }
}

// A write that is stale goes again: half a mebibyte for each answer of a hundred bytes.
TEST_P(MessageSessionTest, owner_that_calls_all_stale_and_reads_nothing_is_lost_before_much_waits) {
  RogueOwner rogue(network_);
  const std::uint64_t port = network_.last();
  const auto path = near_.backend->connect(RogueOwner::kIdentity, encode(rogue.info)).value();
  const RegionDescriptor region{.address = 4096, .length = kPool};
  const auto remote =
      near_.backend->import_memory(*path, region, encode(MemoryKey{5, 4096, kPool})).value();
  const auto turns = [&](int count) {
    for (int i = 0; i < count; ++i) near_.backend->progress(), rogue.progress();
  };
  turns(10);
  ASSERT_TRUE(rogue.is_up());
  rogue.send(FrameKind::alive, 0, 0);  // a grant
  segments_ = {{.local = near_.memory.get(),
                .remote = remote.get(),
                .local_address = near_.region().address,
                .remote_address = region.address,
                .length = kPool}};
  near_.operation->post({.op = TransferOp::write, .connection = path.get(), .segments = segments_});
  turns(10);
  ASSERT_GT(rogue.last_write, 0U);
  network_.stalled = port;
  for (std::uint64_t i = 0; i < 100; ++i)
    rogue.send(FrameKind::wrote, kStale, rogue.last_write + i);
  turns(200);
  ASSERT_EQ(near_.events.losses.size(), 1U);
  const std::string why = near_.events.losses.front().why.to_string();
  EXPECT_NE(why.find("more than it takes"), std::string::npos) << why;
  clock_.advance(near_.backend->capabilities().quiescence_bound + std::chrono::milliseconds(1));
  turns(10);
  EXPECT_EQ(outcome().code(), Code::peer_lost);
}

// Each link has a connection of its own: the bye over one may come before what another brings.
TEST_P(MessageSessionTest, loss_waits_for_what_a_peer_that_closed_said_over_another_link) {
  const auto back = far_.backend->connect(near_.self, near_.backend->connection_info()).value();
  settle();
  ASSERT_TRUE(near_.backend->notify(*way_, as_bytes("last words")).ok());
  const auto session_of = [](const FakeNetwork::Arrived& message) {
    return decode_frame(message.head, message.body.size())->header.session;
  };
  const std::uint64_t first = session_of(to_far().front());
  near_.operation.reset();
  remote_.reset();
  way_.reset();
  near_.memory.reset();
  near_.backend.reset();
  std::list<FakeNetwork::Arrived> late;
  for (auto at = to_far().begin(); at != to_far().end();) {
    const auto one = at++;
    if (session_of(*one) == first) late.splice(late.end(), to_far(), one);
  }
  ASSERT_EQ(late.size(), 2U) << "the note and a bye";
  ASSERT_EQ(to_far().size(), 1U) << "a bye";
  settle_far();
  EXPECT_TRUE(far_.events.losses.empty()) << "its last words are on their way";
  to_far().splice(to_far().end(), late);
  settle_far();
  EXPECT_EQ(far_.events.notifications.size(), 1U);
  EXPECT_EQ(far_.events.losses.size(), 1U);
}

TEST_P(MessageSessionTest, who_begins_and_does_not_confirm_is_forgotten) {
  settle();
  // A recorded hello, again and again: each gets an answer, and no more.
  Side third(network_, clock_, "third");
  const auto path = third.backend->connect(far_.self, far_.backend->connection_info()).value();
  ASSERT_EQ(to_far().size(), 1U);
  const auto hello = to_far().front();
  for (int i = 0; i < 2000; ++i) {
    network_.send(far_.port, hello.head, hello.body);
    far_.backend->progress();
  }
  settle_far();
  EXPECT_LE(network_.port(third.port).arrived.size(), 1U) << "one session has one link";
  for (int i = 0; i < 30; ++i) {
    clock_.advance(std::chrono::milliseconds(250));
    settle_far();
  }
  network_.port(third.port).arrived.clear();
  network_.send(far_.port, hello.head, hello.body);
  settle_far();
  EXPECT_EQ(network_.port(third.port).arrived.size(), 1U) << "it may begin anew";
}

}  // namespace
}  // namespace towpath::backends::messages
