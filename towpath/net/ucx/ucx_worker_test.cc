#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <towpath/net/ucx/testing/real_ucx.h>
#include <towpath/net/ucx/ucx_worker.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/fd.h>

namespace towpath::net {
namespace {

struct Recorder final : MessageListener {
  BodySink* on_message(const Message& message) override {
    messages.emplace_back(as_text(message.head));
    if (reply) reply();
    return nullptr;
  }
  void on_broken(void* owner, const Status& why) override { broken.emplace_back(owner, why); }
  std::function<void()> reply;  ///< to each message
  std::vector<std::string> messages;
  std::vector<std::pair<void*, Status>> broken;
};

class UcxWorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = testing::why_no_ucx(); !why.empty()) GTEST_SKIP() << why;
    const Finding found = probe_ucx();
    ASSERT_EQ(found.verdict, Verdict::yes) << found.reason << "; " << found.hint;
    near_ = open(near_heard_);
    far_ = open(far_heard_);
  }
  static std::unique_ptr<MessageWorker> open(MessageListener& listener,
                                             std::map<std::string, std::string> settings = {}) {
    auto worker = open_ucx_worker({.transports = "tcp", .settings = std::move(settings)}, listener);
    EXPECT_TRUE(worker.ok()) << worker.status().to_string();
    return worker.ok() ? *std::move(worker) : nullptr;
  }
  Status send(MessageEndpoint& endpoint, std::string_view text) {
    auto buffer = near_->buffers().take();
    std::ranges::copy(as_bytes(text), buffer->room().begin());
    buffer->size = text.size();
    return endpoint.send(std::move(buffer));
  }
  template <typename Condition>
  bool run_until(Condition done) {
    return run::eventually([&] {
      near_->progress();
      if (far_) far_->progress();
      return done();
    });
  }

  Recorder near_heard_, far_heard_;
  std::unique_ptr<MessageWorker> near_, far_;
};

TEST_F(UcxWorkerTest, messages_of_every_size_arrive_whole) {
  auto way = near_->connect(far_->address(), nullptr, nullptr);
  ASSERT_TRUE(way.ok()) << way.status().to_string();
  std::vector<std::string> sent;
  for (std::size_t size = 1; size <= near_->buffers().message_bytes(); size = size * 3 + 1)
    sent.emplace_back(size, static_cast<char>('a' + sent.size()));
  sent.emplace_back(near_->buffers().message_bytes(), 'z');
  for (const std::string& text : sent) ASSERT_TRUE(send(**way, text).ok());
  ASSERT_TRUE(run_until([&] { return far_heard_.messages.size() == sent.size(); }));
  EXPECT_EQ(far_heard_.messages, sent);
  EXPECT_TRUE(run_until([&] { return (*way)->unsent() == 0; }));
}

TEST_F(UcxWorkerTest, messages_of_several_segments_arrive_whole) {
  const std::map<std::string, std::string> small{{"TX_SEG_SIZE", "8k"}, {"RX_SEG_SIZE", "8k"}};
  Recorder third_heard;
  near_ = open(near_heard_, small);
  far_ = open(far_heard_, small);
  const auto third = open(third_heard, small);
  auto way = near_->connect(far_->address(), nullptr, nullptr);
  auto way_of_third = third->connect(far_->address(), nullptr, nullptr);
  ASSERT_TRUE(way.ok() && way_of_third.ok());
  std::vector<std::string> sent;
  for (std::size_t size = 7000; size <= near_->buffers().message_bytes(); size += 9001) {
    sent.emplace_back(size, 'a');
    ASSERT_TRUE(send(**way, sent.back()).ok());
    sent.emplace_back(size + 1, 'b');
    ASSERT_TRUE(send(**way_of_third, sent.back()).ok());
  }
  ASSERT_TRUE(run_until([&] {
    third->progress();
    return far_heard_.messages.size() == sent.size();
  }));
  std::ranges::sort(sent);
  std::ranges::sort(far_heard_.messages);
  EXPECT_TRUE(far_heard_.messages == sent);
}

// Breaks when a call takes all that UCX keeps, whatever each asks for.
TEST_F(UcxWorkerTest, a_call_ends_by_what_is_answered_in_it) {
  constexpr std::size_t kRequests = 300;
  auto there = near_->connect(far_->address(), nullptr, nullptr);
  auto back = far_->connect(near_->address(), nullptr, nullptr);
  ASSERT_TRUE(there.ok() && back.ok());
  ASSERT_TRUE(send(**there, "first").ok());
  ASSERT_TRUE(run_until([&] { return far_heard_.messages.size() == 1; }));
  far_heard_.reply = [&] {
    auto buffer = far_->buffers().take();
    buffer->size = 100'000;
    std::ranges::fill(buffer->room().first(buffer->size), std::byte{'r'});
    EXPECT_TRUE((*back)->send(std::move(buffer)).ok());
  };
  for (std::size_t i = 0; i < kRequests; ++i) ASSERT_TRUE(send(**there, "request").ok());
  ASSERT_TRUE(run::eventually([&] {
    near_->progress();
    return (*there)->unsent() == 0;
  }));
  std::size_t most = 0;
  ASSERT_TRUE(run::eventually([&] {
    const std::size_t before = far_heard_.messages.size();
    far_->progress();
    most = std::max(most, far_heard_.messages.size() - before);
    near_->progress();
    return far_heard_.messages.size() == 1 + kRequests;
  }));
  EXPECT_LE(most, 40U) << "16 that waited for them, and a mebibyte of answers";
  far_heard_.reply = {};
}

TEST_F(UcxWorkerTest, endpoint_learns_that_the_other_side_has_gone) {
  int owner = 0;
  auto way = near_->connect(far_->address(), nullptr, &owner);
  ASSERT_TRUE(way.ok());
  ASSERT_TRUE(send(**way, "hello").ok());
  ASSERT_TRUE(run_until([&] { return !far_heard_.messages.empty(); }));
  far_.reset();
  ASSERT_TRUE(run_until([&] { return !near_heard_.broken.empty(); }));
  EXPECT_EQ(near_heard_.broken.front().first, &owner);
  EXPECT_EQ(near_heard_.broken.front().second.code(), Code::peer_lost);
}

TEST_F(UcxWorkerTest, buffers_of_an_endpoint_that_was_cut_come_back) {
  auto way = near_->connect(far_->address(), nullptr, nullptr);
  ASSERT_TRUE(way.ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(send(**way, std::string(100'000, 'x')).ok());
  way->reset();
  near_.reset();  // the sanitizers tell if a callback finds nobody
}

TEST_F(UcxWorkerTest, descriptor_wakes_for_a_message) {
  auto way = near_->connect(far_->address(), nullptr, nullptr);
  ASSERT_TRUE(way.ok());
  ASSERT_TRUE(send(**way, "first").ok());
  ASSERT_TRUE(run_until([&] { return !far_heard_.messages.empty(); }));
  const auto settle = [](MessageWorker& worker) {
    while (worker.progress() || !worker.arm()) {
    }
  };
  settle(*far_);
  ASSERT_TRUE(send(**way, "second").ok());
  ASSERT_TRUE(run::eventually([&] {
    near_->progress();
    pollfd watched{far_->fd(), POLLIN, 0};
    return ::poll(&watched, 1, 0) == 1;
  }));
  EXPECT_TRUE(run_until([&] { return far_heard_.messages.size() == 2; }));
}

TEST_F(UcxWorkerTest, ucx_that_takes_no_gpu_is_refused_for_them_and_says_what_to_install) {
  const Finding found = probe_ucx_devices();
  const auto worker = open_ucx_worker({.devices_too = true}, near_heard_);
  EXPECT_EQ(worker.ok(), found.verdict == Verdict::yes) << found.reason;
  if (worker.ok()) return;  // this one was built with CUDA, and there is a driver
  EXPECT_EQ(worker.code(), Code::unsupported);
  EXPECT_NE(found.reason.find("takes no memory of a GPU"), std::string::npos) << found.reason;
  EXPECT_NE(found.hint.find("CUDA"), std::string::npos) << found.hint;
  DeviceStagingBuffer room{.device = 0, .address = 4096, .bytes = 4096};
  EXPECT_EQ(near_->receive_into(room).code(), Code::unsupported) << "of a worker without devices";
}

TEST_F(UcxWorkerTest, settings_without_sense_are_refused_by_name) {
  const auto worker = open_ucx_worker({.settings = {{"KEEPALIVE_INTERVAL", "soon"}}}, near_heard_);
  EXPECT_EQ(worker.code(), Code::invalid_argument);
  EXPECT_NE(worker.status().message().find("KEEPALIVE_INTERVAL"), std::string_view::npos);
}

TEST_F(UcxWorkerTest, transport_that_does_not_exist_is_refused) {
  const auto worker = open_ucx_worker({.transports = "carrier_pigeon"}, near_heard_);
  EXPECT_EQ(worker.code(), Code::unsupported);
}

TEST_F(UcxWorkerTest, device_that_does_not_exist_is_refused_with_those_that_do) {
  for (const char* const devices : {"nosuch0", "lo,nosuch0"}) {
    const auto worker = open_ucx_worker({.transports = "tcp", .devices = devices}, near_heard_);
    EXPECT_EQ(worker.code(), Code::invalid_argument);
    EXPECT_NE(worker.status().message().find("nosuch0; it knows "), std::string_view::npos);
    EXPECT_NE(worker.status().message().find("lo"), std::string_view::npos);
  }
}

/// Where this process listens over TCP: nobody but UCX does here.
std::vector<sockaddr_storage> listening_addresses() {
  std::vector<sockaddr_storage> all;
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    sockaddr_storage address{};
    socklen_t address_size = sizeof address;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &address_size) == 0)
      all.push_back(address);
  }
  return all;
}

std::size_t count_outside_of_loopback() {
  return static_cast<std::size_t>(
      std::ranges::count_if(listening_addresses(), [](const sockaddr_storage& address) {
        return address.ss_family != AF_INET ||
               reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr !=
                   htonl(INADDR_LOOPBACK);
      }));
}

TEST_F(UcxWorkerTest, worker_listens_on_the_devices_that_it_was_given) {
  const std::size_t all = listening_addresses().size();
  const std::size_t outside = count_outside_of_loopback();
  const auto worker = open_ucx_worker({.transports = "tcp", .devices = " lo"}, near_heard_);
  ASSERT_TRUE(worker.ok()) << worker.status().to_string();
  EXPECT_GT(listening_addresses().size(), all);
  EXPECT_EQ(count_outside_of_loopback(), outside);
}

/// Says this to whoever listens there, and goes, or stays on the line.
sys::Fd report(const sockaddr_storage& where, std::string_view what) {
  sys::Fd socket(::socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&where), sizeof where), 0);
  (void)::send(socket.get(), what.data(), what.size(), MSG_NOSIGNAL);
  return socket;
}

TEST_F(UcxWorkerTest, unauthenticated_at_its_port_harm_nobody) {
  auto way = near_->connect(far_->address(), nullptr, nullptr);
  ASSERT_TRUE(way.ok());
  ASSERT_TRUE(send(**way, "before").ok());
  ASSERT_TRUE(run_until([&] { return far_heard_.messages.size() == 1; }));
  const auto ports = listening_addresses();
  ASSERT_GE(ports.size(), 2U) << "each worker listens";
  std::vector<sys::Fd> on_the_line;
  const std::string noise(100'000, '\xa5');
  for (const sockaddr_storage& port : ports) {
    for (const std::string_view what :
         {std::string_view(), std::string_view("?"), std::string_view("GET / HTTP/1.1\r\n\r\n"),
          std::string_view(noise)}) {
      (void)report(port, what);
      on_the_line.push_back(report(port, what));
    }
  }
  auto newcomer = far_->connect(near_->address(), nullptr, nullptr);
  ASSERT_TRUE(newcomer.ok());
  ASSERT_TRUE(send(**newcomer, "of a newcomer").ok());
  ASSERT_TRUE(send(**way, "after").ok());
  ASSERT_TRUE(run_until(
      [&] { return far_heard_.messages.size() == 2 && near_heard_.messages.size() == 1; }));
  EXPECT_EQ(far_heard_.messages.back(), "after");
  EXPECT_TRUE(near_heard_.broken.empty());
  EXPECT_TRUE(far_heard_.broken.empty());
}

/// How two workers of one process meet, and how one of them leaves.
struct SocketBootstrap {
  bool both_connect;
  bool endpoint_first;  ///< the one that leaves closes its endpoint a step before its worker
  bool guest_leaves;    ///< the one that connected first
  int guest_steps;      ///< of progress, before
  int host_steps;
};

class UcxBootstrapTest : public UcxWorkerTest {
 protected:
  struct Side {
    Recorder heard;
    std::unique_ptr<MessageWorker> worker;
    std::unique_ptr<MessageEndpoint> way;
  };
  static void greet(Side& from, Side& to) {
    auto way = from.worker->connect(to.worker->address(), nullptr, nullptr);
    ASSERT_TRUE(way.ok()) << way.status().to_string();
    from.way = *std::move(way);
    auto buffer = from.worker->buffers().take();
    buffer->size = 100;
    std::ranges::fill(buffer->room().first(buffer->size), std::byte{1});
    ASSERT_TRUE(from.way->send(std::move(buffer)).ok());
  }
  static void hold(const SocketBootstrap& meeting) {
    Side guest, host;
    for (Side* side : {&guest, &host}) side->worker = open(side->heard);
    greet(guest, host);
    if (meeting.both_connect) greet(host, guest);
    for (int i = 0; i < std::max(meeting.guest_steps, meeting.host_steps); ++i) {
      if (i < meeting.guest_steps) guest.worker->progress();
      if (i < meeting.host_steps) host.worker->progress();
    }
    Side& leaves = meeting.guest_leaves ? guest : host;
    Side& stays = meeting.guest_leaves ? host : guest;
    leaves.way.reset();
    if (meeting.endpoint_first) stays.worker->progress();
    leaves.worker.reset();
    for (int i = 0; i < 10; ++i) stays.worker->progress();
  }
};

// UCX 1.13 aborts the process at some of these, with active messages or several events a time.
TEST_F(UcxBootstrapTest, either_side_may_leave_at_any_step) {
  constexpr int kSteps = 6;
  ::testing::internal::CaptureStdout();  // UCX complains of some of these, and not there
  for (int guest_steps = 0; guest_steps < kSteps; ++guest_steps)
    for (int host_steps = 0; host_steps < kSteps; ++host_steps)
      for (const bool both_connect : {false, true})
        for (const bool endpoint_first : {false, true})
          for (const bool guest_leaves : {false, true})
            hold({both_connect, endpoint_first, guest_leaves, guest_steps, host_steps});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST_F(UcxWorkerTest, more_messages_than_receives_wait) {
  constexpr std::size_t kCount = 1000;
  auto way = near_->connect(far_->address(), nullptr, nullptr);
  ASSERT_TRUE(way.ok());
  std::vector<std::string> sent{"hello"};
  ASSERT_TRUE(send(**way, sent.front()).ok());
  ASSERT_TRUE(run_until([&] { return !far_heard_.messages.empty(); }));
  for (std::size_t i = 0; i < kCount; ++i) sent.push_back(std::to_string(i));
  for (std::size_t i = 1; i < sent.size(); ++i) ASSERT_TRUE(send(**way, sent[i]).ok());
  ASSERT_TRUE(run::eventually([&] { return near_->progress(), (*way)->unsent() == 0; }));
  ASSERT_TRUE(run_until([&] { return far_heard_.messages.size() == sent.size(); }));
  EXPECT_EQ(far_heard_.messages, sent);
}

/// Lets the process have so many descriptors more than it has.
void leave_descriptors(std::size_t count) {
  constexpr rlim_t kLimit = 512;
  const rlimit limit{kLimit, kLimit};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<int> taken;
  for (int fd = ::eventfd(0, EFD_CLOEXEC); fd >= 0; fd = ::eventfd(0, EFD_CLOEXEC))
    taken.push_back(fd);
  for (std::size_t i = 0; i < count && i < taken.size(); ++i) ::close(taken[i]);
}

/// 0: it went well, or it said what ran out.
int code_of(const Status& status) {
  if (status.ok()) return 0;
  std::cerr << status.to_string() << "\n";
  return status.code() == Code::exhausted &&
                 status.to_string().find("descriptors") != std::string::npos
             ? 0
             : 1;
}

[[noreturn]] void open_with(std::size_t descriptors) {
  Recorder heard;
  leave_descriptors(descriptors);
  const auto worker = open_ucx_worker({.transports = "tcp", .settings = {}}, heard);
  std::_Exit(code_of(worker.status()));
}

[[noreturn]] void connect_with(std::size_t descriptors) {
  Recorder near_heard, far_heard;
  const auto near = open_ucx_worker({.transports = "tcp", .settings = {}}, near_heard);
  const auto far = open_ucx_worker({.transports = "tcp", .settings = {}}, far_heard);
  if (!near.ok() || !far.ok()) std::_Exit(2);
  leave_descriptors(descriptors);
  auto first = (*near)->buffers().take();
  first->size = 5;
  auto way = (*near)->connect((*far)->address(), std::move(first), nullptr);
  if (!way.ok()) std::_Exit(code_of(way.status()));
  const bool is_there = run::eventually([&] {
    (*near)->progress();
    (*far)->progress();
    return !far_heard.messages.empty();
  });
  std::_Exit(is_there ? 0 : 3);
}

// Each in a process of its own: UCX ends the one that it asserts in.
TEST(UcxDescriptorsTest, without_descriptors_it_is_said_what_ran_out) {
  if (const auto why = testing::why_no_ucx(); !why.empty()) GTEST_SKIP() << why;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const std::size_t left : {0, 1, 4, 8, 12, 16, 24, 31, 32, 40}) {
    SCOPED_TRACE(left);
    EXPECT_EXIT(open_with(left), ::testing::ExitedWithCode(0), "");
  }
  for (const std::size_t left : {0, 1, 2, 4, 7, 8, 12}) {
    SCOPED_TRACE(left);
    EXPECT_EXIT(connect_with(left), ::testing::ExitedWithCode(0), "");
  }
}

}  // namespace
}  // namespace towpath::net
