#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/rendezvous/fetch_until.h>
#include <towpath/standard/rendezvous_url.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

TEST(RendezvousUrlTest, each_form_is_understood) {
  const auto etcd =
      parse_rendezvous_url(
          "etcds://me@10.0.0.7:2379,[::1]/towpath/job?ca=/c.pem&password-file=/p&ttl=5")
          .value();
  EXPECT_EQ(etcd.scheme, "etcds");
  EXPECT_EQ(etcd.user, "me");
  EXPECT_EQ(etcd.place, "10.0.0.7:2379,[::1]");
  EXPECT_EQ(etcd.name_space, "/towpath/job");
  EXPECT_EQ(etcd.options.at("ca"), "/c.pem");
  EXPECT_EQ(etcd.options.at("ttl"), "5");
  EXPECT_EQ(parse_rendezvous_url("scope:job")->place, "job");
  EXPECT_EQ(parse_rendezvous_url("tcp://h:1?token-file=/t")->options.at("token-file"), "/t");
  EXPECT_EQ(parse_rendezvous_url("tcp://[::1]:9")->place, "[::1]:9");
}

TEST(RendezvousUrlTest, what_is_none_is_refused_with_the_forms_that_are) {
  for (const char* bad : {"",
                          "etcd",
                          "etcd:",
                          "etcd://",
                          "etcd://host",
                          "etcd://host:1/",
                          "etcd:///ns",
                          "etcd://ho st/ns",
                          "http://host/ns",
                          "tcp://",
                          "tcp:host:1",
                          "unix:",
                          "scope:",
                          "scope:a?b=c",
                          "file:",
                          "file:/d?ca=/x",
                          "etcd://h/n?color=red",
                          "etcd://h/n?ca",
                          "etcd://me:secret@h/n",
                          "etcd://me:secret@h:2379",
                          "etcd://me:secret@h/n?color=red",
                          "http://me:secret@h/n",
                          "tcp://h:1?ttl=5",
                          "tcp://h:1?token-file=/a&token-file=/b",
                          "etcd://h/n?ca=/c.pem",
                          "etcd://h/n?password-file=/p",
                          "unix:@name?token-file=/t"}) {
    const auto url = parse_rendezvous_url(bad);
    EXPECT_EQ(url.code(), Code::invalid_argument) << bad;
    EXPECT_EQ(url.status().to_string().find("secret"), std::string::npos);
  }
}

TEST(RendezvousUrlTest, agents_meet_where_the_url_says) {
  const sys::SystemClock clock;
  const auto directory = sys::TemporaryDirectory::create().value();
  for (const std::string& url :
       {cat("scope:", getpid()), cat("file:", directory.path(), "/cards?ttl=5"),
        cat("unix:", directory.path(), "/socket"), cat("unix:@", getpid(), "-url")}) {
    auto here = open_rendezvous(url, clock);
    ASSERT_TRUE(here.ok()) << here.status().to_string();
    ASSERT_TRUE((*here)->publish("a", as_bytes("card")).ok());
    const auto soon = run::Deadline::after(clock, std::chrono::seconds(30));
    EXPECT_EQ(rendezvous::fetch_until(**here, "a", soon, clock).value(), to_bytes("card")) << url;
  }
}

TEST(RendezvousUrlTest, what_cannot_be_opened_says_why) {
  const sys::SystemClock clock;
  EXPECT_EQ(open_rendezvous("tcp://0.0.0.0:24567", clock).code(), Code::denied);
  EXPECT_EQ(open_rendezvous("tcp://127.0.0.1:0", clock).code(), Code::invalid_argument);
  EXPECT_EQ(open_rendezvous("tcp://nohost", clock).code(), Code::invalid_argument);
  EXPECT_EQ(open_rendezvous("tcp://h:1?token-file=/none/such", clock).code(), Code::not_found);
  EXPECT_EQ(open_rendezvous("tcp://127.0.0.1:1?cert=/x", clock).code(), Code::invalid_argument);
  EXPECT_EQ(open_rendezvous("etcds://h/n?ttl=soon", clock).code(), Code::invalid_argument);
  EXPECT_EQ(open_rendezvous("file:/tmp?ttl=soon", clock).code(), Code::invalid_argument);
  for (const char* day : {"file:/tmp?ttl=86401", "etcds://h/n?ttl=86401"})
    EXPECT_EQ(open_rendezvous(day, clock).status().message(), "a lease of 86401 s") << day;
  EXPECT_FALSE(open_rendezvous("file:/dev/null/x", clock).ok());
  EXPECT_EQ(open_rendezvous("etcd://10.0.0.1/n", clock).code(), Code::denied) << "in plain text";
  EXPECT_EQ(open_rendezvous("etcd://h/n?token-file=/none/such", clock).code(), Code::not_found);
  EXPECT_TRUE(open_rendezvous("etcd://127.0.0.1/n", clock).ok()) << "it is not asked yet";
}

}  // namespace
}  // namespace towpath::standard
