// Two engines of sessions that could not be smaller, over a network of the test's own, under a
// clock that only the test moves. Thread: one at a time.
#pragma once

#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/net/messages/testing/fake_network.h>
#include <towpath/net/session/sessions.h>
#include <towpath/wire/little_endian.h>

namespace towpath::net {

inline const std::string kSecretOfFar = "a secret of 32 bytes, of the far";
inline constexpr std::size_t kHeadBytes = 17;  // 'h' or 'm', number of the sender, of the receiver
inline constexpr std::size_t kTestMessageBytes = 4096;

inline void write_head(ByteSpan head, char kind, const SessionNumbers& numbers) {
  head[0] = static_cast<std::byte>(kind);
  wire::store(head.subspan(1), numbers.ours);
  wire::store(head.subspan(9), numbers.theirs);
}

inline void wrap(MessageBuffer& into, const SessionNumbers& numbers, ConstByteSpan handshake) {
  write_head(into.room(), 'h', numbers);
  std::ranges::copy(handshake, into.room().begin() + kHeadBytes);
  into.size = kHeadBytes + handshake.size();
  into.body_bytes = handshake.size();
}

/// Its messages are a head of kHeadBytes and a seal, and a text.
class Engine final : public MessageListener, public BodySink {
 public:
  Engine(testing::FakeNetwork& network, const Clock& clock, const SessionOptions& options,
         SessionParty self)
      : self_(std::move(self)), clock_(clock), worker(network.open(kTestMessageBytes, *this)) {
    port = network.last();
    sessions.emplace(*worker, clock, options, telemetry::Log(sink, clock, "test"), &refused);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Status dial(const Engine& other, std::uint64_t number = 5) {
    auto dialled = sessions->dial({Secret(kSecretOfFar), "test"}, self_,
                                  {.peer = other.peer(),
                                   .numbers = {.ours = number, .theirs = 0},
                                   .address = other.worker->address()});
    if (!dialled.ok()) return dialled.status();
    session = *std::move(dialled);
    session->owner = this;
    return {};
  }
  SessionPeer peer() const {
    return {.agent = self_.agent, .instance = self_.instance, .name = self_.agent.name};
  }
  Status say(std::string_view what) {
    auto buffer = worker->buffers().take();
    const std::size_t head = kHeadBytes + kSealBytes;
    write_head(buffer->room(), 'm', session->numbers());
    std::ranges::copy(as_bytes(what), buffer->room().begin() + static_cast<std::ptrdiff_t>(head));
    buffer->size = head + what.size();
    buffer->body_bytes = what.size();
    return session->send(std::move(buffer), clock_.now());
  }
  /// Whether each session should be checked.
  bool turn() {
    while (worker->progress()) {
    }
    return sessions->turn(clock_.now());
  }
  bool is_up() const { return session && session->is_up(); }

  // MessageListener
  BodySink* on_message(const Message& message) override {
    from_ = message.from;
    head_.assign(message.head.begin(), message.head.end());
    body_.assign(message.body_bytes, std::byte{});
    came_ = 0;
    if (static_cast<char>(head_[0]) == 'h') return this;
    if (!session) return nullptr;
    const auto is_heard = session->hear(message.from, message.head, clock_.now());
    if (!is_heard.ok()) ended = sessions->distrust(*session, is_heard.status());
    return is_heard.ok() && *is_heard ? this : nullptr;
  }
  Status on_answer(void* owner, const Message& message, ConstByteSpan body) override {
    EXPECT_EQ(owner, session.get());
    return take_answer(body, wire::load<std::uint64_t>(message.head.subspan(1)), message.from);
  }
  void on_broken(void* owner, const Status& why) override {
    sessions->note_broken(owner, why);
    half_open_in_carrier = sessions->half_open();
  }
  // BodySink
  std::size_t room(std::span<ByteSpan> into) override {
    into.front() = ByteSpan(body_).subspan(came_);
    return 1;
  }
  void came(std::uint64_t bytes) override { came_ += bytes; }
  void done(bool) override {
    if (static_cast<char>(head_[0]) == 'm') {
      heard.emplace_back(as_text(body_));
      return;
    }
    const auto theirs = wire::load<std::uint64_t>(ConstByteSpan(head_).subspan(1));
    const auto ours = wire::load<std::uint64_t>(ConstByteSpan(head_).subspan(9));
    Status taken;
    if (ours == 0)
      taken = accept(theirs);
    else if (session && session->is_dialling())
      taken = take_answer(body_, theirs, from_);
    else
      taken = take_confirmation({.ours = ours, .theirs = theirs});
    if (!taken.ok()) sessions->refuse("a message", taken), last_refusal = taken;
  }

 private:
  const SessionParty self_;
  const Clock& clock_;

  Status accept(std::uint64_t theirs) {
    TOWPATH_TRY(auto handshake,
                AcceptHandshake::begin({Secret(kSecretOfFar), "test"}, self_, body_));
    const AgentIdentity agent = handshake.dialler().agent;
    const std::uint64_t instance = handshake.dialler().instance;
    return sessions->accept(std::move(handshake),
                            {.peer = {.agent = agent, .instance = instance, .name = agent.name},
                             .numbers = {.ours = next_number_++, .theirs = theirs},
                             .address = address_of_dialler,
                             .connection = from_});
  }
  Status take_answer(ConstByteSpan answer, std::uint64_t theirs, std::uint64_t from) {
    TOWPATH_TRY(const auto outcome, session->prove(answer));
    return sessions->confirm(*session, outcome, theirs, from);
  }
  Status take_confirmation(const SessionNumbers& numbers) {
    TOWPATH_TRY(Session* const confirmed, sessions->take_confirmation(numbers, from_, body_));
    if (keeps_none) return error(Code::exhausted, "no memory for what is made of it");
    session = sessions->release(*confirmed);
    session->owner = this;
    return {};
  }

  std::uint64_t next_number_ = 100;
  std::uint64_t from_ = 0;
  Bytes head_, body_;
  std::size_t came_ = 0;

 public:
  telemetry::CollectingSink sink;
  telemetry::Counter refused;
  std::unique_ptr<MessageWorker> worker;  ///< outlives the sessions
  std::uint64_t port = 0;
  std::optional<Sessions> sessions;
  std::unique_ptr<Session> session;
  Bytes address_of_dialler;
  bool keeps_none = false;
  std::size_t half_open_in_carrier = 0;
  std::vector<std::string> heard;
  Status ended, last_refusal;
};

enum class Way { connection, both_reach };

class SessionsTest : public ::testing::TestWithParam<Way> {
 protected:
  SessionsTest() {
    network_.has_connections = has_connections();
    const ConstByteSpan address = near_.worker->address();
    far_.address_of_dialler.assign(address.begin(), address.end());
  }
  static bool has_connections() { return GetParam() == Way::connection; }
  static SessionOptions options() {
    return {.wrap = wrap,
            .has_connections = has_connections(),
            .most_half_open = 6,
            .most_half_open_of_one = 4,
            .every = std::chrono::seconds(1),
            .speaks_after = std::chrono::milliseconds(500),
            .timeout = std::chrono::seconds(5)};
  }
  static SessionParty party(const std::string& name, std::uint64_t instance) {
    return {.agent = {name, 7}, .instance = instance, .data = {}};
  }
  std::list<testing::FakeNetwork::Arrived>& to_far() { return network_.port(far_.port).arrived; }
  std::list<testing::FakeNetwork::Arrived>& to_near() { return network_.port(near_.port).arrived; }
  void settle() {
    for (int i = 0; i < 10; ++i) near_.turn(), far_.turn();
  }
  /// Near is up as soon as far has said something, at the latest.
  void meet() {
    ASSERT_TRUE(near_.dial(far_).ok());
    settle();
    ASSERT_TRUE(far_.is_up()) << far_.last_refusal.to_string();
    ASSERT_TRUE(far_.say("here").ok());
    settle();
    ASSERT_TRUE(near_.is_up());
  }
  /// A hello that near has sent, which far has not got.
  testing::FakeNetwork::Arrived hello() {
    EXPECT_TRUE(near_.dial(far_).ok());
    EXPECT_EQ(to_far().size(), 1U);
    testing::FakeNetwork::Arrived taken = to_far().front();
    to_far().clear();
    return taken;
  }
  void send_to_far(const testing::FakeNetwork::Arrived& message) { to_far().push_back(message); }
  void advance(Duration by) { clock_.advance(by); }
  /// Both make turns.
  void wait(std::chrono::milliseconds time) {
    const std::chrono::milliseconds step(250);
    for (; time.count() > 0; time -= step) advance(step), settle();
  }

  ManualClock clock_;
  testing::FakeNetwork network_;
  Engine near_{network_, clock_, options(), party("near", 11)};
  Engine far_{network_, clock_, options(), party("far", 22)};
};

}  // namespace towpath::net
