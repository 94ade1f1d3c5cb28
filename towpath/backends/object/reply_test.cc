#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/object/listing.h>
#include <towpath/backends/object/reply.h>

namespace towpath::backends::object {
namespace {

using ::testing::HasSubstr;

net::HttpResponse response(int status, std::string_view body = {}) {
  return {.status = status, .headers = {{"x-amz-request-id", "tx17"}}, .body = to_bytes(body)};
}

struct Case {
  int status;
  const char* code;  // null: the store says none
  Code meaning;
  bool again;
};

TEST(ReplyTest, what_a_store_says_has_a_meaning) {
  for (const Case& each : {Case{404, "NoSuchKey", Code::not_found, false},
                           Case{404, "NoSuchBucket", Code::not_found, false},
                           Case{403, "AccessDenied", Code::denied, false},
                           Case{403, "SignatureDoesNotMatch", Code::denied, false},
                           Case{403, "RequestTimeTooSkewed", Code::denied, false},
                           Case{416, "InvalidRange", Code::out_of_range, false},
                           Case{503, "SlowDown", Code::unavailable, true},
                           Case{400, "RequestTimeout", Code::timed_out, true},
                           Case{200, "InternalError", Code::unavailable, true},
                           Case{400, "BadDigest", Code::corrupt, true},
                           Case{400, "SomethingNew", Code::invalid_argument, false},
                           Case{403, nullptr, Code::denied, false},
                           Case{404, nullptr, Code::not_found, false},
                           Case{429, nullptr, Code::unavailable, true},
                           Case{500, nullptr, Code::unavailable, true},
                           Case{502, nullptr, Code::unavailable, true},
                           Case{503, nullptr, Code::unavailable, true},
                           Case{504, nullptr, Code::unavailable, true},
                           Case{507, nullptr, Code::exhausted, false},
                           Case{599, nullptr, Code::io_error, false}}) {
    const std::string code = each.code != nullptr ? each.code : "";
    const StoreError said = read_error(response(
        each.status, code.empty() ? "garbage" : "<Error><Code>" + code + "</Code></Error>"));
    EXPECT_EQ(status_of(said, "GET").code(), each.meaning) << each.status << " " << code;
    EXPECT_EQ(is_worth_a_retry(said), each.again) << each.status << " " << code;
  }
}

TEST(ReplyTest, an_error_names_what_was_asked_and_by_what_the_store_knows_it) {
  const Status status =
      status_of(read_error(response(
                    404, "<Error><Code>NoSuchKey</Code><Message>no\x01such</Message></Error>")),
                "GET s3://b/k");
  EXPECT_EQ(status.message(), "GET s3://b/k: NoSuchKey, status 404: no\\x01such [request tx17]");
  EXPECT_THAT(std::string(status.hint()), HasSubstr("put the object"));
}

TEST(ReplyTest, ranges_are_read_exactly_or_not) {
  EXPECT_EQ(parse_content_range("bytes 5-10/4096"), (ContentRange{5, 10, 4096}));
  EXPECT_EQ(parse_content_range("bytes 0-0/*"), (ContentRange{0, 0, {}}));
  for (const char* bad : {"", "bytes", "bytes 5-10", "5-10/11", "bytes 10-5/20", "bytes 5-10/10",
                          "bytes -1/2", "bytes 1-/2", "bytes 5-10/x", "bytes 5/6-7",
                          "bytes 99999999999999999999-1/2", "bytes */10"})
    EXPECT_EQ(parse_content_range(bad), std::nullopt) << bad;
}

TEST(ListingTest, a_page_has_its_objects_and_where_the_next_begins) {
  const auto page = read_page(
      "<ListBucketResult><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>t&amp;1</NextContinuationToken><Contents><Key>kv/a</Key>"
      "<LastModified>2026-01-02T00:00:00.000Z</LastModified><Size>12</Size></Contents>"
      "<Contents><Key>kv/b</Key><Size>0</Size></Contents></ListBucketResult>");
  ASSERT_TRUE(page.ok()) << page.status().to_string();
  EXPECT_EQ(page->next, "t&1");
  ASSERT_EQ(page->objects.size(), 2U);
  EXPECT_EQ(page->objects[0].key, "kv/a");
  EXPECT_EQ(page->objects[0].bytes, 12U);
  EXPECT_EQ(page->objects[0].modified, "2026-01-02T00:00:00.000Z");
  EXPECT_EQ(read_page("<ListBucketResult/>")->objects.size(), 0U);
}

TEST(ListingTest, what_is_no_list_is_refused) {
  for (const char* bad :
       {"", "<Error><Code>x</Code></Error>",
        "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"})
    EXPECT_EQ(read_page(bad).code(), Code::corrupt) << bad;
}

}  // namespace
}  // namespace towpath::backends::object
