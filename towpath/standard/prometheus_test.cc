#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <towpath/standard/telemetry.h>
#include <towpath/sys/fd.h>
#include <towpath/telemetry/agent_meter.h>

namespace towpath::standard {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Whether the body that was announced is here: the server waits before it closes.
bool is_whole(const std::string& answer) {
  const std::string announced = "Content-Length: ";
  const auto length = answer.find(announced);
  const auto body = answer.find("\r\n\r\n");
  if (length == std::string::npos || body == std::string::npos) return false;
  return answer.size() >= body + 4 + std::stoul(answer.substr(length + announced.size()));
}

// Invalid when nobody listens there.
sys::Fd call(std::uint16_t port) {
  sys::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval watchdog{20, 0};  // shorter than the 30 s that the server gives a request by itself
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &watchdog, sizeof watchdog);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool answers =
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  return answers ? std::move(socket) : sys::Fd();
}

void say(const sys::Fd& socket, std::string_view what) {
  EXPECT_EQ(send(socket.get(), what.data(), what.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(what.size()));
}

// As a scraper asks: the whole answer.
std::string scrape(std::uint16_t port) {
  const sys::Fd socket = call(port);
  if (socket.get() < 0) return "refused";
  say(socket, "GET /metrics HTTP/1.0\r\n\r\n");
  std::string answer;
  std::array<char, 4096> part{};
  for (ssize_t got = 1; got > 0 && !is_whole(answer);) {
    got = recv(socket.get(), part.data(), part.size(), 0);
    if (got > 0) answer.append(part.data(), static_cast<std::size_t>(got));
  }
  return answer;
}

#ifdef TOWPATH_WITH_PROMETHEUS

TEST(PrometheusTest, only_enabled_metrics_are_served) {
  telemetry::Metrics metrics;
  telemetry::AgentMeter meter(metrics, {.agent = "decode"});
  telemetry::Flow& flow = meter.flow({.backend = "shm", .peer = "p", .op = TransferOp::write});
  flow.posted({.bytes = 4096, .descriptors = 1});
  flow.ended({.posted_bytes = 4096, .moved_bytes = 4096, .time = std::chrono::microseconds(15)});
  const auto endpoint =
      PrometheusEndpoint::open(metrics,
                               {.port = 0, .enabled = {"agent_tx_b*es", "towpath_transfers_*"}})
          .value();
  const std::string answer = scrape(endpoint->port());
  EXPECT_THAT(answer, HasSubstr("agent_tx_bytes_total"));
  EXPECT_THAT(answer, HasSubstr("towpath_transfers_in_flight"));
  EXPECT_THAT(answer, Not(HasSubstr("agent_tx_requests_num_total")));
  EXPECT_THAT(answer, Not(HasSubstr("towpath_transfer_bytes_total")));
}

TEST(PrometheusTest, scrape_reports_counters_gauges_and_histograms) {
  telemetry::Metrics metrics;
  telemetry::AgentMeter meter(metrics, {.agent = "decode"});
  telemetry::Flow& flow = meter.flow({.backend = "shm", .peer = "a\"b\n"});
  flow.posted({.bytes = 4096, .descriptors = 1});
  flow.ended({.posted_bytes = 4096, .moved_bytes = 4096, .time = std::chrono::microseconds(15)});
  flow.posted({.bytes = 64});
  metrics.histogram("waits_nanoseconds").record(std::uint64_t{20});
  const auto endpoint = PrometheusEndpoint::open(metrics, {.port = 0}).value();
  const std::string answer = scrape(endpoint->port());
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("# TYPE towpath_transfer_bytes_total counter"));
  EXPECT_THAT(answer, HasSubstr("# TYPE towpath_transfers_in_flight gauge"));
  EXPECT_THAT(answer, HasSubstr("# TYPE towpath_transfer_seconds histogram"));
  EXPECT_THAT(answer, HasSubstr("# TYPE waits_seconds summary"));
  const std::string labels =
      R"({agent="decode",backend="shm",local="system",op="read",peer="a\"b\\x0a",remote="system")";
  EXPECT_THAT(answer, HasSubstr("towpath_transfer_bytes_total" + labels + "} 4096"));
  EXPECT_THAT(answer, HasSubstr("towpath_transfers_in_flight" + labels + "} 1"));
  EXPECT_THAT(answer, HasSubstr("towpath_transfer_seconds_bucket" + labels + ",le=\"1e-05\"} 0"));
  EXPECT_THAT(answer, HasSubstr("towpath_transfer_seconds_bucket" + labels + ",le=\"2e-05\"} 1"));
  EXPECT_THAT(answer, HasSubstr("towpath_transfer_seconds_bucket" + labels + ",le=\"+Inf\"} 1"));
  EXPECT_THAT(answer, HasSubstr("agent_rx_bytes_total{agent_name=\"decode\""));
  EXPECT_THAT(answer, HasSubstr("# TYPE agent_xfer_time_us histogram"));
}

TEST(PrometheusTest, bounds_that_are_no_whole_microseconds_are_reported_as_they_are) {
  const std::uint64_t bounds[] = {250, 500, 1500};
  telemetry::Metrics metrics;
  telemetry::AgentMeter meter(
      metrics, {.agent = "decode", .time_bounds = telemetry::BucketBounds::of(bounds).value()});
  telemetry::Flow& flow = meter.flow({.backend = "shm", .peer = "p"});
  flow.ended({.time = std::chrono::nanoseconds(400)});
  flow.ended({.time = std::chrono::nanoseconds(1500)});
  const auto endpoint = PrometheusEndpoint::open(metrics, {.port = 0}).value();
  const std::string answer = scrape(endpoint->port());
  const std::size_t family = answer.find("# TYPE agent_xfer_time_us histogram");
  ASSERT_NE(family, std::string::npos);
  const std::string text = answer.substr(family, answer.find("# ", family + 1) - family);
  EXPECT_THAT(text, HasSubstr(",le=\"0.25\"} 0"));
  EXPECT_THAT(text, HasSubstr(",le=\"0.5\"} 1"));
  EXPECT_THAT(text, HasSubstr(",le=\"1.5\"} 2"));
  EXPECT_THAT(text, HasSubstr(",le=\"+Inf\"} 2"));
  EXPECT_THAT(text, Not(HasSubstr(",le=\"1\"}")));
  EXPECT_THAT(text, Not(HasSubstr(",le=\"0\"}")));
}

TEST(PrometheusTest, names_of_nixl_can_be_left_out) {
  telemetry::Metrics metrics;
  telemetry::AgentMeter meter(metrics, {.agent = "decode"});
  meter.registered({"shm", MemoryKind::system, 5});
  const auto endpoint = PrometheusEndpoint::open(metrics, {.port = 0, .nixl_names = false}).value();
  const std::string answer = scrape(endpoint->port());
  EXPECT_THAT(answer, HasSubstr("towpath_registered_bytes_total"));
  EXPECT_THAT(answer, Not(HasSubstr("agent_memory_registered")));
}

TEST(PrometheusTest, listens_to_this_machine_only_and_says_where) {
  telemetry::Metrics metrics;
  const auto endpoint = PrometheusEndpoint::open(metrics, {.port = 0}).value();
  EXPECT_EQ(endpoint->url(), "http://127.0.0.1:" + std::to_string(endpoint->port()) + "/metrics");
}

TEST(PrometheusTest, unauthenticated_who_say_nothing_or_nonsense_keep_no_scraper_out) {
  telemetry::Metrics metrics;
  const auto endpoint = PrometheusEndpoint::open(metrics, {.port = 0}).value();
  std::vector<sys::Fd> on_the_line;
  for (const std::string_view what :
       {std::string_view(), std::string_view("GET /metrics"), std::string_view("\xa5\0\xa5", 3),
        std::string_view("\r\n\r\n"),
        std::string_view("POST / HTTP/1.1\r\nContent-Length: -1\r\n")}) {
    say(call(endpoint->port()), what);
    on_the_line.push_back(call(endpoint->port()));
    say(on_the_line.back(), what);
  }
  const sys::Fd endless = call(endpoint->port());
  say(endless, "GET /" + std::string(50'000, 'x'));
  EXPECT_THAT(scrape(endpoint->port()), HasSubstr("200 OK"));
}

TEST(PrometheusTest, port_that_is_taken_is_an_error) {
  telemetry::Metrics metrics;
  const auto first = PrometheusEndpoint::open(metrics, {.port = 0}).value();
  const auto second = PrometheusEndpoint::open(metrics, {.port = first->port()});
  EXPECT_EQ(second.code(), Code::unavailable);
  EXPECT_THAT(scrape(first->port()), HasSubstr("200 OK")) << "the first lives on";
}

TEST(PrometheusTest, address_that_is_none_is_an_error) {
  telemetry::Metrics metrics;
  for (const char* address : {"", "127.0.0.1:1,0.0.0.0", "no such place"})
    EXPECT_EQ(PrometheusEndpoint::open(metrics, {.address = address}).code(),
              Code::invalid_argument);
  EXPECT_EQ(PrometheusEndpoint::open(metrics, {.address = "192.0.2.1", .port = 0}).code(),
            Code::unavailable);
}

#else

TEST(PrometheusTest, build_without_it_says_how_to_get_it) {
  telemetry::Metrics metrics;
  const auto endpoint = PrometheusEndpoint::open(metrics, {});
  EXPECT_EQ(endpoint.code(), Code::unsupported);
  EXPECT_THAT(std::string(endpoint.status().hint()), HasSubstr("prometheus-cpp-dev"));
  EXPECT_EQ(scrape(0), "refused");
}

#endif

}  // namespace
}  // namespace towpath::standard
