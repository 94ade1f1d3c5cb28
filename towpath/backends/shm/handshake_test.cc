#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/backends/shm/handshake.h>
#include <towpath/wire/envelope.h>

namespace towpath::backends::shm {
namespace {

ShmInfo some_info() {
  ShmInfo info;
  info.host = *read_host_facts();
  info.socket_token = {1, 2};
  info.registrations = {.fd = 5, .device = 1, .inode = 9};
  info.pieces = {.fd = 6, .device = 1, .inode = 10};
  info.incarnation = 77;
  return info;
}

Bytes sealed_info(ConstByteSpan fields) {
  return wire::seal({wire::MessageType::connection_info, 2}, fields);
}

TEST(HandshakeTest, info_survives_the_way) {
  const ShmInfo info = some_info();
  const auto back = decode_info(encode(info));
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, info);
  EXPECT_EQ(back->host.pid, static_cast<std::uint32_t>(getpid()));
  ShmInfo with_token = info;
  with_token.token_address = 0x7f00'1234'5678;
  with_token.door = {.fd = 7, .device = 1, .inode = 11};
  EXPECT_EQ(*decode_info(encode(with_token)), with_token);
}

TEST(HandshakeTest, info_that_was_cut_or_grew_is_refused) {
  const Bytes good = encode(some_info());
  for (std::size_t size = 0; size < good.size(); ++size)
    ASSERT_EQ(decode_info(ConstByteSpan(good).first(size)).code(), Code::corrupt) << size;
  Bytes longer = good;
  longer.emplace_back();
  EXPECT_EQ(decode_info(longer).code(), Code::corrupt);
  // Nor is it enough that the envelope is whole.
  const auto payload = ConstByteSpan(good).subspan(wire::kHeaderBytes);
  EXPECT_TRUE(decode_info(sealed_info(payload)).ok());
  for (std::size_t size = 0; size < payload.size(); ++size)
    ASSERT_EQ(decode_info(sealed_info(payload.first(size))).code(), Code::corrupt) << size;
}

TEST(HandshakeTest, impossible_fields_are_refused) {
  ShmInfo info = some_info();
  info.host.pid = 0;
  EXPECT_EQ(decode_info(encode(info)).code(), Code::corrupt);
  Bytes turned = encode(some_info());
  turned.back() ^= std::byte{1};
  EXPECT_EQ(decode_info(turned).code(), Code::corrupt) << "the checksum";
  const Bytes newer = wire::seal({wire::MessageType::connection_info, 3}, {});
  EXPECT_EQ(decode_info(newer).code(), Code::unsupported);
  const Bytes older = wire::seal({wire::MessageType::connection_info, 1}, {});
  EXPECT_EQ(decode_info(older).code(), Code::unsupported);
  EXPECT_NE(decode_info(older).status().message().find("version 1"), std::string::npos);
}

TEST(HandshakeTest, key_survives_the_way) {
  ShmKey key{.address = 4096, .length = 10, .slot = 3, .generation = 4, .shared = {}};
  for (int i = 0; i < 3; ++i) {
    const auto back = decode_key(encode(key));
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(*back, key);
    key.shared = {.file = {.fd = 6, .device = 1, .inode = 9}, .offset = 8};
    if (i == 0) continue;
    key.device = {.memory = {.handle = {}, .offset = 7, .size_bytes = 17}, .pci_address = "17:0"};
    key.device->memory.handle.bytes.fill(std::byte{5});
  }
}

TEST(HandshakeTest, a_key_of_nonsense_is_refused) {
  const auto code_of = [](const ShmKey& bad) { return decode_key(encode(bad)).code(); };
  EXPECT_EQ(code_of({.address = 0, .length = 1, .shared = {}}), Code::corrupt);
  EXPECT_EQ(code_of({.address = 1, .length = 0, .shared = {}}), Code::corrupt);
  EXPECT_EQ(code_of({.address = UINT64_MAX, .length = 2, .shared = {}}), Code::corrupt);
  const FileExtent behind_all{.file = {}, .offset = UINT64_MAX};
  EXPECT_EQ(code_of({.address = 1, .length = 2, .shared = behind_all}), Code::corrupt);
  const DeviceExtent too_short{.memory = {.handle = {}, .offset = 7, .size_bytes = 8}};
  EXPECT_EQ(code_of({.address = 1, .length = 2, .device = too_short}), Code::corrupt);
  EXPECT_EQ(decode_key(encode(some_info())).code(), Code::corrupt);
  // A file without an offset: the last field, a number of one byte, cut off.
  const Bytes good = encode(ShmKey{.address = 1, .length = 2, .shared = FileExtent{}});
  const auto payload = ConstByteSpan(good).subspan(wire::kHeaderBytes);
  const auto seal_key = [](ConstByteSpan fields) {
    return wire::seal({wire::MessageType::memory_key, 1}, fields);
  };
  EXPECT_TRUE(decode_key(seal_key(payload)).ok());
  EXPECT_EQ(decode_key(seal_key(payload.first(payload.size() - 4))).code(), Code::corrupt);
}

TEST(HandshakeTest, hello_carries_any_name_up_to_the_limit) {
  const auto hello_of = [](const std::string& name, std::uint64_t incarnation) {
    return encode_hello({.from = {name, incarnation}, .ring = {}});
  };
  const Hello self{.from = {std::string("a\0b", 3), 5},
                   .ring = FileRef{.fd = 3, .device = 4, .inode = 5}};
  const auto back = decode_hello(*encode_hello(self));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, self);
  EXPECT_TRUE(decode_hello(*hello_of(std::string(kMaxAgentName, 'x'), 5)).ok());
  EXPECT_EQ(hello_of(std::string(kMaxAgentName + 1, 'x'), 5).code(), Code::out_of_range);
  EXPECT_EQ(decode_hello(*hello_of("", 5)).code(), Code::corrupt);
  EXPECT_EQ(decode_hello(*hello_of("x", 0)).code(), Code::corrupt);
  EXPECT_EQ(decode_hello({}).code(), Code::corrupt);
}

TEST(HandshakeTest, each_fact_that_separates_hosts_is_named) {
  const HostFacts here = some_info().host;
  EXPECT_TRUE(check_same_host(here, here).ok());
  HostFacts there = here;
  there.boot_id[0] ^= 1;
  EXPECT_NE(check_same_host(here, there).message().find("host"), std::string_view::npos);
  there = here;
  ++there.pid_namespace;
  EXPECT_NE(check_same_host(here, there).message().find("pid namespace"), std::string_view::npos);
  there = here;
  ++there.network_namespace;
  EXPECT_EQ(check_same_host(here, there).code(), Code::unsupported);
}

}  // namespace
}  // namespace towpath::backends::shm
