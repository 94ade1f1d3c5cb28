#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/standard/ucx_port.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/telemetry/log.h>

namespace towpath::standard {
namespace {

TEST(UcxPortTest, lists_are_read_as_ucx_reads_them) {
  for (const char* open : {"", "all", "tcp", "rc,tcp", "rc,tcp:aux", "^sm", "^rc,ud"})
    EXPECT_TRUE(opens_tcp_port(open)) << open;
  for (const char* shut : {"^tcp", "rc", "rc_x,ud_x,sm", "^sm,tcp", "^all"})
    EXPECT_FALSE(opens_tcp_port(shut)) << shut;
}

TEST(UcxPortTest, who_opens_the_port_is_warned_and_who_does_not_is_not) {
  telemetry::CollectingSink sink;
  ManualClock clock;
  backend::BackendType type = backends::loopback::loopback_type();
  type.open = [](const backend::BackendContext&) -> Result<std::unique_ptr<backend::Backend>> {
    return error(Code::unsupported, "only asked");
  };
  type.probe = [](const backend::Params&) {
    return std::vector<Finding>{{.verdict = Verdict::yes}};
  };
  type = with_port_warning(std::move(type));
  backend::BackendContext context{
      .clock = &clock, .log = &sink, .params = {{"transports", "^tcp"}}};
  (void)type.open(context);
  EXPECT_EQ(sink.count_of("no secret guards"), 0U);
  EXPECT_EQ(type.probe(context.params).back().verdict, Verdict::yes);
  context.params["transports"] = "rc,tcp";
  (void)type.open(context);
  EXPECT_EQ(sink.count_of("no secret guards"), 1U);
  EXPECT_EQ(type.probe(context.params).back().verdict, Verdict::degraded);
}

TEST(UcxPortTest, an_rdma_device_is_a_port_and_a_way_to_use_it) {
  const auto root = sys::TemporaryDirectory::create().value();
  const auto asked = [&] { return has_rdma(root.file("sys"), root.file("dev")); };
  EXPECT_FALSE(asked());
  std::filesystem::create_directories(root.file("sys/class/infiniband/mlx5_0/ports/1"));
  EXPECT_FALSE(asked()) << "of the host: a container without its device";
  std::filesystem::create_directories(root.file("dev/infiniband"));
  std::ofstream(root.file("dev/infiniband/uverbs0")).flush();
  EXPECT_TRUE(asked());
}

}  // namespace
}  // namespace towpath::standard
