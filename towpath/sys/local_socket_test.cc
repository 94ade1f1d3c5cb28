#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/local_socket.h>
#include <towpath/sys/random.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/child.h>
#include <towpath/sys/testing/kernel_calls.h>

namespace towpath::sys {
namespace {

using ::testing::HasSubstr;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

class LocalSocketTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = LocalSocket::pair();
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    pair_ = std::make_unique<std::pair<LocalSocket, LocalSocket>>(std::move(*made));
    auto directory = TemporaryDirectory::create();
    ASSERT_TRUE(directory.ok());
    directory_ = std::make_unique<TemporaryDirectory>(std::move(*directory));
  }
  LocalSocket& a() { return pair_->first; }
  LocalSocket& b() { return pair_->second; }

  std::unique_ptr<std::pair<LocalSocket, LocalSocket>> pair_;
  std::unique_ptr<TemporaryDirectory> directory_;
  Bytes buffer_ = Bytes(64);
};

TEST_F(LocalSocketTest, messages_keep_their_borders) {
  EXPECT_TRUE(*a().send(as_bytes("one")));
  EXPECT_TRUE(*a().send(as_bytes("two!")));
  EXPECT_EQ(b().receive(buffer_)->size_bytes, 3u);
  EXPECT_EQ(b().receive(buffer_)->size_bytes, 4u);
  EXPECT_TRUE(b().receive(buffer_)->nothing);
}

TEST_F(LocalSocketTest, a_closed_side_is_reported_after_its_messages) {
  EXPECT_TRUE(*a().send(as_bytes("last")));
  a() = LocalSocket(Fd());
  EXPECT_FALSE(b().receive(buffer_)->closed);
  EXPECT_TRUE(b().receive(buffer_)->closed);
  EXPECT_EQ(b().send(as_bytes("x")).code(), Code::peer_lost);
}

TEST_F(LocalSocketTest, a_message_that_is_too_long_names_both_sizes) {
  EXPECT_TRUE(*a().send(Bytes(100)));
  EXPECT_TRUE(*a().send(as_bytes("next")));
  const Status status = b().receive(buffer_).status();
  EXPECT_EQ(status.code(), Code::out_of_range);
  EXPECT_THAT(status.to_string(), HasSubstr("100 bytes came, there is room for 64"));
  EXPECT_EQ(b().receive(buffer_)->size_bytes, 4u);
}

TEST_F(LocalSocketTest, parts_arrive_as_one_message) {
  const ConstByteSpan parts[] = {as_bytes("on"), {}, as_bytes("e")};
  EXPECT_TRUE(*a().send_parts(parts));
  ASSERT_EQ(b().receive(buffer_)->size_bytes, 3u);
  EXPECT_EQ(as_text(ConstByteSpan(buffer_).first(3)), "one");
  EXPECT_EQ(a().send_parts(std::span(parts).subspan(1, 1)).code(), Code::invalid_argument);
  const std::vector<ConstByteSpan> many(kMaxMessageParts + 1, as_bytes("x"));
  EXPECT_EQ(a().send_parts(many).code(), Code::invalid_argument);
}

TEST_F(LocalSocketTest, a_full_backlog_says_so) {
  const LocalAddress address{.name = cat("towpath-backlog-", random_u64()), .abstract = true};
  auto listener = LocalListener::listen(address);
  ASSERT_TRUE(listener.ok());
  ASSERT_EQ(::listen(listener->fd(), 1), 0);
  std::vector<LocalSocket> waiting;
  Status refused;
  while (refused.ok() && waiting.size() < 16) {
    auto client = LocalSocket::connect(address);
    refused = client.status();
    if (client.ok()) waiting.push_back(*std::move(client));
  }
  EXPECT_EQ(refused.code(), Code::exhausted) << refused.to_string();
  EXPECT_THAT(refused.to_string(), HasSubstr("backlog is full"));
}

TEST_F(LocalSocketTest, what_cannot_be_sent_is_refused) {
  EXPECT_EQ(a().send({}).code(), Code::invalid_argument);
  EXPECT_EQ(a().send(Bytes(64 << 20)).code(), Code::invalid_argument);
  const std::vector<int> many(kMaxMessageFds + 1, 0);
  EXPECT_EQ(a().send(as_bytes("x"), many).code(), Code::invalid_argument);
  const int closed[] = {9999};
  EXPECT_EQ(a().send(as_bytes("x"), closed).code(), Code::invalid_argument);
}

TEST_F(LocalSocketTest, a_full_socket_would_block_and_loses_nothing) {
  const Bytes block(4096);
  std::size_t sent = 0;
  while (*a().send(block)) ++sent;
  EXPECT_GT(sent, 0u);
  Bytes into(4096);
  for (std::size_t i = 0; i < sent; ++i) EXPECT_EQ(b().receive(into)->size_bytes, 4096u);
  EXPECT_TRUE(b().receive(into)->nothing);
}

TEST_F(LocalSocketTest, descriptors_travel_and_close_on_exec) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const int fds[] = {writer.get()};
  EXPECT_TRUE(*a().send(as_bytes("take"), fds));
  writer.reset();
  auto received = b().receive(buffer_);
  ASSERT_TRUE(received.ok());
  ASSERT_EQ(received->fds.size(), 1u);
  EXPECT_EQ(::fcntl(received->fds[0].get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(::write(received->fds[0].get(), "x", 1), 1);
  EXPECT_EQ(::read(reader.get(), buffer_.data(), 1), 1);
}

TEST_F(LocalSocketTest, descriptors_of_a_refused_message_do_not_leak) {
  const std::size_t before = open_descriptors();
  const std::vector<int> fds(kMaxMessageFds, 0);
  EXPECT_TRUE(*a().send(Bytes(100), fds));
  EXPECT_EQ(b().receive(buffer_).code(), Code::out_of_range);
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(LocalSocketTest, more_descriptors_than_allowed_are_closed) {
  if (const auto why = testing::why_no_report_of_lost_descriptors(); !why.empty())
    GTEST_SKIP() << why;
  const std::size_t before = open_descriptors();
  std::vector<int> fds(kMaxMessageFds + 10, 0);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (kMaxMessageFds + 10))] = {};
  char byte = 'x';
  iovec part{&byte, 1};
  msghdr message{
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
  std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  ASSERT_EQ(::sendmsg(a().fd(), &message, 0), 1);
  const Status status = b().receive(buffer_).status();
  EXPECT_EQ(status.code(), Code::denied) << status.to_string();
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(LocalSocketTest, a_path_is_found_and_removed_at_the_end) {
  const LocalAddress address{.name = directory_->file("s")};
  EXPECT_EQ(LocalSocket::connect(address).code(), Code::not_found);
  {
    auto listener = LocalListener::listen(address);
    ASSERT_TRUE(listener.ok()) << listener.status().to_string();
    EXPECT_FALSE(*listener->accept()) << "nobody is waiting";
    auto client = LocalSocket::connect(address);
    ASSERT_TRUE(client.ok()) << client.status().to_string();
    auto accepted = listener->accept();
    ASSERT_TRUE(accepted.ok() && *accepted);
    LocalSocket server(std::move(*accepted));
    EXPECT_TRUE(*client->send(as_bytes("hello")));
    EXPECT_EQ(server.receive(buffer_)->size_bytes, 5u);
    EXPECT_EQ(server.peer()->pid, ::getpid());
    EXPECT_EQ(server.peer()->uid, ::getuid());
    EXPECT_EQ(LocalListener::listen(address).code(), Code::already_exists);
    EXPECT_TRUE(std::filesystem::exists(address.name)) << "a failed listen removes nothing";
  }
  EXPECT_FALSE(std::filesystem::exists(address.name));
}

TEST_F(LocalSocketTest, a_path_that_became_someone_elses_stays) {
  const LocalAddress address{.name = directory_->file("s")};
  {
    auto listener = LocalListener::listen(address);
    ASSERT_TRUE(listener.ok());
    std::filesystem::remove(address.name);
    std::filesystem::create_directory(address.name);
  }
  EXPECT_TRUE(std::filesystem::exists(address.name));
}

TEST_F(LocalSocketTest, a_forked_child_that_drops_its_copy_leaves_the_path) {
  const LocalAddress address{.name = directory_->file("s")};
  auto listener = LocalListener::listen(address);
  ASSERT_TRUE(listener.ok());
  EXPECT_TRUE(testing::passes_in_child([&] { const LocalListener copy = *std::move(listener); }));
  EXPECT_TRUE(std::filesystem::exists(address.name));
}

TEST_F(LocalSocketTest, a_listener_without_a_name_is_found_by_its_place_and_not_by_others) {
  auto listener = LocalListener::listen_unnamed();
  ASSERT_TRUE(listener.ok()) << listener.status().to_string();
  EXPECT_FALSE(std::filesystem::exists(listener->address().name));
  const LocalAddress place{.name = cat("/proc/self/fd/", listener->place())};
  auto client = LocalSocket::connect(place);
  ASSERT_TRUE(client.ok()) << client.status().to_string();
  EXPECT_TRUE(*listener->accept());
  if (::geteuid() == 0) {
    EXPECT_TRUE(testing::passes_in_child([&] {
      if (!testing::become_nobody(64 << 10)) GTEST_SKIP() << testing::kNoNobody;
      ::prctl(PR_SET_DUMPABLE, 1);  // or it could not look into its own descriptors
      ASSERT_GE(Fd(::open(place.name.c_str(), O_PATH)).get(), 0);
      EXPECT_EQ(LocalSocket::connect(place).code(), Code::denied);
    }));
  }
  listener->shut_down();
  EXPECT_EQ(LocalSocket::connect(place).code(), Code::unavailable);
}

TEST_F(LocalSocketTest, abstract_names_may_hold_any_bytes) {
  const LocalAddress address{.name = cat("towpath", std::string(1, '\0'), random_u64()),
                             .abstract = true};
  EXPECT_EQ(LocalSocket::connect(address).code(), Code::unavailable);
  auto listener = LocalListener::listen(address, SocketKind::stream);
  ASSERT_TRUE(listener.ok()) << listener.status().to_string();
  auto client = connect_stream(address);
  ASSERT_TRUE(client.ok()) << client.status().to_string();
  auto accepted = listener->accept();
  ASSERT_TRUE(accepted.ok() && *accepted);
  auto server = make_socket_stream(std::move(*accepted));
  EXPECT_EQ(*(*client)->write_some(as_bytes("stream")), 6u);
  EXPECT_EQ(server->read_some(buffer_)->size_bytes, 6u);
  EXPECT_EQ(peer_credentials(server->fd())->pid, ::getpid());
  EXPECT_FALSE(LocalSocket::connect(address).ok()) << "a stream is no message socket";
}

TEST_F(LocalSocketTest, names_that_cannot_be_are_refused) {
  for (const std::string& name : {std::string(), std::string(108, 'n'), std::string("a\0b", 3)})
    EXPECT_EQ(LocalListener::listen({.name = name}).code(), Code::invalid_argument);
  EXPECT_EQ(peer_credentials(-1).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::sys
