// A client of HTTP while the machine's resolver keeps silent: the getaddrinfo() that libcurl calls
// is this program's own.
#include <atomic>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <curl/curl.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <towpath/net/http.h>
#include <towpath/run/eventually.h>

namespace towpath::net {
namespace {

constexpr std::string_view kSilent = "silent.invalid";

// Lookups of that name: begun and held, until they may go, and gone.
constinit std::atomic<int> lookups_begun{0};
constinit std::atomic<bool> lookups_may_end{false};
constinit std::atomic<int> lookups_ended{0};

}  // namespace
}  // namespace towpath::net

extern "C" __attribute__((visibility("default"))) int getaddrinfo(const char* name,
                                                                  const char* service,
                                                                  const addrinfo* hints,
                                                                  addrinfo** found) {
  using namespace towpath::net;
  if (name != nullptr && name == kSilent) {
    ++lookups_begun;
    lookups_may_end.wait(false);
    ++lookups_ended;
    return EAI_AGAIN;
  }
  const auto real = reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  return real(name, service, hints, found);
}

namespace towpath::net {
namespace {

class ResolverTest : public testing::Test {
 protected:
  void TearDown() override {
    lookups_may_end = true;
    lookups_may_end.notify_all();
    EXPECT_TRUE(run::eventually([] { return lookups_ended == lookups_begun; }));
    lookups_may_end = false;
  }
  HttpId send(Duration timeout) {
    const int before = lookups_begun;
    const HttpId id = client
                          ->send({.url = "http://silent.invalid/", .timeout = timeout},
                                 [&](auto answer) { answers.push_back(std::move(answer)); })
                          .value();
    EXPECT_TRUE(run::eventually([&] {
      client->progress();
      return lookups_begun > before;
    })) << "libcurl does not look names up by getaddrinfo()";
    return id;
  }

  std::unique_ptr<HttpClient> client = HttpClient::open().value();
  std::vector<Result<HttpResponse>> answers;
};

// Without the mend each of these three stands until the program is ended.
TEST_F(ResolverTest, silent_resolver_holds_up_neither_cancel_nor_deadline_nor_end) {
  if (curl_version_info(CURLVERSION_NOW)->version_num < 0x075700)
    GTEST_SKIP() << "libcurl before 7.87 waits for lookups";
  client->cancel(send(std::chrono::hours(1)));
  send(std::chrono::milliseconds(100));
  EXPECT_TRUE(run::eventually([&] {
    client->progress();
    return !answers.empty();
  }));
  EXPECT_EQ(answers.at(0).code(), Code::timed_out);
  send(std::chrono::hours(1));
  client.reset();
  EXPECT_LT(lookups_ended, lookups_begun);
}

}  // namespace
}  // namespace towpath::net
