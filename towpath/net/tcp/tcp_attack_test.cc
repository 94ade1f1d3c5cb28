// What somebody who knows only addresses gets out of workers over TCP, and what it costs others.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <towpath/core/format.h>
#include <towpath/net/tcp/tcp_address.h>
#include <towpath/net/tcp/tcp_newcomers.h>
#include <towpath/net/tcp/tcp_worker.h>
#include <towpath/net/test_connections.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/fd.h>

namespace towpath::net {
namespace {

struct Silent final : MessageListener {
  BodySink* on_message(const Message&) override { return ++messages, nullptr; }
  void on_broken(void*, const Status& status) override { ++broken, why = status; }
  void on_refused(std::string_view, const Status&) override { ++refused; }
  int refused = 0;
  int messages = 0;
  int broken = 0;
  Status why;
};

std::string take_all(int fd) {
  std::string all(100'000, '\0');
  const ssize_t got = ::recv(fd, all.data(), all.size(), MSG_DONTWAIT);
  all.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return all;
}

constexpr std::string_view kFirst = "what a dialler says first";

class TcpAttackTest : public ::testing::Test {
 protected:
  std::unique_ptr<MessageWorker> open(Silent& heard) {
    return open_tcp_worker({}, heard, clock_).value();
  }
  Result<std::unique_ptr<MessageEndpoint>> dial(ConstByteSpan address) {
    auto first = near_->buffers().take();
    std::ranges::copy(as_bytes(kFirst), first->room().begin());
    first->size = kFirst.size();
    return near_->connect(address, std::move(first), nullptr);
  }
  sockaddr_in port() const {
    sockaddr_in port{};
    std::memcpy(&port, place_.endpoints.back().get(), sizeof port);
    return port;
  }

  const sys::SystemClock clock_;
  Silent near_heard_, far_heard_;
  std::unique_ptr<MessageWorker> near_ = open(near_heard_), far_ = open(far_heard_);
  const TcpPlace place_ = decode_tcp_place(far_->address()).value();
};

// It listens where the dialler comes by (on one host, at 127.0.0.1 and the same port), and repeats
// whatever the true listener says to those who come.
TEST_F(TcpAttackTest,
       impostor_that_repeats_what_the_listener_says_gets_nothing_but_a_first_message) {
  const sys::Fd trap(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in at = ipv4("127.0.0.7", 0);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(trap.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(trap.get(), 16), 0);
  ASSERT_EQ(::getsockname(trap.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  TcpPlace trapped = place_;
  trapped.endpoints.assign(1, Endpoint{.size_bytes = sizeof at});
  std::memcpy(&trapped.endpoints.front().storage, &at, sizeof at);
  const auto way = dial(encode(trapped));
  ASSERT_TRUE(way.ok()) << way.status().to_string();
  auto buffer = near_->buffers().take();
  std::ranges::copy(as_bytes("private"), buffer->room().begin());
  buffer->size = 7;
  ASSERT_TRUE((*way)->send(std::move(buffer), nullptr, 0, {}).ok());

  const sys::Fd to_true = connect_from("127.0.0.1", port());
  sys::Fd victim;
  std::string learned;
  ASSERT_TRUE(run::eventually([&] {
    near_->progress();
    far_->progress();
    if (victim.get() < 0) victim = sys::Fd(::accept4(trap.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (victim.get() < 0) return false;
    const std::string repeated = take_all(to_true.get());
    if (!repeated.empty())
      (void)::send(victim.get(), repeated.data(), repeated.size(), MSG_NOSIGNAL);
    learned += take_all(victim.get());
    return learned.size() >= kFirst.size() + MessagePrefix::kBytes;
  }));
  for (int i = 0; i < 100; ++i) {
    near_->progress();
    far_->progress();
    const std::string repeated = take_all(to_true.get());
    EXPECT_EQ(repeated, "") << "a listener says nothing to those who have proven nothing";
    learned += take_all(victim.get());
  }
  EXPECT_EQ(learned.substr(MessagePrefix::kBytes), kFirst);
}

TEST_F(TcpAttackTest, connections_of_somebody_else_put_out_nobody) {
  const sys::Fd honest = connect_from("127.0.0.1", port());
  far_->progress();
  std::vector<sys::Fd> attack;
  for (int i = 0; i < 200; ++i) {
    attack.push_back(connect_from("127.0.0.9", port()));
    far_->progress();
  }
  EXPECT_FALSE(is_closed(honest.get())) << "the honest one was put out";
  const auto open =
      std::ranges::count_if(attack, [](const sys::Fd& one) { return !is_closed(one.get()); });
  EXPECT_EQ(open, 64) << "one source has no more than its share";
}

TEST_F(TcpAttackTest, who_says_nothing_is_hung_up_on) {
  const sys::Fd mute = connect_from("127.0.0.9", port());
  const Instant begin = clock_.now();
  ASSERT_TRUE(run::eventually([&] { return far_->progress(), is_closed(mute.get()); }));
  EXPECT_GE(clock_.now() - begin, std::chrono::milliseconds(1900));
  EXPECT_EQ(far_heard_.refused, 1);
}

TEST_F(TcpAttackTest, one_that_speaks_is_put_out_by_none_that_say_nothing) {
  const sys::Fd speaker = connect_from("127.0.0.9", port());
  ASSERT_EQ(::send(speaker.get(), kFirst.data(), 5, MSG_NOSIGNAL), 5);
  far_->progress();
  std::vector<sys::Fd> silent;
  for (int i = 0; i < 63; ++i) silent.push_back(connect_from("127.0.0.9", port()));
  const Instant begin = clock_.now();
  ASSERT_TRUE(run::eventually([&] {
    far_->progress();
    return clock_.now() - begin > TcpNewcomers::kSaidNothing.at_least;
  }));
  const sys::Fd late = connect_from("127.0.0.9", port());
  far_->progress();
  EXPECT_FALSE(is_closed(late.get()));
  EXPECT_FALSE(is_closed(speaker.get())) << "though it came first";
  EXPECT_EQ(std::ranges::count_if(silent, [](const sys::Fd& one) { return is_closed(one.get()); }),
            1);
}

// Our own delay is not their silence.
TEST_F(TcpAttackTest, words_that_have_come_are_heard_however_late_we_are) {
  ManualClock clock;
  Silent heard;
  const auto worker = open_tcp_worker({}, heard, clock).value();
  sockaddr_in at{};
  std::memcpy(&at, decode_tcp_place(worker->address()).value().endpoints.back().get(), sizeof at);
  const sys::Fd one = connect_from("127.0.0.1", at);
  ASSERT_TRUE(run::eventually([&] { return worker->progress(); }));  // it is let in
  for (int piece = 0; piece < 4; ++piece) {
    ASSERT_EQ(::send(one.get(), kFirst.data(), 1, MSG_NOSIGNAL), 1);
    clock.advance(std::chrono::minutes(1));
    ASSERT_TRUE(run::eventually([&] { return worker->progress(); }));
  }
  EXPECT_FALSE(is_closed(one.get()));
  clock.advance(TcpNewcomers::kSpeaks.at_most);
  EXPECT_TRUE(run::eventually([&] { return worker->progress(), is_closed(one.get()); }));
}

TEST_F(TcpAttackTest, hosts_that_take_all_places_give_one_up_for_a_host_that_has_none) {
  std::vector<sys::Fd> attack;
  for (int host = 10; host < 20; ++host) {
    const std::string from = cat("127.0.0.", host);
    for (std::size_t i = 0; i < TcpNewcomers::kMostPerSource; ++i) {
      attack.push_back(connect_from(from.c_str(), port()));
      ASSERT_EQ(::send(attack.back().get(), kFirst.data(), 1, MSG_NOSIGNAL), 1);
      far_->progress();
    }
  }
  for (int i = 0; i < 20; ++i) far_->progress();  // what each has said is read
  const sys::Fd honest = connect_from("127.0.0.1", port());
  far_->progress();
  EXPECT_FALSE(is_closed(honest.get()));
  const auto open =
      std::ranges::count_if(attack, [](const sys::Fd& one) { return !is_closed(one.get()); });
  EXPECT_EQ(open, TcpNewcomers::kMost - 1);
}

// Each of many hosts may have its share, and the descriptors are still not theirs.
TEST_F(TcpAttackTest, newcomers_of_many_hosts_leave_descriptors_to_those_who_are_known) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 400, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  Silent heard;
  const auto worker = open(heard);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  sockaddr_in at{};
  std::memcpy(&at, decode_tcp_place(worker->address()).value().endpoints.back().get(), sizeof at);
  std::vector<sys::Fd> attack;
  for (int host = 10; host < 20; ++host) {
    for (int i = 0; i < 20; ++i) {
      attack.push_back(connect_from(cat("127.0.0.", host).c_str(), at));
      worker->progress();
    }
  }
  EXPECT_EQ(std::ranges::count_if(attack, [](const sys::Fd& one) { return !is_closed(one.get()); }),
            100);
}

}  // namespace
}  // namespace towpath::net
