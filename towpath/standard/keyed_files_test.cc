// A KeyedStore in real files.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <towpath/core/format.h>
#include <towpath/standard/keyed_files.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

using ::testing::HasSubstr;
using Operation = kv::KeyedStore::Operation;

std::vector<Status> run(kv::KeyedStore& store, Operation operation,
                        std::vector<kv::KeyedStore::Item> items) {
  store.submit(operation, std::move(items));
  pollfd descriptor{.fd = store.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&descriptor, 1, 20'000), 1);
  auto ended = store.take_ended();
  EXPECT_EQ(ended.size(), 1U);
  return std::move(ended.at(0).statuses);
}

TEST(KeyedFilesTest, a_name_s_key_is_the_beginning_of_its_sha_256) {
  // NIST's value for "abc": ba7816bf 8f01cfea 414140de 5dae2223...
  EXPECT_EQ(key_of("abc"), (kv::BlockKey{0xeacf018fbf1678baU, 0x2322ae5dde404141U}));
  EXPECT_NE(key_of("model@0@1"), key_of("model@0@2"));
}

class KeyedFilesOnDiskTest : public ::testing::TestWithParam<bool> {};

TEST_P(KeyedFilesOnDiskTest, blocks_come_back_in_the_next_life) {
  const auto directory = sys::TemporaryDirectory::create().value();
  const KeyedFilesOptions options{
      .directory = directory.file("kv"), .disk_bytes = 64 * kMiB, .direct = GetParam()};
  alignas(4096) static std::array<std::byte, 256 * 4096> bytes, got;
  for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = std::byte(at * 7 >> 3U);
  {
    auto kept = KeyedFiles::open(options);
    ASSERT_TRUE(kept.ok()) << kept.status().to_string();
    EXPECT_EQ((*kept)->blocks_at_opening(), 0U);
    EXPECT_TRUE(run((*kept)->store(), Operation::put, {{key_of("a"), bytes}}).at(0).ok());
    const auto second = KeyedFiles::open(options);
    EXPECT_EQ(second.code(), Code::unavailable) << second.status().to_string();
  }
  auto kept = KeyedFiles::open(options);
  ASSERT_TRUE(kept.ok()) << kept.status().to_string();
  EXPECT_EQ((*kept)->blocks_at_opening(), 1U);
  EXPECT_TRUE(run((*kept)->store(), Operation::get, {{key_of("a"), got}}).at(0).ok());
  EXPECT_EQ(got, bytes);
}

INSTANTIATE_TEST_SUITE_P(All, KeyedFilesOnDiskTest, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "direct" : "page_cache"; });

TEST(KeyedFilesTest, without_a_directory_nothing_is_opened) {
  EXPECT_EQ(KeyedFiles::open({}).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::standard
