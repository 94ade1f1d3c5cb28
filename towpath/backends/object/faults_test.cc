// What networks, proxies and busy stores do: it is either mended, or an error by its name, and
// never data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/object/testing/object_fixture.h>

namespace towpath::backends::object {
namespace {

using ::testing::AllOf;
using testing::Fault;
using ::testing::HasSubstr;
using ::testing::Not;

class ObjectFaultsTest : public testing::ObjectFixture {
 protected:
  /// Of the first `count` requests that `method` asks.
  void fault(const std::string& method, std::size_t count, const Fault& fault) {
    proxy->choose = [=, met = std::size_t{0}](const std::string& head, std::size_t) mutable {
      return head.starts_with(method) && met++ < count ? fault : Fault();
    };
  }
  Bytes put(const std::string& key, std::size_t size_bytes, unsigned char seed = 1) {
    Bytes bytes(size_bytes);
    for (std::size_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<std::byte>(i * 13 + seed);
    EXPECT_TRUE(store->put(name(key), bytes).ok());
    return bytes;
  }
  bool holds(const Bytes& bytes) const {
    return std::memcmp(memory.data(), bytes.data(), bytes.size()) == 0;
  }
  std::size_t uploads_left() {
    const auto listed =
        store->call({.method = "GET", .name = {testing::kBucket, {}}, .query = {{"uploads", ""}}});
    if (!listed.ok()) return 99;
    const std::string text(as_text(listed->body));
    return text.find(own("")) == std::string::npos ? 0 : 1;
  }
};

TEST_F(ObjectFaultsTest, busy_store_is_asked_again) {
  const Bytes bytes = put("a", 100'000);
  fault("GET", 2, Fault::busy(503, "SlowDown"));
  const auto outcome = read({segment(object("a", 100'000), 0, 100'000)});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.to_string();
  EXPECT_TRUE(holds(bytes));
  EXPECT_EQ(counted("towpath_object_retries_total"), 2U);
  fault("PUT", 2, Fault::busy(500, "InternalError"));
  EXPECT_TRUE(write({segment(object("b", 100'000), 0, 100'000)}).status.ok());
  EXPECT_EQ(in_store("b"), bytes);
}

TEST_F(ObjectFaultsTest, store_that_stays_busy_is_reported_by_its_own_word) {
  open({{"max_attempts", "3"}});
  fault("GET", 99, Fault::busy(503, "SlowDown"));
  const auto outcome = read({segment(object("a", 10), 0, 10)});
  EXPECT_EQ(outcome.status.code(), Code::unavailable);
  ASSERT_EQ(outcome.failures.size(), 1U);
  EXPECT_THAT(std::string(outcome.failures[0].status.message()),
              AllOf(HasSubstr("SlowDown"), HasSubstr("asked 3 times"), HasSubstr(own("a"))));
  EXPECT_EQ(proxy->heads.size(), 3U);
}

TEST_F(ObjectFaultsTest, read_that_is_cut_goes_on_where_it_stopped) {
  const Bytes bytes = put("a", 1'000'000);
  fault("GET", 1, {.kind = Fault::cut, .bytes = 400'000});
  const auto outcome = read({segment(object("a", 1'000'000), 0, 1'000'000)});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.to_string();
  EXPECT_EQ(outcome.bytes, 1'000'000U);
  EXPECT_TRUE(holds(bytes));
  ASSERT_EQ(proxy->heads.size(), 2U);
  EXPECT_THAT(proxy->heads[1], Not(HasSubstr("bytes=0-"))) << "it began anew";
}

TEST_F(ObjectFaultsTest, body_that_stays_short_is_an_error_and_never_data) {
  open({{"max_attempts", "2"}, {"gap_bytes", "0"}});
  const Bytes bytes = put("a", 300'000);
  proxy->choose = [](const std::string& head, std::size_t) {
    return head.find("bytes=0-") == std::string::npos ? Fault{.kind = Fault::cut, .bytes = 600}
                                                      : Fault();
  };
  backend::Memory* const a = object("a", 300'000);
  const auto outcome = read({segment(a, 0, 1000), segment(a, 100'000, 200'000, 1000)});
  EXPECT_EQ(outcome.status.code(), Code::unavailable) << outcome.status.to_string();
  ASSERT_EQ(outcome.failures.size(), 1U);
  EXPECT_EQ(outcome.failures[0].segment, 1U);
  EXPECT_EQ(outcome.bytes, 1000 + outcome.failures[0].bytes);
  EXPECT_LT(outcome.failures[0].bytes, 200'000U);
  EXPECT_EQ(std::memcmp(memory.data(), bytes.data(), 1000), 0);
}

TEST_F(ObjectFaultsTest, garbage_is_no_answer) {
  open({{"max_attempts", "2"}});
  put("a", 10);
  for (const char* text :
       {"\x01\x02 no http\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"}) {
    fault("GET", 99, {.kind = Fault::answer, .text = text});
    const auto outcome = read({segment(object("a", 10), 4, 6)});
    EXPECT_FALSE(outcome.status.ok());
    EXPECT_EQ(outcome.bytes, 0U);
  }
}

TEST_F(ObjectFaultsTest, store_that_falls_silent_is_left_and_asked_again) {
  open({{"timeout_ms", "300"}});
  const Bytes bytes = put("a", 100'000);
  fault("GET", 1, {.kind = Fault::stall, .bytes = 5000});
  const auto outcome = read({segment(object("a", 100'000), 0, 100'000)});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.to_string();
  EXPECT_TRUE(holds(bytes));
}

TEST_F(ObjectFaultsTest, wrong_secret_is_denied_at_once_and_reported_to_nobody) {
  open({{"secret_key", "wrong-and-secret"}});
  const auto outcome = read({segment(object("a", 10), 0, 10)});
  EXPECT_EQ(outcome.status.code(), Code::denied);
  EXPECT_THAT(outcome.status.to_string(),
              AllOf(HasSubstr("SignatureDoesNotMatch"), Not(HasSubstr("wrong-and-secret"))));
  EXPECT_EQ(proxy->heads.size(), 1U) << "asking again does not help";
  for (const auto& event : log.events())
    EXPECT_THAT(telemetry::to_string(event), Not(HasSubstr("wrong-and-secret")));
}

/// Says that it is an hour earlier.
class LateClock final : public Clock {
 public:
  Instant now() const noexcept override { return real_.now(); }
  Duration since_epoch() const noexcept override {
    return real_.since_epoch() - std::chrono::hours(1);
  }

 private:
  sys::SystemClock real_;
};

TEST_F(ObjectFaultsTest, clock_that_is_wrong_is_blamed_and_not_the_keys) {
  const LateClock late;
  agent_clock = &late;
  open();
  const auto outcome = read({segment(object("a", 10), 0, 10)});
  EXPECT_EQ(outcome.status.code(), Code::denied);
  EXPECT_THAT(outcome.status.to_string(),
              AllOf(HasSubstr("RequestTimeTooSkewed"), HasSubstr("set this machine's clock")));
  EXPECT_EQ(proxy->heads.size(), 1U) << "asking again does not help";
  TearDown();  // before the clock
}

TEST_F(ObjectFaultsTest, without_credentials_nothing_is_signed_and_a_refusal_says_so) {
  open({{"access_key", ""}, {"secret_key", ""}});
  fault("GET", 1, Fault::busy(403, "AccessDenied"));
  const auto outcome = read({segment(object("a", 10), 0, 10)});
  EXPECT_EQ(outcome.status.code(), Code::denied);
  EXPECT_THAT(outcome.status.to_string(), HasSubstr("without credentials"));
  EXPECT_THAT(proxy->heads[0], Not(HasSubstr("authorization")));
}

TEST_F(ObjectFaultsTest, object_that_is_not_there_fails_alone) {
  const Bytes bytes = put("there", 100);
  backend::Memory* const there = object("there", 100);
  const auto outcome = read({segment(object("gone", 100), 0, 100, 100), segment(there, 0, 100)});
  EXPECT_EQ(outcome.status.code(), Code::not_found);
  ASSERT_EQ(outcome.failures.size(), 1U);
  EXPECT_EQ(outcome.failures[0].segment, 0U);
  EXPECT_THAT(std::string(outcome.failures[0].status.message()), HasSubstr("NoSuchKey"));
  EXPECT_EQ(outcome.bytes, 100U);
  EXPECT_TRUE(holds(bytes));
}

TEST_F(ObjectFaultsTest, bucket_that_is_not_there_is_reported) {
  open({{"bucket", "no-such-bucket"}});
  EXPECT_THAT(write({segment(object("a", 10), 0, 10)}).status.to_string(),
              HasSubstr("NoSuchBucket"));
}

TEST_F(ObjectFaultsTest, object_that_is_replaced_while_it_is_read_is_never_mixed) {
  open({{"connections", "1"}, {"part_bytes", "64K"}});
  put("a", 200'000, 1);
  proxy->choose = [&](const std::string&, std::size_t number) {
    if (number == 2) put("a", 200'000, 2);
    return Fault();
  };
  const auto outcome = read({segment(object("a", 200'000), 0, 200'000)});
  EXPECT_EQ(outcome.status.code(), Code::corrupt);
  EXPECT_THAT(outcome.status.to_string(), HasSubstr("was replaced while it was read"));
}

// ---- Uploads in parts

const backend::Params kParts = {{"multipart_bytes", "64K"}, {"part_bytes", "64K"}};

TEST_F(ObjectFaultsTest, part_that_fails_is_sent_again) {
  open(kParts);
  fault("PUT", 3, Fault::busy(503, "ServiceUnavailable"));
  const auto outcome = write({segment(object("a", kMiB), 0, kMiB)});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.to_string();
  EXPECT_EQ(in_store("a"), Bytes(memory.begin(), memory.begin() + kMiB));
  EXPECT_EQ(uploads_left(), 0U);
}

TEST_F(ObjectFaultsTest, upload_that_fails_is_taken_back) {
  open(kParts);
  proxy->choose = [](const std::string& head, std::size_t) {
    return head.find("partNumber=5&") == std::string::npos ? Fault()
                                                           : Fault::busy(403, "AccessDenied");
  };
  const auto outcome = write({segment(object("a", kMiB), 0, kMiB)});
  EXPECT_EQ(outcome.status.code(), Code::denied);
  EXPECT_EQ(outcome.bytes, 0U);
  EXPECT_TRUE(run::eventually([&] {
    pump();
    return uploads_left() == 0;
  }));
  EXPECT_TRUE(in_store("a").empty());
  EXPECT_EQ(counted("towpath_object_aborted_uploads_total"), 1U);
}

TEST_F(ObjectFaultsTest, completion_that_fails_after_its_200_is_no_success) {
  open(kParts);
  proxy->choose = [](const std::string& head, std::size_t) {
    const bool completes = head.starts_with("POST") && head.find("uploadId=") != std::string::npos;
    return completes ? Fault::busy(200, "InvalidPart") : Fault();
  };
  const auto outcome = write({segment(object("a", kMiB), 0, kMiB)});
  EXPECT_FALSE(outcome.status.ok());
  EXPECT_THAT(outcome.status.to_string(), HasSubstr("InvalidPart"));
}

TEST_F(ObjectFaultsTest, completion_whose_answer_was_lost_is_not_said_to_be_an_abort) {
  open(kParts);
  proxy->choose = [met = 0](const std::string& head, std::size_t) mutable -> Fault {
    if (!head.starts_with("POST") || head.find("uploadId=") == std::string::npos) return {};
    return met++ == 0 ? Fault{.kind = Fault::cut} : Fault::busy(404, "NoSuchUpload");
  };
  const auto outcome = write({segment(object("a", kMiB), 0, kMiB)});
  EXPECT_EQ(outcome.status.code(), Code::unavailable) << outcome.status.to_string();
  EXPECT_THAT(outcome.status.to_string(),
              AllOf(HasSubstr("completed and its answer lost, or it was aborted"),
                    HasSubstr("NoSuchUpload"), Not(HasSubstr("aborted meanwhile"))));
}

TEST_F(ObjectFaultsTest, completion_that_says_200_and_nothing_more_is_no_success) {
  open(kParts);
  for (const std::string body :
       {"", "  ", "<?xml version=\"1.0\"?>\n<CompleteMul", "<html></html>"}) {
    proxy->choose = [body](const std::string& head, std::size_t) -> Fault {
      if (!head.starts_with("POST") || head.find("uploadId=") == std::string::npos) return {};
      return {.kind = Fault::answer,
              .text = cat("HTTP/1.1 200 OK\r\nContent-Length: ", body.size(), "\r\n\r\n", body)};
    };
    const auto outcome = write({segment(object("a", kMiB), 0, kMiB)});
    EXPECT_EQ(outcome.status.code(), Code::unavailable) << body;
    EXPECT_EQ(outcome.bytes, 0U) << body;
    EXPECT_TRUE(run::eventually([&] {
      pump();
      return uploads_left() == 0;
    })) << body;
    EXPECT_TRUE(in_store("a").empty()) << body;
  }
}

TEST_F(ObjectFaultsTest, cancelled_upload_is_quiesced_at_once_and_taken_back) {
  open(kParts);
  for (const std::size_t requests : {1U, 2U, 7U}) {
    proxy->heads.clear();
    post(TransferOp::write, {segment(object("a", kMiB), 0, kMiB)});
    ASSERT_TRUE(run::eventually([&] {
      pump();
      return proxy->heads.size() >= requests;
    }));
    operation->cancel();
    ASSERT_EQ(events.count(*operation), 1U) << "quiet at once";
    EXPECT_EQ(finish().status.code(), Code::cancelled);
    EXPECT_TRUE(run::eventually([&] {
      pump();
      return counted("towpath_object_aborted_uploads_total") > 0 && uploads_left() == 0;
    })) << requests;
  }
  EXPECT_TRUE(in_store("a").empty());
}

TEST_F(ObjectFaultsTest, cancelled_read_touches_nothing_any_more) {
  put("a", kMiB);
  fault("GET", 1, {.kind = Fault::stall, .bytes = 300'000});
  post(TransferOp::read, {segment(object("a", kMiB), 0, kMiB)});
  const std::byte first = memory[0];
  ASSERT_TRUE(run::eventually([&] {
    pump();
    return memory[0] != first;
  }));
  operation->cancel();
  const auto outcome = finish();
  EXPECT_EQ(outcome.status.code(), Code::cancelled);
  EXPECT_GT(outcome.bytes, 0U);
  const Bytes after = memory;
  for (int i = 0; i < 100; ++i) pump();
  EXPECT_EQ(memory, after);
}

}  // namespace
}  // namespace towpath::backends::object
