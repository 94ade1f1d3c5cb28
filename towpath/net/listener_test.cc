#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/endpoint.h>
#include <towpath/net/listener.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/child.h>

namespace towpath::net {
namespace {

using run::eventually;

Address address(std::string_view text) { return parse_address(text).value(); }

// The stream of who connects to `listener`, accepted.
std::unique_ptr<sys::ByteStream> accept(Listener& listener) {
  sys::Fd fd;
  EXPECT_TRUE(eventually([&] { return bool(fd = listener.accept().value()); }));
  return sys::make_socket_stream(std::move(fd));
}
std::unique_ptr<sys::ByteStream> reach(const Listener& listener) {
  const auto& tcp = std::get<TcpAddress>(listener.address());
  return connect(resolve(tcp)->front()).value();
}
// What the stream says in the end: a byte, or the failure.
Status hear(sys::ByteStream& stream) {
  Bytes byte(1);
  Status status;
  EXPECT_TRUE(eventually([&] {
    const auto read = stream.read_some(byte);
    status = read.status();
    return !read.ok() || read->size_bytes > 0 || read->ended;
  }));
  return status;
}

// The kernel's word, not that of the code under test.
bool has_ipv6() {
  const sys::Fd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = IN6ADDR_LOOPBACK_INIT;
  return fd && ::bind(fd.get(), reinterpret_cast<sockaddr*>(&loopback), sizeof loopback) == 0;
}
bool is_ipv6(const Address& address) {
  return resolve(std::get<TcpAddress>(address))->front().storage.ss_family == AF_INET6;
}
constexpr const char* kNoIpv6 = "no ::1 here: sysctl net.ipv6.conf.lo.disable_ipv6=0";

class TcpListenerTest : public testing::TestWithParam<const char*> {};

TEST_P(TcpListenerTest, port_is_chosen_reported_and_reached) {
  if (is_ipv6(address(GetParam())) && !has_ipv6()) GTEST_SKIP() << kNoIpv6;
  auto listener = Listener::listen(address(GetParam()));
  ASSERT_TRUE(listener.ok()) << listener.status().to_string();
  EXPECT_NE(std::get<TcpAddress>(listener->address()).port, 0);
  EXPECT_FALSE(listener->is_reachable_from_outside());
  EXPECT_FALSE(bool(listener->accept().value()));
  const auto client = reach(*listener);
  const auto server = accept(*listener);
  EXPECT_EQ(server->write_some(as_bytes("x")).value(), 1U);
  EXPECT_TRUE(hear(*client).ok());
  EXPECT_EQ(Listener::listen(listener->address()).code(), Code::already_exists);
}
INSTANTIATE_TEST_SUITE_P(Families, TcpListenerTest,
                         testing::Values("127.0.0.1:0", "[::1]:0", "localhost:0"),
                         [](const auto& each) {
                           return each.param[0] == '['   ? "six"
                                  : each.param[0] == '1' ? "four"
                                                         : "name";
                         });

TEST(ListenerTest, wide_addresses_are_known_as_such) {
  EXPECT_TRUE(Listener::listen(address("0.0.0.0:0"))->is_reachable_from_outside());
  if (!has_ipv6()) GTEST_SKIP() << kNoIpv6;
  auto both = Listener::listen(address("[::]:0"));
  ASSERT_TRUE(both.ok()) << both.status().to_string();
  EXPECT_TRUE(both->is_reachable_from_outside());
  const TcpAddress four{"127.0.0.1", std::get<TcpAddress>(both->address()).port};
  const auto client = connect(resolve(four)->front()).value();
  EXPECT_TRUE(accept(*both) != nullptr) << "IPv4 comes in too";
}

TEST(ListenerTest, port_is_free_again_at_once) {
  auto listener = Listener::listen(address("127.0.0.1:0"));
  const Address where = listener->address();
  const auto client = reach(*listener);
  (void)accept(*listener);  // closed from here: its port lingers
  listener = error(Code::internal, "closed");
  EXPECT_TRUE(Listener::listen(where).ok());
}

TEST(ListenerTest, nobody_there_is_heard_from_the_stream) {
  auto listener = Listener::listen(address("127.0.0.1:0"));
  const auto& tcp = std::get<TcpAddress>(listener->address());
  const Endpoint endpoint = resolve(tcp)->front();
  listener = error(Code::internal, "closed");
  const auto client = connect(endpoint).value();
  EXPECT_EQ(hear(*client).code(), Code::unavailable);
}

TEST(ListenerTest, addresses_that_cannot_be_had_are_refused) {
  EXPECT_EQ(Listener::listen(address("192.0.2.1:0")).code(), Code::not_found);
  const Code unknown = resolve({"no-such-host.invalid", 1}).code();
  EXPECT_TRUE(unknown == Code::not_found || unknown == Code::unavailable);
  EXPECT_EQ(Listener::listen(sys::LocalAddress{std::string(108, 'x'), true}).code(),
            Code::invalid_argument);
}

// Where the mend lacks, the child ends by its watchdog.
TEST(ListenerTest, failure_of_accept_that_stays_is_reported) {
  EXPECT_TRUE(sys::testing::passes_in_child([] {
    auto listener = Listener::listen(address("127.0.0.1:0")).value();
    if (!sys::testing::refuse_calls({SYS_accept4}, EPERM)) GTEST_SKIP() << sys::testing::kNoFilter;
    EXPECT_EQ(listener.accept().code(), Code::denied);
  }));
}

/// As a killed process leaves it.
void leave_dead(const sys::LocalAddress& where) {
  {
    auto dead = sys::LocalListener::listen(where, sys::SocketKind::stream);
    ASSERT_TRUE(dead.ok());
    ASSERT_EQ(rename(where.name.c_str(), cat(where.name, "-kept").c_str()), 0);
  }
  ASSERT_EQ(rename(cat(where.name, "-kept").c_str(), where.name.c_str()), 0);
}

TEST(ListenerTest, file_of_a_dead_process_is_replaced_but_a_live_one_is_not) {
  const auto directory = sys::TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const sys::LocalAddress where{directory->file("socket")};
  leave_dead(where);
  auto first = Listener::listen(where);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_EQ(Listener::listen(where).code(), Code::already_exists);
  EXPECT_TRUE(sys::connect_stream(where).ok());
  first = error(Code::internal, "closed");
  EXPECT_NE(access(where.name.c_str(), F_OK), 0) << "nothing is left";
}

TEST(ListenerTest, of_several_that_listen_at_once_one_does_and_is_the_one_that_is_reached) {
  const auto directory = sys::TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const sys::LocalAddress where{directory->file("socket")};
  for (int round = 0; round < 300; ++round) {
    leave_dead(where);
    std::vector<std::optional<Result<Listener>>> all(4);
    std::vector<std::thread> threads;
    std::atomic<int> ready{0};
    for (auto& one : all)
      threads.emplace_back([&] {
        ++ready;
        while (ready.load() < 4) std::this_thread::yield();
        one.emplace(Listener::listen(where));
      });
    for (std::thread& thread : threads) thread.join();
    const auto listens = [](const auto& one) { return one->ok(); };
    ASSERT_EQ(std::ranges::count_if(all, listens), 1) << "in round " << round;
    ASSERT_TRUE(sys::connect_stream(where).ok());
    ASSERT_TRUE((*std::ranges::find_if(all, listens))->value().accept().value()) << round;
  }
}

TEST(ListenerTest, file_that_is_no_socket_is_left_alone) {
  const auto directory = sys::TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const std::string path = directory->file("not-a-socket");
  ASSERT_TRUE(std::ofstream(path).is_open());
  EXPECT_EQ(Listener::listen(sys::LocalAddress{path}).code(), Code::already_exists);
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace towpath::net
