#include <gtest/gtest.h>

#include <towpath/backend/endpoint_table.h>

namespace towpath::backend {
namespace {

const AgentIdentity kA{"a", 7};

class EndpointTableTest : public ::testing::Test {
 protected:
  std::shared_ptr<std::uint64_t> open(const AgentIdentity& identity) {
    return table_.add(identity,
                      [](std::uint64_t id) { return std::make_shared<std::uint64_t>(id); });
  }
  Code code_for(const AgentIdentity& peer, const EndpointAddress& address) {
    return table_.find(peer, encode(address)).code();
  }

  EndpointTable<std::uint64_t> table_{{.table = "exchange", .part = "backend"}, 0x5eed};
};

TEST_F(EndpointTableTest, an_endpoint_is_found_by_what_its_metadata_says) {
  const auto a = open(kA);
  const auto b = open({"b", 8});
  const auto found = table_.find(kA, encode(table_.address_of(*a)));
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(*found, a);
  EXPECT_EQ(table_.alive(), (std::vector{a, b}));
}

TEST_F(EndpointTableTest, each_way_to_be_wrong_has_its_code) {
  const auto a = open(kA);
  const EndpointAddress good = table_.address_of(*a);
  EndpointAddress other = good;
  ++other.table;
  EXPECT_EQ(code_for(kA, other), Code::unsupported);
  other = good;
  ++other.process;
  EXPECT_EQ(code_for(kA, other), Code::unsupported);
  other = good;
  ++other.endpoint;
  EXPECT_EQ(code_for(kA, other), Code::peer_lost);
  EXPECT_EQ(code_for({"c", 7}, good), Code::corrupt);
  EXPECT_EQ(code_for({"a", 8}, good), Code::corrupt);
}

TEST_F(EndpointTableTest, bytes_that_are_no_address_are_refused) {
  const auto a = open(kA);
  const Bytes good = encode(table_.address_of(*a));
  EXPECT_EQ(table_.find(kA, {}).code(), Code::corrupt);
  for (std::size_t i = 0; i < good.size(); ++i) {
    Bytes bad = good;
    bad[i] ^= std::byte{0x10};
    EXPECT_FALSE(table_.find(kA, bad).ok()) << "byte " << i;
    EXPECT_FALSE(table_.find(kA, ConstByteSpan(good).first(i)).ok()) << i << " bytes";
  }
}

TEST_F(EndpointTableTest, what_is_gone_is_reported_and_its_number_not_given_again) {
  auto a = open(kA);
  const EndpointAddress old = table_.address_of(*a);
  a.reset();
  EXPECT_EQ(code_for(kA, old), Code::peer_lost);
  EXPECT_TRUE(table_.alive().empty());
  const auto again = open(kA);
  EXPECT_EQ(code_for(kA, old), Code::peer_lost);
}

}  // namespace
}  // namespace towpath::backend
