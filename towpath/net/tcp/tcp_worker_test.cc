// Workers over the TCP of this machine.
#include <algorithm>
#include <array>
#include <functional>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <towpath/core/format.h>
#include <towpath/net/listener.h>
#include <towpath/net/tcp/tcp_address.h>
#include <towpath/net/tcp/tcp_worker.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fd.h>

namespace towpath::net {
namespace {

struct Recorder final : MessageListener {
  /// Of one body.
  struct Sink final : BodySink {
    explicit Sink(std::size_t bytes, Recorder& its_recorder)
        : body(bytes), recorder(its_recorder) {}
    std::size_t room(std::span<ByteSpan> into) override {
      into[0] = ByteSpan(body).subspan(filled);
      return filled < body.size() ? 1 : 0;
    }
    void came(std::uint64_t bytes) override { filled += bytes; }
    void done(bool whole) override {
      if (whole) recorder.messages.back() += as_text(body);
      delete this;
    }
    Bytes body;
    std::size_t filled = 0;
    Recorder& recorder;
  };
  BodySink* on_message(const Message& message) override {
    if (as_text(message.head) == kHello) return let_in(message.from), nullptr;
    messages.emplace_back(as_text(message.head));
    if (reply != nullptr) reply(*guests.back());
    return message.body_bytes > 0 ? new Sink(message.body_bytes, *this) : nullptr;
  }
  Status on_answer(void*, const Message& message, ConstByteSpan) override {
    answers.emplace_back(as_text(message.head));
    return answers.back() == "yes" ? Status() : error(Code::denied, "somebody else listens there");
  }
  void on_broken(void* owner, const Status& why) override { broken.emplace_back(owner, why); }
  void on_refused(std::string_view address, const Status& why) override {
    refused.emplace_back(address, why);
  }
  void let_in(std::uint64_t from) {
    if (answer.empty()) return;
    auto endpoint = worker->answer(from, this);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status().to_string();
    auto buffer = worker->buffers().take();
    std::ranges::copy(as_bytes(answer), buffer->room().begin());
    buffer->size = answer.size();
    EXPECT_TRUE((*endpoint)->send(std::move(buffer), nullptr, 0, {}).ok());
    if (admits) (*endpoint)->admit();
    guests.push_back(*std::move(endpoint));
  }

  static constexpr std::string_view kHello = "hello";
  MessageWorker* worker = nullptr;
  std::string answer = "yes";  ///< to a hello; empty: none
  bool admits = true;
  std::function<void(MessageEndpoint&)> reply;  ///< to each message but a hello
  std::vector<std::string> messages, answers;
  std::vector<std::pair<void*, Status>> broken;
  std::vector<std::pair<std::string, Status>> refused;
  std::vector<std::unique_ptr<MessageEndpoint>> guests;
};

/// All of a text, in parts of at most 1000 bytes.
struct Source final : BodySource {
  explicit Source(std::string_view its_text) : text(its_text) {}
  std::size_t parts(std::span<ConstByteSpan> into) override {
    std::size_t count = 0;
    for (std::string_view rest = text; !rest.empty() && count < into.size(); ++count) {
      into[count] = as_bytes(rest.substr(0, 1000));
      rest.remove_prefix(into[count].size());
    }
    return count;
  }
  void left(std::uint64_t bytes) override { text.remove_prefix(bytes); }
  void done() override { ++done_calls; }
  std::string_view text;
  int done_calls = 0;
};

/// Without TLS, and with it.
class TcpWorkerTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (const Status can = can_kernel_do_tls(); GetParam() == "kernel_tls" && !can.ok())
      GTEST_SKIP() << can.to_string();
    near_ = open(near_heard_);
    far_ = open(far_heard_);
  }
  std::unique_ptr<MessageWorker> open(Recorder& listener, TcpOptions options = {}) {
    options.tls = GetParam() != "plain";
    options.kernel_tls = GetParam() == "kernel_tls";
    auto worker = open_tcp_worker(options, listener, clock_);
    EXPECT_TRUE(worker.ok()) << worker.status().to_string();
    if (!worker.ok()) return nullptr;
    listener.worker = worker->get();
    return *std::move(worker);
  }
  static Result<std::unique_ptr<MessageEndpoint>> connect(MessageWorker& from,
                                                          ConstByteSpan address,
                                                          void* owner = nullptr) {
    auto hello = from.buffers().take();
    std::ranges::copy(as_bytes(Recorder::kHello), hello->room().begin());
    hello->size = Recorder::kHello.size();
    return from.connect(address, std::move(hello), owner);
  }
  void close_far() {
    far_heard_.guests.clear();
    far_.reset();
  }
  Status send(MessageEndpoint& endpoint, std::string_view text, Source* rest = nullptr) {
    auto buffer = near_->buffers().take();
    std::ranges::copy(as_bytes(text), buffer->room().begin());
    buffer->size = text.size();
    return endpoint.send(std::move(buffer), rest, rest != nullptr ? rest->text.size() : 0, {});
  }
  template <typename Condition>
  bool run_until(Condition done) {
    return run::eventually([&] {
      near_->progress();
      if (far_) far_->progress();
      return done();
    });
  }
  ~TcpWorkerTest() override {
    near_heard_.guests.clear();
    far_heard_.guests.clear();
  }
  /// A way to the far side, over which something has been heard.
  std::unique_ptr<MessageEndpoint> way(void* owner = nullptr) {
    auto made = connect(*near_, far_->address(), owner);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    EXPECT_TRUE(send(**made, "something").ok());
    EXPECT_TRUE(run_until([&] { return !far_heard_.messages.empty(); }));
    far_heard_.messages.clear();
    return *std::move(made);
  }

  const sys::SystemClock clock_;
  Recorder near_heard_, far_heard_;
  std::unique_ptr<MessageWorker> near_, far_;
};

TEST_P(TcpWorkerTest, messages_of_every_size_arrive_in_order) {
  auto made = connect(*near_, far_->address());
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  std::vector<std::string> sent;
  std::vector<std::unique_ptr<Source>> rests;
  for (std::size_t size = 1; size <= 1024 * 1024; size = size * 3 + 1) {
    const std::string head = cat("<", size, ">");
    sent.push_back(head + std::string(size, static_cast<char>('a' + sent.size())));
  }
  for (const std::string& text : sent) {
    const std::size_t head = text.find('>') + 1;
    rests.push_back(std::make_unique<Source>(std::string_view(text).substr(head)));
    ASSERT_TRUE(send(**made, text.substr(0, head), rests.back().get()).ok());
  }
  ASSERT_TRUE(run_until([&] {
    return far_heard_.messages.size() == sent.size() && far_heard_.messages.back() == sent.back();
  }));
  EXPECT_TRUE(far_heard_.messages == sent);
  EXPECT_EQ((*made)->unsent(), 0U);
  for (const auto& rest : rests) EXPECT_EQ(rest->done_calls, 1);
}

TEST_P(TcpWorkerTest, body_that_is_copied_leaves_its_source_alone) {
  const auto there = way();
  std::string text(1'000'000, 'a');
  std::vector<std::unique_ptr<Source>> rests;
  // More than a socket takes while nobody reads.
  while (there->unsent() < 3) {
    rests.push_back(std::make_unique<Source>(text));
    ASSERT_TRUE(send(*there, "|", rests.back().get()).ok());
  }
  ASSERT_EQ(rests.back()->done_calls, 0);
  for (const auto& rest : rests) there->copy(*rest);
  for (const auto& rest : rests) EXPECT_EQ(rest->done_calls, 1);
  std::ranges::fill(text, 'b');
  ASSERT_TRUE(run_until([&] { return there->unsent() == 0; }));
  ASSERT_TRUE(run_until([&] {
    return far_heard_.messages.size() == rests.size() &&
           far_heard_.messages.back().size() == text.size() + 1;
  }));
  for (const std::string& message : far_heard_.messages)
    EXPECT_EQ(std::ranges::count(message, 'a'), 1'000'000);
}

TEST_P(TcpWorkerTest, endpoint_learns_that_the_other_side_has_gone) {
  int owner = 0;
  const auto there = way(&owner);
  close_far();
  ASSERT_TRUE(run_until([&] { return !near_heard_.broken.empty(); }));
  EXPECT_EQ(near_heard_.broken.front().first, &owner);
  EXPECT_EQ(near_heard_.broken.front().second.code(), Code::peer_lost);
  Source rest("late");
  EXPECT_EQ(send(*there, "too ", &rest).code(), Code::peer_lost);
  EXPECT_EQ(rest.done_calls, 1);
}

TEST_P(TcpWorkerTest, listener_learns_that_an_endpoint_was_closed) {
  auto there = way();
  there.reset();
  ASSERT_TRUE(run_until([&] { return !far_heard_.broken.empty(); }));
  EXPECT_EQ(far_heard_.broken.front().first, &far_heard_);
}

TEST_P(TcpWorkerTest, one_connection_carries_both_directions) {
  const auto there = way();
  ASSERT_EQ(far_heard_.guests.size(), 1U);
  const std::string text(300'000, 'b');
  Source rest(text);
  auto buffer = far_->buffers().take();
  std::ranges::copy(as_bytes("back: "), buffer->room().begin());
  buffer->size = 6;
  ASSERT_TRUE(far_heard_.guests.front()->send(std::move(buffer), &rest, text.size(), {}).ok());
  ASSERT_TRUE(run_until([&] {
    return !near_heard_.messages.empty() && near_heard_.messages.back().size() == 6 + text.size();
  }));
  EXPECT_TRUE(near_heard_.messages.back() == "back: " + text);
}

TEST_P(TcpWorkerTest, connection_that_others_opened_says_of_which_host_it_is) {
  const auto dialled = way();
  ASSERT_FALSE(far_heard_.guests.empty());
  EXPECT_FALSE(far_heard_.guests.front()->host().empty());
  EXPECT_TRUE(dialled->host().empty());
}

TEST_P(TcpWorkerTest, what_waits_in_an_endpoint_is_let_go_with_it) {
  auto there = way();
  const std::string text(1'000'000, 'x');
  std::vector<std::unique_ptr<Source>> rests;
  while (there->unsent() < 3) {
    rests.push_back(std::make_unique<Source>(text));
    ASSERT_TRUE(send(*there, "|", rests.back().get()).ok());
  }
  there.reset();
  for (const auto& rest : rests) EXPECT_EQ(rest->done_calls, 1);
}

TEST_P(TcpWorkerTest, nobody_at_the_address_is_reported) {
  const Bytes address(far_->address().begin(), far_->address().end());
  close_far();
  int owner = 0;
  const auto there = connect(*near_, address, &owner);
  ASSERT_TRUE(there.ok()) << "it does not wait";
  ASSERT_TRUE(run_until([&] { return !near_heard_.broken.empty(); }));
  EXPECT_EQ(near_heard_.broken.front().first, &owner);
  EXPECT_NE(near_heard_.broken.front().second.message().find("127.0.0.1"), std::string_view::npos);
}

TEST_P(TcpWorkerTest, wrong_answer_is_not_taken) {
  far_heard_.answer = "no";
  const auto there = connect(*near_, far_->address());
  ASSERT_TRUE(there.ok());
  ASSERT_TRUE(send(**there, "not for you").ok());
  ASSERT_TRUE(run_until([&] { return !near_heard_.broken.empty(); }));
  EXPECT_TRUE(far_heard_.messages.empty());
  EXPECT_NE(near_heard_.broken.front().second.message().find("somebody else"),
            std::string_view::npos);
}

TEST_P(TcpWorkerTest, hello_that_nobody_answers_is_hung_up_on_and_tried_again) {
  far_heard_.answer = "";
  const auto there = connect(*near_, far_->address());
  ASSERT_TRUE(there.ok());
  ASSERT_TRUE(send(**there, "in the end").ok());
  ASSERT_TRUE(run_until([&] { return (*there)->trouble().find("times") != std::string::npos; }));
  EXPECT_TRUE(near_heard_.broken.empty());
  far_heard_.answer = "yes";
  ASSERT_TRUE(run_until([&] { return !far_heard_.messages.empty(); }));
  EXPECT_EQ((*there)->trouble(), "");
}

TEST_P(TcpWorkerTest, who_is_not_admitted_says_one_short_message_more) {
  far_heard_.admits = false;
  const auto there = connect(*near_, far_->address());
  ASSERT_TRUE(there.ok());
  ASSERT_TRUE(send(**there, "first").ok());
  ASSERT_TRUE(send(**there, "second").ok());
  ASSERT_TRUE(run_until([&] { return !far_heard_.broken.empty(); }));
  EXPECT_EQ(far_heard_.messages, std::vector<std::string>{"first"});
  EXPECT_NE(far_heard_.broken.front().second.message().find("proven"), std::string_view::npos);
}

TEST_P(TcpWorkerTest, first_message_that_is_too_long_is_hung_up_on) {
  Recorder heard;
  const auto worker = open(heard, {.first_bytes = 4});
  const auto there = connect(*near_, worker->address());
  ASSERT_TRUE(there.ok());
  ASSERT_TRUE(run_until([&] { return worker->progress(), !heard.refused.empty(); }));
  EXPECT_EQ(heard.refused.front().second.code(), Code::corrupt);
  EXPECT_EQ(heard.refused.front().first.find("tcp://"), 0U) << heard.refused.front().first;
  EXPECT_TRUE(heard.messages.empty());
}

// Another host's loopback is another host.
TEST_P(TcpWorkerTest, addresses_that_hosts_share_are_not_dialled_on_another_host) {
  TcpPlace place = decode_tcp_place(far_->address()).value();
  ASSERT_TRUE(place.host);
  place.host->front() ^= std::byte{1};
  // All of them are this host's own: none of them can be the other one's.
  const auto there = connect(*near_, encode(place));
  EXPECT_EQ(there.code(), Code::unavailable);
  place.host.reset();
  EXPECT_EQ(connect(*near_, encode(place)).code(), Code::unavailable);
}

TEST_P(TcpWorkerTest, addresses_are_tried_in_turn_and_a_silent_one_holds_nobody_up) {
  // A listener that takes connections, and says nothing.
  Listener mute = Listener::listen(TcpAddress{.host = "127.0.0.1", .port = 0}).value();
  TcpPlace place = decode_tcp_place(far_->address()).value();
  const Endpoint last = place.endpoints.back();
  place.endpoints = {resolve(std::get<TcpAddress>(mute.address())).value().front(), last};
  const Instant begin = clock_.now();
  const auto there = connect(*near_, encode(place));
  ASSERT_TRUE(there.ok());
  ASSERT_TRUE(send(**there, "found").ok());
  EXPECT_FALSE(far_->progress()) << "its turn has not come";
  ASSERT_TRUE(run_until([&] { return !far_heard_.messages.empty(); }));
  EXPECT_GE(clock_.now() - begin, std::chrono::milliseconds(250));
}
std::vector<sys::Fd> unauthenticated_at(const MessageWorker& worker, std::size_t count) {
  const Endpoint port = decode_tcp_place(worker.address()).value().endpoints.back();
  std::vector<sys::Fd> all;
  for (std::size_t i = 0; i < count; ++i) {
    sys::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), port.get(), port.size_bytes), 0);
    all.push_back(std::move(socket));
  }
  return all;
}

TEST_P(TcpWorkerTest, unauthenticated_at_its_port_harm_nobody) {
  const auto there = way();
  std::vector<sys::Fd> on_the_line;
  const std::string noise(100'000, '\xa5');
  for (const std::string_view what :
       {std::string_view("?"), std::string_view("GET / HTTP/1.1\r\n\r\n"),
        std::string_view(noise)}) {
    auto some = unauthenticated_at(*far_, 50);
    for (const sys::Fd& one : some) (void)::send(one.get(), what.data(), what.size(), MSG_NOSIGNAL);
    std::ranges::move(some, std::back_inserter(on_the_line));
    for (int i = 0; i < 100; ++i) far_->progress();
  }
  EXPECT_GE(far_heard_.refused.size(), 100U) << "what is too long, and one more than may wait";
  Recorder third_heard;
  const auto third = open(third_heard);
  auto newcomer = connect(*third, far_->address());
  ASSERT_TRUE(newcomer.ok());
  auto buffer = third->buffers().take();
  buffer->size = 3;
  std::ranges::copy(as_bytes("new"), buffer->room().begin());
  ASSERT_TRUE((*newcomer)->send(std::move(buffer), nullptr, 0, {}).ok());
  ASSERT_TRUE(send(*there, "after").ok());
  ASSERT_TRUE(run_until([&] { return third->progress(), far_heard_.messages.size() == 2; }));
  EXPECT_TRUE(near_heard_.broken.empty());
  newcomer->reset();
}

// More than may wait at a time: those who are sent away come again.
TEST_P(TcpWorkerTest, three_hundred_that_come_at_once_all_get_in) {
  constexpr std::size_t kPeers = 300;
  std::vector<std::unique_ptr<MessageEndpoint>> all;
  for (std::size_t i = 0; i < kPeers; ++i) {
    auto made = connect(*near_, far_->address());
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    ASSERT_TRUE(send(**made, cat("peer ", i)).ok());
    all.push_back(*std::move(made));
  }
  ASSERT_TRUE(run_until([&] { return far_heard_.messages.size() == kPeers; }))
      << far_heard_.messages.size() << " of them";
  EXPECT_TRUE(near_heard_.broken.empty());
}

TEST_P(TcpWorkerTest, port_opens_again_when_descriptors_are_free) {
  const auto there = way();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  auto waiting = unauthenticated_at(*far_, 3);
  const int next = ::dup(waiting.front().get());
  ::close(next);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  int turns = 0;
  for (int i = 0; i < 200; ++i) turns += far_->progress() ? 1 : 0;
  EXPECT_LE(turns, 20) << "a thread that sleeps when nothing happens never would";
  EXPECT_GE(far_heard_.refused.size(), 1U) << "in silence";
  ASSERT_TRUE(send(*there, "still heard").ok());
  ASSERT_TRUE(run_until([&] { return !far_heard_.messages.empty(); }));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  auto another = connect(*near_, far_->address());
  ASSERT_TRUE(another.ok());
  ASSERT_TRUE(send(**another, "of a newcomer").ok());
  EXPECT_TRUE(run_until([&] { return far_heard_.messages.size() == 2; }));
}

TEST_P(TcpWorkerTest, descriptor_wakes_for_a_message) {
  const auto there = way();
  while (far_->progress() || !far_->arm()) {
  }
  pollfd watched{far_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, 0), 0);
  ASSERT_TRUE(send(*there, "second").ok());
  EXPECT_EQ(::poll(&watched, 1, 10'000), 1);
}

// A turn is bounded, and a stream that decrypts may hold back what its socket no longer has: the
// last bytes, where a turn ends a little before them.
TEST_P(TcpWorkerTest, nobody_sleeps_over_what_has_come) {
  constexpr std::size_t kTurn = std::size_t{1} << 20;
  const auto there = way();
  const std::string text(700, 'x');
  for (std::size_t messages = kTurn / 730; messages < kTurn / 730 + 80; ++messages) {
    far_heard_.messages.clear();
    for (std::size_t i = 0; i < messages; ++i) ASSERT_TRUE(send(*there, text).ok());
    ASSERT_TRUE(run::eventually([&] {
      near_->progress();
      return there->unsent() == 0;
    })) << messages;
    while (far_heard_.messages.size() < messages) {
      pollfd watched{far_->fd(), POLLIN, 0};
      if (far_->arm()) {
        ASSERT_EQ(::poll(&watched, 1, 5'000), 1) << messages;
      }
      far_->progress();
    }
  }
}

// A request is short, and others have a turn, too.
TEST_P(TcpWorkerTest, turn_ends_by_what_is_answered_in_it) {
  constexpr std::size_t kRequests = 100;
  const auto there = way();
  const std::string text(200'000, 'x');
  std::list<Source> replies;
  far_heard_.messages.clear();
  far_heard_.reply = [&](MessageEndpoint& guest) {
    auto buffer = far_->buffers().take();
    buffer->room().front() = std::byte{'r'};
    buffer->size = 1;
    EXPECT_TRUE(guest.send(std::move(buffer), &replies.emplace_back(text), text.size(), {}).ok());
  };
  for (std::size_t i = 0; i < kRequests; ++i) ASSERT_TRUE(send(*there, "request").ok());
  ASSERT_TRUE(run::eventually([&] {
    near_->progress();
    return there->unsent() == 0;
  }));
  std::size_t most = 0;
  ASSERT_TRUE(run::eventually([&] {
    const std::size_t before = far_heard_.messages.size();
    far_->progress();
    most = std::max(most, far_heard_.messages.size() - before);
    near_->progress();
    return far_heard_.messages.size() == kRequests;
  }));
  EXPECT_LE(most, 12U) << "two looks at the socket, each for a mebibyte of answers";
  far_heard_.guests.clear();  // they send from `replies`
  far_heard_.reply = {};
}

TEST_P(TcpWorkerTest, only_chosen_devices_let_others_in) {
  Recorder heard;
  const auto worker = open(heard, {.devices = {"lo"}});
  const auto place = decode_tcp_place(worker->address()).value();
  ASSERT_EQ(place.endpoints.size(), 1U);
  EXPECT_EQ(to_address(place.endpoints.front()).host, "127.0.0.1");
  const auto none = open_tcp_worker({.devices = {"nosuch0"}}, heard, clock_);
  EXPECT_EQ(none.code(), Code::not_found);
  EXPECT_NE(none.status().message().find("nosuch0"), std::string_view::npos);
}

TEST_P(TcpWorkerTest, hostile_addresses_are_refused) {
  EXPECT_FALSE(connect(*near_, as_bytes("garbage")).ok());
  EXPECT_FALSE(connect(*near_, {}).ok());
}

INSTANTIATE_TEST_SUITE_P(Security, TcpWorkerTest, ::testing::Values("plain", "tls", "kernel_tls"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace towpath::net
