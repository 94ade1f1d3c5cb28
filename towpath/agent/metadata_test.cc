#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/metadata.h>
#include <towpath/wire/testing/sample.h>

namespace towpath::agent {
namespace {

AgentMetadata sample() {
  AgentMetadata metadata{.identity = {"prefill/0", 77}, .generation = 3, .partial = true};
  metadata.backends = {{"shm", to_bytes("how to connect")}, {"posix", {}}};
  metadata.regions.push_back(
      {.region = {.kind = MemoryKind::system, .address = 0x1000, .length = 4096},
       .keys = {{0, to_bytes("key")}, {1, {}}}});
  metadata.regions.push_back({.region = {.kind = MemoryKind::object,
                                         .address = 0,
                                         .length = 10,
                                         .device_id = 9,
                                         .key = "bucket/object"},
                              .keys = {}});
  return metadata;
}

TEST(AgentMetadataTest, comes_back_as_it_was) {
  const AgentMetadata metadata = sample();
  const auto again = decode_metadata(*encode(metadata));
  ASSERT_TRUE(again.ok()) << again.status().to_string();
  EXPECT_EQ(again->identity, metadata.identity);
  EXPECT_EQ(again->generation, 3U);
  EXPECT_TRUE(again->partial);
  ASSERT_EQ(again->backends.size(), 2U);
  EXPECT_EQ(again->backends[0].connection_info, metadata.backends[0].connection_info);
  ASSERT_EQ(again->regions.size(), 2U);
  EXPECT_EQ(again->regions[0].keys, metadata.regions[0].keys);
  EXPECT_EQ(again->regions[1].region.kind, MemoryKind::object);
  EXPECT_EQ(again->regions[1].region.device_id, 9U);
  EXPECT_EQ(again->regions[1].region.key, "bucket/object");
}

TEST(AgentMetadataTest, what_makes_no_sense_is_refused) {
  const auto code = [](auto change) {
    AgentMetadata metadata = sample();
    change(metadata);
    const auto bytes = encode(metadata);
    return bytes.ok() ? decode_metadata(*bytes).code() : bytes.code();
  };
  EXPECT_EQ(code([](AgentMetadata& metadata) { metadata.identity.incarnation = 0; }),
            Code::corrupt);
  EXPECT_EQ(code([](AgentMetadata& metadata) { metadata.generation = 0; }), Code::corrupt);
  EXPECT_EQ(code([](AgentMetadata& metadata) { metadata.identity.name.clear(); }), Code::corrupt);
  EXPECT_EQ(code([](AgentMetadata& metadata) { metadata.identity.name.resize(20000); }),
            Code::out_of_range);
  EXPECT_EQ(code([](AgentMetadata& metadata) { metadata.regions[0].region.length = 0; }),
            Code::corrupt);
  EXPECT_EQ(code([](AgentMetadata& metadata) { metadata.regions[0].region.address = UINT64_MAX; }),
            Code::corrupt);
  EXPECT_EQ(code([](AgentMetadata& metadata) { metadata.regions[0].keys[0].first = 2; }),
            Code::corrupt);
  EXPECT_EQ(code([](AgentMetadata& metadata) {
              metadata.regions[0].region.kind = static_cast<MemoryKind>(9);
            }),
            Code::corrupt);
}

/// A pool of equal blocks, each with keys that differ in a byte or two.
AgentMetadata pool_of(std::uint64_t regions) {
  AgentMetadata metadata{.identity = {"prefill/0", 77}, .generation = 3};
  metadata.backends = {{"shm", to_bytes("how to connect")}, {"ucx", to_bytes("how else")}};
  for (std::uint64_t i = 0; i < regions; ++i) {
    const std::string key = "key of region " + std::to_string(10'000 + i);
    metadata.regions.push_back(
        {.region = {.address = 0x7f0000000000 + 8192 * i, .length = 4096},
         .keys = {{0, to_bytes("shm " + key)}, {1, to_bytes("ucx " + key)}}});
  }
  return metadata;
}

void expect_same_regions(const AgentMetadata& a, const AgentMetadata& b) {
  ASSERT_EQ(a.regions.size(), b.regions.size());
  for (std::size_t i = 0; i < a.regions.size(); ++i) {
    ASSERT_EQ(to_string(a.regions[i].region), to_string(b.regions[i].region)) << i;
    ASSERT_EQ(a.regions[i].keys, b.regions[i].keys) << i;
  }
}

TEST(AgentMetadataTest, a_region_like_the_one_before_takes_few_bytes) {
  const AgentMetadata metadata = pool_of(1000);
  const Bytes bytes = *encode(metadata);
  EXPECT_LT(bytes.size(), 1000 * 20U);
  expect_same_regions(*decode_metadata(bytes), metadata);
}

TEST(AgentMetadataTest, regions_in_any_order_and_of_any_shape_come_back) {
  AgentMetadata metadata = pool_of(100);
  std::swap(metadata.regions[3], metadata.regions[90]);
  metadata.regions[50].keys.pop_back();
  metadata.regions[51].keys[0].second.clear();
  metadata.regions[60].region = {.kind = MemoryKind::disk,
                                 .address = 0,
                                 .length = UINT64_MAX,
                                 .device_id = UINT64_MAX,
                                 .key = std::string(4096, 'x')};
  expect_same_regions(*decode_metadata(*encode(metadata)), metadata);
}

TEST(AgentMetadataTest, more_than_the_format_takes_is_refused_when_written) {
  AgentMetadata metadata = pool_of(1);
  metadata.regions[0].region.key = std::string(4097, 'x');
  EXPECT_EQ(encode(metadata).code(), Code::out_of_range);
  metadata = pool_of(1);
  metadata.regions[0].keys[0].second.resize(kMaxRegionKey + 1);
  EXPECT_EQ(encode(metadata).code(), Code::out_of_range);
}

// A row says a bit for each byte of a key that it repeats: what it becomes is bounded too.
TEST(AgentMetadataTest, a_small_metadata_does_not_become_gigabytes) {
  AgentMetadata metadata = pool_of(1);
  metadata.regions[0].keys = {{0, Bytes(kMaxRegionKey)}};
  metadata.regions.resize(20'000, metadata.regions[0]);
  const Bytes bytes = *encode(metadata);
  EXPECT_LT(bytes.size(), std::size_t{64} << 20U);
  EXPECT_EQ(decode_metadata(bytes).code(), Code::out_of_range);
}

/// What version 1 wrote of sample(): a record of fields for each region.
constexpr std::string_view kMetadataOfVersion1 =
    "544f5750010020000100010000000000c30000000000000079b837672fba06640180020900000070"
    "726566696c6c2f300280014d03800103048001010580031f0000000180020300000073686d028002"
    "0e000000686f7720746f20636f6e6e6563740580031300000001800205000000706f736978028002"
    "000000000680033500000001800100028001802003800180200680030e0000000180010002800203"
    "0000006b65790680030b000000018001010280020000000006800324000000018001040280010003"
    "80010a048001090580020d0000006275636b65742f6f626a656374";

TEST(AgentMetadataTest, metadata_of_version_1_are_still_read) {
  const Bytes old = wire::testing::from_hex(kMetadataOfVersion1);
  const auto metadata = decode_metadata(old);
  ASSERT_TRUE(metadata.ok()) << metadata.status().to_string();
  expect_same_regions(*metadata, sample());
}

TEST(AgentMetadataTest, every_truncation_and_every_flipped_bit_is_refused) {
  const Bytes good = *encode(sample());
  for (std::size_t length = 0; length < good.size(); ++length)
    ASSERT_FALSE(decode_metadata(ConstByteSpan(good).first(length)).ok()) << length;
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    ASSERT_FALSE(decode_metadata(bad).ok()) << "bit " << bit;
  }
}

}  // namespace
}  // namespace towpath::agent
