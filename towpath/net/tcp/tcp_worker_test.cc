// Workers over the TCP of this machine.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <towpath/core/text.h>
#include <towpath/net/tcp/tcp_address.h>
#include <towpath/net/tcp/tcp_worker.h>
#include <towpath/run/eventually.h>
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
    messages.emplace_back(as_text(message.head));
    from = message.from;
    return message.body_bytes > 0 ? new Sink(message.body_bytes, *this) : nullptr;
  }
  void on_broken(void* owner, const Status& why) override { broken.emplace_back(owner, why); }
  void on_ended(std::uint64_t connection, const Status&) override { ended.push_back(connection); }

  std::vector<std::string> messages;
  std::vector<std::pair<void*, Status>> broken;
  std::vector<std::uint64_t> ended;
  std::uint64_t from = 0;
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

class TcpWorkerTest : public ::testing::Test {
 protected:
  static std::unique_ptr<MessageWorker> open(MessageListener& listener,
                                             const TcpOptions& options = {}) {
    auto worker = open_tcp_worker(options, listener);
    EXPECT_TRUE(worker.ok()) << worker.status().to_string();
    return worker.ok() ? *std::move(worker) : nullptr;
  }
  Status send(MessageEndpoint& endpoint, std::string_view text, Source* rest = nullptr) {
    auto buffer = near_->buffers().take();
    std::ranges::copy(as_bytes(text), buffer->room().begin());
    buffer->size = text.size();
    return endpoint.send(std::move(buffer), rest, rest != nullptr ? rest->text.size() : 0);
  }
  template <typename Condition>
  bool run_until(Condition done) {
    return run::eventually([&] {
      near_->progress();
      if (far_) far_->progress();
      return done();
    });
  }
  /// A way to the far side, over which something has been heard.
  std::unique_ptr<MessageEndpoint> way(void* owner = nullptr) {
    auto made = near_->connect(far_->address(), owner);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    EXPECT_TRUE(send(**made, "hello").ok());
    EXPECT_TRUE(run_until([&] { return !far_heard_.messages.empty(); }));
    far_heard_.messages.clear();
    return *std::move(made);
  }

  Recorder near_heard_, far_heard_;
  std::unique_ptr<MessageWorker> near_ = open(near_heard_), far_ = open(far_heard_);
};

TEST_F(TcpWorkerTest, messages_of_every_size_arrive_in_order) {
  auto made = near_->connect(far_->address(), nullptr);
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

TEST_F(TcpWorkerTest, body_that_is_copied_leaves_its_source_alone) {
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

TEST_F(TcpWorkerTest, endpoint_learns_that_the_other_side_has_gone) {
  int owner = 0;
  const auto there = way(&owner);
  far_.reset();
  ASSERT_TRUE(run_until([&] { return !near_heard_.broken.empty(); }));
  EXPECT_EQ(near_heard_.broken.front().first, &owner);
  EXPECT_EQ(near_heard_.broken.front().second.code(), Code::peer_lost);
  Source rest("late");
  EXPECT_EQ(send(*there, "too ", &rest).code(), Code::peer_lost);
  EXPECT_EQ(rest.done_calls, 1);
}

TEST_F(TcpWorkerTest, listener_learns_that_an_endpoint_was_closed) {
  auto there = way();
  const std::uint64_t from = far_heard_.from;
  there.reset();
  ASSERT_TRUE(run_until([&] { return !far_heard_.ended.empty(); }));
  EXPECT_EQ(far_heard_.ended.front(), from);
}

TEST_F(TcpWorkerTest, what_waits_in_an_endpoint_is_let_go_with_it) {
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

TEST_F(TcpWorkerTest, nobody_at_the_address_is_told) {
  const Bytes address(far_->address().begin(), far_->address().end());
  far_.reset();
  int owner = 0;
  const auto there = near_->connect(address, &owner);
  ASSERT_TRUE(there.ok()) << "it does not wait";
  ASSERT_TRUE(run_until([&] { return !near_heard_.broken.empty(); }));
  EXPECT_EQ(near_heard_.broken.front().first, &owner);
  EXPECT_NE(near_heard_.broken.front().second.message().find("127.0.0.1"), std::string_view::npos);
}

TEST_F(TcpWorkerTest, somebody_else_at_the_address_gets_no_secret) {
  TcpPlace place = decode_tcp_place(far_->address()).value();
  place.instance += 1;
  const auto there = near_->connect(encode(place), nullptr);
  ASSERT_TRUE(there.ok());
  ASSERT_TRUE(send(**there, "not for you").ok());
  ASSERT_TRUE(run_until([&] { return !near_heard_.broken.empty(); }));
  EXPECT_TRUE(far_heard_.messages.empty());
  EXPECT_NE(near_heard_.broken.front().second.message().find("somebody else"),
            std::string_view::npos);
}

TEST_F(TcpWorkerTest, who_does_not_know_the_secret_is_not_heard) {
  TcpPlace place = decode_tcp_place(far_->address()).value();
  place.secret[3] ^= 1;
  const auto there = near_->connect(encode(place), nullptr);
  ASSERT_TRUE(there.ok());
  ASSERT_TRUE(send(**there, "let me in").ok());
  ASSERT_TRUE(run_until([&] { return !near_heard_.broken.empty(); }));
  EXPECT_TRUE(far_heard_.messages.empty());
  EXPECT_TRUE(far_heard_.ended.empty()) << "of strangers nobody is told";
}

/// To the far side, past its worker's own ways.
std::vector<sys::Fd> strangers_at(const MessageWorker& worker, std::size_t count) {
  const Endpoint port = decode_tcp_place(worker.address()).value().endpoints.back();
  std::vector<sys::Fd> all;
  for (std::size_t i = 0; i < count; ++i) {
    sys::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), port.get(), port.size_bytes), 0);
    all.push_back(std::move(socket));
  }
  return all;
}

TEST_F(TcpWorkerTest, strangers_at_its_port_harm_nobody) {
  const auto there = way();
  std::vector<sys::Fd> on_the_line;
  const std::string noise(100'000, '\xa5');
  for (const std::string_view what :
       {std::string_view("?"), std::string_view("GET / HTTP/1.1\r\n\r\n"),
        std::string_view(noise)}) {
    auto some = strangers_at(*far_, 50);
    for (const sys::Fd& one : some) (void)::send(one.get(), what.data(), what.size(), MSG_NOSIGNAL);
    std::ranges::move(some, std::back_inserter(on_the_line));
    for (int i = 0; i < 100; ++i) far_->progress();
  }
  // The first of them had to go: no more of them are kept than may wait.
  Bytes greeting(kGreetingBytes + 1);
  EXPECT_EQ(::recv(on_the_line.front().get(), greeting.data(), greeting.size(), MSG_WAITALL),
            std::ptrdiff_t{kGreetingBytes});
  Recorder third_heard;
  const auto third = open(third_heard);
  auto newcomer = third->connect(far_->address(), nullptr);
  ASSERT_TRUE(newcomer.ok());
  auto buffer = third->buffers().take();
  buffer->size = 3;
  std::ranges::copy(as_bytes("new"), buffer->room().begin());
  ASSERT_TRUE((*newcomer)->send(std::move(buffer), nullptr, 0).ok());
  ASSERT_TRUE(send(*there, "after").ok());
  ASSERT_TRUE(run_until([&] { return third->progress(), far_heard_.messages.size() == 2; }));
  EXPECT_TRUE(near_heard_.broken.empty());
  newcomer->reset();
}

TEST_F(TcpWorkerTest, port_opens_again_when_descriptors_are_free) {
  const auto there = way();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  auto waiting = strangers_at(*far_, 3);
  const int next = ::dup(waiting.front().get());
  ::close(next);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 10; ++i) far_->progress();
  ASSERT_TRUE(send(*there, "still heard").ok());
  ASSERT_TRUE(run_until([&] { return !far_heard_.messages.empty(); }));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  auto another = near_->connect(far_->address(), nullptr);
  ASSERT_TRUE(another.ok());
  ASSERT_TRUE(send(**another, "of a newcomer").ok());
  EXPECT_TRUE(run_until([&] { return far_heard_.messages.size() == 2; }));
}

TEST_F(TcpWorkerTest, descriptor_wakes_for_a_message) {
  const auto there = way();
  while (far_->progress() || !far_->arm()) {
  }
  pollfd watched{far_->fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&watched, 1, 0), 0);
  ASSERT_TRUE(send(*there, "second").ok());
  EXPECT_EQ(::poll(&watched, 1, 10'000), 1);
}

TEST_F(TcpWorkerTest, only_chosen_devices_let_others_in) {
  Recorder heard;
  const auto worker = open(heard, {.devices = {"lo"}});
  const auto place = decode_tcp_place(worker->address()).value();
  ASSERT_EQ(place.endpoints.size(), 1U);
  EXPECT_EQ(to_address(place.endpoints.front()).host, "127.0.0.1");
  const auto none = open_tcp_worker({.devices = {"nosuch0"}}, heard);
  EXPECT_EQ(none.code(), Code::not_found);
  EXPECT_NE(none.status().message().find("nosuch0"), std::string_view::npos);
}

TEST_F(TcpWorkerTest, hostile_addresses_are_refused) {
  EXPECT_FALSE(near_->connect(as_bytes("garbage"), nullptr).ok());
  EXPECT_FALSE(near_->connect({}, nullptr).ok());
}

}  // namespace
}  // namespace towpath::net
