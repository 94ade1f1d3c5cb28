// A kernel that can make records of TLS is rare; tests/qemu runs these in one that can.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/test_connections.h>
#include <towpath/net/tls/kernel_records.h>
#include <towpath/net/tls/tls_library.h>
#include <towpath/net/tls/tls_stream.h>

namespace towpath::net {
namespace {

using Stream = std::unique_ptr<sys::ByteStream>;
using testing::HasSubstr;

std::string to_hex(std::span<const unsigned char> bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

TEST(TrafficSecretTest, keys_are_those_of_rfc_8448) {
  TrafficSecret secret;
  ASSERT_TRUE(secret.parse("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"));
  std::array<unsigned char, 16> key{};
  std::array<unsigned char, 12> nonce{};
  secret.expand("key", key);
  secret.expand("iv", nonce);
  EXPECT_EQ(to_hex(key), "17422dda596ed5d9acd890e3c63f5051");
  EXPECT_EQ(to_hex(nonce), "5b78923dee08579033e523d9");
  EXPECT_EQ(to_hex(secret.next().bytes()),
            "fcdfcc72725aaee48bf64e4fd8b749cdbdbab39d90da0b26e2245ca6ea167207");
}

TEST(TrafficSecretTest, what_is_no_secret_is_not_taken) {
  TrafficSecret secret;
  for (const std::string& text :
       {std::string(), std::string(62, 'a'), std::string(64, 'g'), std::string(66, 'a')}) {
    EXPECT_FALSE(secret.parse(text)) << text;
    EXPECT_TRUE(secret.empty());
  }
}

TEST(KernelTlsTest, a_kernel_that_cannot_says_why) {
  const Status can = can_kernel_do_tls();
  if (can.ok()) GTEST_SKIP() << "this one can";
  EXPECT_EQ(can.code(), Code::unsupported) << can.to_string();
  EXPECT_THAT(can.to_string(), HasSubstr("ktls=on"));
}

std::pair<sys::Fd, sys::Fd> connected() {
  const sys::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place = ipv4("127.0.0.1", 0);
  socklen_t size = sizeof place;
  EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&place), size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&place), &size), 0);
  sys::Fd near = connect_from("127.0.0.1", place);
  sys::Fd far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(far);
  return {std::move(near), std::move(far)};
}

/// Bytes between two sockets, which it keeps; one byte of them may be altered.
class Relay {
 public:
  Relay(sys::Fd from, sys::Fd to) : from_(std::move(from)), to_(std::move(to)) {}
  void carry() {
    move(from_, to_, true);
    move(to_, from_, false);
  }
  /// Waits for what comes next, and takes so many bytes of it at most.
  void carry_there(std::size_t most) {
    pollfd coming{from_.get(), POLLIN, 0};
    EXPECT_EQ(::poll(&coming, 1, 10'000), 1);
    move(from_, to_, true, most);
  }
  /// The byte with this number of what comes next, or the last one.
  void alter_next(std::size_t number = SIZE_MAX) { altered_ = number; }
  const std::string& seen() const { return seen_; }

 private:
  void move(const sys::Fd& from, const sys::Fd& to, bool may_alter, std::size_t most = SIZE_MAX) {
    const ssize_t got =
        ::recv(from.get(), bytes_.data(), std::min(most, bytes_.size()), MSG_DONTWAIT);
    if (got <= 0) return;
    if (may_alter && altered_) {
      const auto last = static_cast<std::size_t>(got) - 1;
      bytes_[std::min(*std::exchange(altered_, std::nullopt), last)] ^= 1;
    }
    seen_.append(bytes_.data(), static_cast<std::size_t>(got));
    EXPECT_EQ(::send(to.get(), bytes_.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL), got);
  }
  sys::Fd from_, to_;
  std::array<char, 1000> bytes_{};
  std::optional<std::size_t> altered_;
  std::string seen_;
};

/// What makes the records of the client, and of the server.
using Makers = std::pair<TlsRecords, TlsRecords>;

const char* name_of(TlsRecords records) {
  return records == TlsRecords::by_kernel ? "kernel" : "library";
}

class KernelTlsPairTest : public ::testing::TestWithParam<Makers> {
 protected:
  void SetUp() override {
    if (const Status can = can_kernel_do_tls(); !can.ok()) GTEST_SKIP() << can.to_string();
  }

  static Stream side(TlsRole role, TlsRecords records, sys::Fd socket,
                     std::uint64_t records_per_key) {
    auto library = std::make_shared<TlsContext::Library>(records);
    use_pre_shared_key(*library, SymmetricKey{});
    TlsStreamParts parts{.context = nullptr,
                         .library = library.get(),
                         .inner = sys::make_socket_stream(std::move(socket)),
                         .role = role,
                         .host = "host",
                         .records_per_key = records_per_key};
    libraries().push_back(std::move(library));
    return make_tls_stream(std::move(parts));
  }
  void open(sys::Fd near, sys::Fd far, std::uint64_t records_per_key = 1U << 23U) {
    near_ = side(TlsRole::client, GetParam().first, std::move(near), records_per_key);
    far_ = side(TlsRole::server, GetParam().second, std::move(far), records_per_key);
  }
  void open(std::uint64_t records_per_key = 1U << 23U) {
    auto [near, far] = connected();
    open(std::move(near), std::move(far), records_per_key);
  }

  std::unique_ptr<Relay> open_over_relay() {
    auto [near, near_wire] = connected();
    auto [far_wire, far] = connected();
    open(std::move(near), std::move(far));
    return std::make_unique<Relay>(std::move(near_wire), std::move(far_wire));
  }

  /// What came, until it is all or either side fails. Both directions at once.
  void talk(std::string_view there, std::string_view back, Relay* relay = nullptr) {
    std::size_t sent_there = 0, sent_back = 0;
    std::string heard_there, heard_back;
    for (int idle = 0; idle < 20'000 && failed_.ok(); ++idle) {
      const std::size_t before = sent_there + sent_back + heard_there.size() + heard_back.size();
      send(*near_, there, sent_there);
      send(*far_, back, sent_back);
      if (relay != nullptr) relay->carry();
      hear(*far_, heard_there);
      hear(*near_, heard_back);
      if (heard_there == there && heard_back == back) return;
      if (before != sent_there + sent_back + heard_there.size() + heard_back.size()) idle = 0;
    }
    EXPECT_FALSE(failed_.ok()) << "nothing moves: " << sent_there << " and " << sent_back
                               << " were sent, " << heard_there.size() << " and "
                               << heard_back.size() << " heard";
  }

  Stream near_, far_;
  Status failed_;

 private:
  static std::vector<std::shared_ptr<TlsContext::Library>>& libraries() {
    static std::vector<std::shared_ptr<TlsContext::Library>> all;
    return all;
  }
  void send(sys::ByteStream& stream, std::string_view text, std::size_t& sent) {
    if (sent == text.size()) return;
    const ConstByteSpan rest = as_bytes(text.substr(sent));
    const std::array parts{rest.first(std::min<std::size_t>(rest.size(), 10)),
                           rest.subspan(std::min<std::size_t>(rest.size(), 10))};
    const auto size = stream.write_parts(std::span(parts).first(parts[1].empty() ? 1 : 2));
    note(size.status());
    if (size.ok()) sent += *size;
  }
  void hear(sys::ByteStream& stream, std::string& heard) {
    Bytes into(50'000);
    const std::array parts{ByteSpan(into).first(7), ByteSpan(into).subspan(7)};
    const auto read = stream.read_parts(parts);
    note(read.status());
    if (read.ok()) heard += as_text(ConstByteSpan(into).first(read->size_bytes));
  }
  void note(const Status& status) {
    if (failed_.ok()) failed_ = status;
  }
};

std::string long_text(std::size_t bytes) {
  std::string text(bytes, 0);
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
  return text;
}

TEST_P(KernelTlsPairTest, both_hear_each_other) {
  open();
  talk(long_text(400'000), long_text(300'001));
  EXPECT_TRUE(failed_.ok()) << failed_.to_string();
  EXPECT_EQ(near_->moves_by_kernel(), GetParam().first == TlsRecords::by_kernel);
  EXPECT_EQ(far_->moves_by_kernel(), GetParam().second == TlsRecords::by_kernel);
}

TEST_P(KernelTlsPairTest, both_sides_renew_their_keys_again_and_again) {
  open(5);
  for (std::size_t round = 0; round < 40; ++round) talk(long_text(20'000), long_text(30'000));
  EXPECT_TRUE(failed_.ok()) << failed_.to_string();
}

TEST_P(KernelTlsPairTest, nothing_plain_and_nothing_altered_gets_through) {
  const auto relay = open_over_relay();
  talk("hello", "and back", relay.get());
  ASSERT_TRUE(failed_.ok()) << failed_.to_string();
  EXPECT_EQ(relay->seen().find("and back"), std::string::npos);
  relay->alter_next();
  talk(long_text(1000), "", relay.get());
  EXPECT_EQ(failed_.code(), Code::corrupt) << failed_.to_string();
  Bytes into(100);
  EXPECT_EQ(far_->read_some(into).code(), Code::corrupt) << "and it stays so";
}

/// Which the kernel does not even try to open.
TEST_P(KernelTlsPairTest, what_is_no_record_is_corrupt) {
  for (const std::size_t number : {1, 2, 3}) {  // the version, and the length
    const auto relay = open_over_relay();
    talk("hello", "and back", relay.get());
    ASSERT_TRUE(failed_.ok()) << failed_.to_string();
    relay->alter_next(number);
    talk(long_text(900), "", relay.get());
    EXPECT_EQ(std::exchange(failed_, Status()).code(), Code::corrupt) << number;
  }
}

bool is_readable(const sys::ByteStream& stream, int milliseconds) {
  pollfd socket{stream.fd(), POLLIN, 0};
  return ::poll(&socket, 1, milliseconds) == 1;
}

/// A loop that polls would be woken again and again, and could read nothing.
TEST_P(KernelTlsPairTest, half_a_record_wakes_nobody_for_whom_the_kernel_opens_it) {
  const auto relay = open_over_relay();
  talk("hello", "and back", relay.get());
  ASSERT_TRUE(failed_.ok()) << failed_.to_string();
  const std::string text = long_text(900);
  ASSERT_EQ(near_->write_some(as_bytes(text)).value(), text.size());
  for (const std::size_t part : {3, 400}) {  // of the header, and of the record
    relay->carry_there(part);
    const bool by_kernel = far_->moves_by_kernel();
    EXPECT_EQ(is_readable(*far_, by_kernel ? 0 : 10'000), !by_kernel) << part;
  }
  relay->carry();
  EXPECT_TRUE(is_readable(*far_, 10'000));
  // The library is woken by the half that was there, and may read before the rest is.
  Bytes into(1000);
  auto got = far_->read_some(into);
  while (got.ok() && got->size_bytes == 0 && !got->ended && is_readable(*far_, 10'000))
    got = far_->read_some(into);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(got->size_bytes, text.size());
}

TEST_P(KernelTlsPairTest, side_that_ends_is_heard_to_the_end) {
  open();
  talk("hello", "and back");
  ASSERT_EQ(near_->write_some(as_bytes("farewell")).value(), 8U);
  near_.reset();
  Bytes into(100);
  EXPECT_EQ(far_->read_some(into)->size_bytes, 8U);
  EXPECT_TRUE(far_->read_some(into)->ended);
}

/// Its end may be here before the kernel was asked to take over, which it then refuses to do.
TEST_P(KernelTlsPairTest, side_that_has_ended_before_the_records_are_taken_over_is_heard) {
  open();
  EXPECT_EQ(near_->write_some(as_bytes("farewell")).value(), 0U) << "the handshake comes first";
  Bytes into(100);
  EXPECT_EQ(far_->read_some(into)->size_bytes, 0U);
  ASSERT_EQ(near_->write_some(as_bytes("farewell")).value(), 8U);
  near_.reset();
  const auto heard = far_->read_some(into);
  ASSERT_TRUE(heard.ok()) << heard.status().to_string();
  EXPECT_EQ(as_text(ConstByteSpan(into).first(heard->size_bytes)), "farewell");
  EXPECT_TRUE(far_->read_some(into)->ended);
}

TEST_P(KernelTlsPairTest, memory_that_is_not_there_is_no_fault_of_the_connection) {
  if (GetParam().first == TlsRecords::by_library) GTEST_SKIP() << "OpenSSL touches it itself";
  open();
  talk("hello", "and back");
  const std::size_t size = 1U << 16U;
  void* const nothing = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const ByteSpan memory(static_cast<std::byte*>(nothing), size);
  EXPECT_EQ(near_->write_some(memory).code(), Code::out_of_range);
  ASSERT_EQ(far_->write_some(as_bytes("into nothing")).value(), 12U);
  EXPECT_EQ(near_->read_some(memory).code(), Code::out_of_range);
  Bytes into(100);
  EXPECT_EQ(near_->read_some(into)->size_bytes, 12U) << "nothing was taken";
  talk("still", "there");
  EXPECT_TRUE(failed_.ok()) << failed_.to_string();
  ::munmap(nothing, size);
}

INSTANTIATE_TEST_SUITE_P(Makers, KernelTlsPairTest,
                         ::testing::Values(Makers{TlsRecords::by_kernel, TlsRecords::by_kernel},
                                           Makers{TlsRecords::by_kernel, TlsRecords::by_library},
                                           Makers{TlsRecords::by_library, TlsRecords::by_kernel}),
                         [](const auto& makers) {
                           return cat(name_of(makers.param.first), "_to_",
                                      name_of(makers.param.second));
                         });

}  // namespace
}  // namespace towpath::net
