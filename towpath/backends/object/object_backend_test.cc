// The backend against a store that checks signatures, without faults: names, styles, queries,
// checksums. The conformance suite holds it to the contract.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/object/testing/object_fixture.h>

namespace towpath::backends::object {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ObjectBackendTest : public testing::ObjectFixture {
 protected:
  void round_trip(const std::string& key) {
    SCOPED_TRACE(key);
    backend::Memory* const there = object(key, 1000);
    const auto written = write({segment(there, 0, 1000, 500)});
    EXPECT_TRUE(written.status.ok()) << written.status.to_string();
    const Bytes expected(memory.begin() + 500, memory.begin() + 1500);
    std::fill_n(memory.begin() + 500, 1000, std::byte{0});
    const auto got = read({segment(there, 0, 1000, 500)});
    EXPECT_TRUE(got.status.ok()) << got.status.to_string();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), memory.begin() + 500));
  }
};

TEST_F(ObjectBackendTest, keys_may_hold_anything) {
  for (const char* key :
       {"plain", "a b", "\xc3\xbc+~%2F", "a//b", "x/../y", "q?r=s&t#u", "=*'()!$,;:@"})
    round_trip(key);
}

TEST_F(ObjectBackendTest, other_ways_of_asking_work_too) {
  round_trip("signed");
  open({{"sign_payload", "false"}});
  round_trip("unsigned");
  open({{"req_checksum", "supported"}, {"resp_checksum", "supported"}});
  round_trip("with checksums");
  open({{"session_token", "of nobody's interest"}});
  round_trip("with a token");
}

TEST_F(ObjectBackendTest, buckets_may_be_names_of_hosts) {
  const std::string port = proxy->url().substr(proxy->url().rfind(':'));
  open({{"endpoint_override", "http://localhost" + port}, {"use_virtual_addressing", "true"}});
  round_trip("a");
  EXPECT_THAT(proxy->heads.back(), HasSubstr(cat(": ", testing::kBucket, ".localhost")));
}

TEST_F(ObjectBackendTest, checksum_of_the_whole_is_asked_for_and_a_longer_object_is_read_by_range) {
  open({{"resp_checksum", "supported"}});
  ASSERT_TRUE(store->put(name("long"), Bytes(5000, std::byte{9})).ok());
  const auto outcome = read({segment(object("long", 1000), 0, 1000)});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.to_string();
  ASSERT_EQ(proxy->heads.size(), 2U);
  EXPECT_THAT(proxy->heads[0], HasSubstr("x-amz-checksum-mode: ENABLED"));
  EXPECT_THAT(proxy->heads[1], HasSubstr("range: bytes=0-999"));
  EXPECT_EQ(memory[999], std::byte{9});
}

TEST_F(ObjectBackendTest,
       checksum_is_asked_for_of_all_that_one_request_puts_though_parts_are_shorter) {
  open({{"resp_checksum", "supported"}, {"part_bytes", "64K"}, {"multipart_bytes", "256K"}});
  ASSERT_TRUE(store->put(name("whole"), Bytes(200'000, std::byte{9})).ok());
  const auto outcome = read({segment(object("whole", 200'000), 0, 200'000)});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.to_string();
  ASSERT_EQ(proxy->heads.size(), 1U);
  EXPECT_THAT(proxy->heads[0], HasSubstr("x-amz-checksum-mode: ENABLED"));
  EXPECT_EQ(memory[199'999], std::byte{9});
}

TEST_F(ObjectBackendTest, objects_are_queried_in_their_order) {
  open({{"endpoint_override", testing::swift().url()}});  // a query waits, and nobody would pump
  ASSERT_TRUE(store->put(name("there"), Bytes(123)).ok());
  const auto asked = [&](MemoryKind kind, const std::string& key) {
    return RegionDescriptor{.kind = kind, .key = own(key)};
  };
  const std::vector<RegionDescriptor> all = {asked(MemoryKind::object, "gone"),
                                             asked(MemoryKind::object, "there"),
                                             asked(MemoryKind::system, "there")};
  const auto answers = backend->query(all);
  ASSERT_TRUE(answers.ok()) << answers.status().to_string();
  EXPECT_FALSE((*answers)[0].has_value());
  ASSERT_TRUE((*answers)[1].has_value());
  EXPECT_EQ((*answers)[1]->at("size"), "123");
  EXPECT_FALSE((*answers)[1]->at("etag").empty());
  EXPECT_FALSE((*answers)[2].has_value());
}

TEST_F(ObjectBackendTest, a_query_that_cannot_be_answered_names_the_descriptor) {
  open({{"endpoint_override", testing::swift().url()}, {"secret_key", "wrong"}});
  const std::vector<RegionDescriptor> all = {{.kind = MemoryKind::system},
                                             {.kind = MemoryKind::object, .key = "k"}};
  const auto answers = backend->query(all);
  EXPECT_EQ(answers.code(), Code::denied);
  EXPECT_THAT(answers.status().to_string(), HasSubstr("descriptor 1 of 2"));
}

TEST_F(ObjectBackendTest, one_device_id_stands_for_one_object) {
  const auto region = [](const char* key) {
    return RegionDescriptor{.kind = MemoryKind::object, .length = 1, .device_id = 99, .key = key};
  };
  auto first = backend->register_memory(region("a"));
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(backend->register_memory(region("a")).ok()) << "the same twice";
  EXPECT_EQ(backend->register_memory(region("b")).code(), Code::already_exists);
  first->reset();
  EXPECT_TRUE(backend->register_memory(region("b")).ok());
}

TEST_F(ObjectBackendTest, memory_of_others_and_other_peers_are_refused) {
  EXPECT_EQ(backend->register_memory({.kind = MemoryKind::disk, .length = 1}).code(),
            Code::unsupported);
  EXPECT_EQ(backend->register_memory({.kind = MemoryKind::object, .length = 0}).code(),
            Code::invalid_argument);
  EXPECT_EQ(backend->connect({"other", 1}, {}).code(), Code::unsupported);
  EXPECT_EQ(backend->connect(self, Bytes(1)).code(), Code::corrupt);
  const RegionDescriptor region{.kind = MemoryKind::object, .length = 10, .key = "k"};
  EXPECT_EQ(backend->import_memory(*connection, region, Bytes(3)).code(), Code::corrupt);
  EXPECT_EQ(backend->import_memory(*connection, region, Bytes(8)).code(), Code::not_found);
}

TEST_F(ObjectBackendTest, findings_say_who_we_are_and_whether_the_store_answers) {
  const backend::BackendType type = object_type([] { return Result(testing::swift().params()); });
  for (const auto& [secret, verdict] : {std::pair{"testing", Verdict::yes}, {"no", Verdict::no}}) {
    const auto findings = type.probe({{"access_key", "test:tester"}, {"secret_key", secret}});
    ASSERT_EQ(findings.size(), 2U);
    EXPECT_THAT(findings[0].reason, AllOf(HasSubstr("test:tester"), HasSubstr("***")));
    EXPECT_EQ(findings[1].verdict, verdict) << findings[1].reason;
  }
  EXPECT_EQ(object_type().probe({})[1].verdict, Verdict::unknown) << "Amazon is not asked unasked";
}

TEST_F(ObjectBackendTest, the_way_is_described) {
  EXPECT_THAT(backend->describe_path(*local, *object("k", 10)),
              AllOf(HasSubstr(proxy->url()), HasSubstr("s3://towpath-test/")));
}

}  // namespace
}  // namespace towpath::backends::object
