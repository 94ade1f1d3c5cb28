#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/compat/nixl/backends.h>
#include <towpath/core/format.h>
#include <towpath/standard/nixl_names.h>
#include <towpath/sys/clock.h>
#include <towpath/telemetry/log.h>

namespace towpath::nixl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

/// A backend that runs anywhere, under another's name.
backend::BackendType called(std::string name) {
  backend::BackendType type = backends::loopback::loopback_type();
  type.name = std::move(name);
  type.params = {{.name = "paths", .default_value = "auto"},
                 {.name = "transports"},
                 {.name = "devices"},
                 {.name = "security"}};
  if (type.name == "shm") type.params.push_back({.name = "copy_threads", .default_value = "1"});
  type.probe = nullptr;
  const auto open = type.open;
  type.open = [open](backend::BackendContext context) {
    context.params.clear();
    return open(context);
  };
  return type;
}

backend::BackendType failing(std::string name, Code code) {
  backend::BackendType type = called(std::move(name));
  type.open = [code](const backend::BackendContext&) -> Result<std::unique_ptr<backend::Backend>> {
    return error(code, "it does not run here");
  };
  return type;
}

class NixlBackendsTest : public testing::Test {
 protected:
  void have(std::vector<backend::BackendType> types,
            const standard::Environment& environment = {}) {
    for (backend::BackendType& type : types) ASSERT_TRUE(registry_.add(std::move(type)).ok());
    auto made = agent::Agent::create({.name = "a", .registry = &registry_, .clock = &clock_});
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    agent_ = *std::move(made);
    backends_.emplace(
        registry_, environment, telemetry::Log(sink_, clock_, "test"),
        NixlMachine{.devices = {.may_exist = [this] { return has_gpus_; }, .open = nullptr},
                    .has_rdma = [this] { return has_rdma_; }});
  }
  Result<const NixlBackend*> create(std::string_view name, const backend::Params& params = {}) {
    return backends_->create(*agent_, name, params);
  }
  std::string reported() const {
    std::string all;
    for (const telemetry::Event& event : sink_.events()) all += telemetry::to_string(event) + "\n";
    return all;
  }

  bool has_gpus_ = false;
  bool has_rdma_ = true;
  sys::SystemClock clock_;
  telemetry::CollectingSink sink_;
  backend::Registry registry_;
  std::unique_ptr<agent::Agent> agent_;
  std::optional<NixlBackends> backends_;
};

TEST_F(NixlBackendsTest, ucx_brings_shm_which_is_preferred) {
  have({called("shm"), called("ucx")});
  const auto ucx = create("UCX");
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_EQ((*ucx)->name, "UCX");
  EXPECT_EQ((*ucx)->type, "ucx");
  EXPECT_THAT((*ucx)->types, ElementsAre("shm", "ucx"));
  EXPECT_TRUE(agent_->has_backend("shm") && agent_->has_backend("ucx"));
}

TEST_F(NixlBackendsTest, what_leaves_the_host_is_encrypted_where_that_is_asked_for) {
  have({called("shm"), called("ucx"), called("tcp")}, {{"TOWPATH_SECURITY", "tls"}});
  const auto ucx = create("UCX");
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_THAT((*ucx)->types, ElementsAre("shm", "tcp"));
  const auto tcp = create("tcp", {{"security", "tls"}});
  EXPECT_TRUE(tcp.ok()) << "it runs with that already: " << tcp.status().to_string();
}

TEST_F(NixlBackendsTest, ucx_is_refused_where_encryption_is_asked_for) {
  have({called("shm"), called("ucx"), called("tcp")}, {{"TOWPATH_SECURITY", "tls"}});
  const Status refused = create("ucx").status();
  EXPECT_EQ(refused.code(), Code::denied);
  EXPECT_THAT(refused.to_string(), HasSubstr("UCX does not encrypt"));
}

TEST_F(NixlBackendsTest, ucx_brings_the_one_that_takes_gpus_where_there_may_be_one) {
  have({called("shm"), called("ucx"), called("ucx_device")});
  has_gpus_ = true;
  const auto ucx = create("UCX", {{"transports", "tcp,cuda_copy"}});
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_THAT((*ucx)->types, ElementsAre("ucx", "ucx_device"));
  EXPECT_EQ(create("ucx_device", {{"transports", ""}}).code(), Code::already_exists)
      << "it has those of the one that brought it";
}

TEST_F(NixlBackendsTest, ucx_goes_without_gpus_where_there_are_none_or_it_takes_none) {
  have({called("shm"), called("ucx"), failing("ucx_device", Code::unsupported)});
  const auto alone = create("UCX");
  ASSERT_TRUE(alone.ok()) << alone.status().to_string();
  EXPECT_THAT((*alone)->types, ElementsAre("shm", "ucx"));
  EXPECT_EQ(reported(), "") << "nobody asked for GPUs";
}

TEST_F(NixlBackendsTest, ucx_that_takes_no_gpu_is_reported_of) {
  have({called("ucx"), failing("ucx_device", Code::unsupported)});
  has_gpus_ = true;
  const auto ucx = create("UCX", {{"transports", "tcp"}});
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_THAT((*ucx)->types, ElementsAre("ucx"));
  EXPECT_THAT(reported(), HasSubstr("by way of the host"));
}

TEST_F(NixlBackendsTest, shm_copies_by_several_threads_unless_reported_otherwise) {
  have({called("shm"), called("ucx")});
  ASSERT_TRUE(create("UCX").ok());
  const auto shm = create("SHM");
  ASSERT_TRUE(shm.ok()) << shm.status().to_string();
  EXPECT_EQ((*shm)->params.at("copy_threads"), "auto");
}

TEST_F(NixlBackendsTest, shm_may_be_created_besides_before_and_after) {
  have({called("shm"), called("ucx")});
  ASSERT_TRUE(create("UCX").ok());
  const auto shm = create("SHM", {{"paths", "auto"}});  // what it runs with anyway
  ASSERT_TRUE(shm.ok()) << shm.status().to_string();
  EXPECT_THAT((*shm)->types, ElementsAre("shm"));
  EXPECT_EQ(create("shm").code(), Code::already_exists);
  EXPECT_EQ(create("ucx").code(), Code::already_exists);
}

TEST_F(NixlBackendsTest, shm_that_was_created_before_serves_ucx_too) {
  have({called("shm"), called("ucx")});
  ASSERT_TRUE(create("SHM", {{"paths", "mapped"}}).ok());
  const auto ucx = create("UCX");
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_THAT((*ucx)->types, ElementsAre("shm", "ucx"));
}

TEST_F(NixlBackendsTest, parameters_that_would_have_no_effect_are_refused) {
  have({called("shm"), called("ucx")});
  ASSERT_TRUE(create("UCX").ok());
  EXPECT_EQ(create("SHM", {{"copy_threads", "1"}}).code(), Code::already_exists);
  const auto shm = create("SHM", {{"paths", "mapped"}});
  EXPECT_EQ(shm.code(), Code::already_exists);
  EXPECT_THAT(std::string(shm.status().hint()), HasSubstr("before"));
}

TEST_F(NixlBackendsTest, where_shm_cannot_run_ucx_goes_alone_and_reports) {
  have({failing("shm", Code::denied), called("ucx")});
  const auto ucx = create("UCX");
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_THAT((*ucx)->types, ElementsAre("ucx"));
  EXPECT_THAT(reported(), HasSubstr("it does not run here"));
}

TEST_F(NixlBackendsTest, gds_brings_posix_for_what_does_not_go_straight) {
  have({called("gds"), called("posix")});
  const auto gds = create("GDS");
  ASSERT_TRUE(gds.ok()) << gds.status().to_string();
  EXPECT_EQ((*gds)->type, "gds");
  EXPECT_THAT((*gds)->types, ElementsAre("gds", "posix"));
}

TEST_F(NixlBackendsTest, where_there_is_no_gds_posix_stands_in_and_it_is_reported) {
  have({failing("gds", Code::not_found), called("posix")});
  const auto gds = create("GDS");
  ASSERT_TRUE(gds.ok()) << gds.status().to_string();
  EXPECT_EQ((*gds)->type, "posix");
  EXPECT_THAT((*gds)->types, ElementsAre("posix"));
  EXPECT_THAT(reported(), HasSubstr("no GPUDirect Storage here"));
  EXPECT_THAT(reported(), HasSubstr("it does not run here"));
}

TEST_F(NixlBackendsTest, gds_that_is_refused_for_another_reason_stays_an_error) {
  have({failing("gds", Code::invalid_argument), called("posix")});
  EXPECT_EQ(create("GDS").code(), Code::invalid_argument);
}

TEST_F(NixlBackendsTest, a_probe_that_refuses_keeps_shm_out) {
  backend::BackendType shm = called("shm");
  shm.probe = [](const backend::Params&) {
    return std::vector<Finding>{{.verdict = Verdict::no, .reason = "forbidden by the house"}};
  };
  have({std::move(shm), called("ucx")});
  const auto ucx = create("UCX");
  ASSERT_TRUE(ucx.ok());
  EXPECT_THAT((*ucx)->types, ElementsAre("ucx"));
  EXPECT_FALSE(agent_->has_backend("shm"));
  EXPECT_THAT(reported(), HasSubstr("forbidden by the house"));
}

TEST_F(NixlBackendsTest, where_ucx_is_missing_shm_serves_alone_and_it_is_logged) {
  have({called("shm"), failing("ucx", Code::unsupported)});
  const auto ucx = create("UCX");
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_EQ((*ucx)->type, "shm");
  EXPECT_THAT((*ucx)->types, ElementsAre("shm"));
  EXPECT_THAT(reported(), HasSubstr("UCX is shared memory here"));
  EXPECT_TRUE(backends_->plugin("UCX").ok());
}

TEST_F(NixlBackendsTest, without_rdma_ucx_is_shm_and_tcp_and_opens_no_port_of_ucx) {
  has_rdma_ = false;
  have({called("shm"), called("ucx"), called("ucx_device"), called("tcp")});
  has_gpus_ = true;
  const auto ucx = create("UCX");
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_EQ((*ucx)->type, "tcp");
  EXPECT_THAT((*ucx)->types, ElementsAre("shm", "tcp"));
  EXPECT_FALSE(agent_->has_backend("ucx") || agent_->has_backend("ucx_device"));
  EXPECT_THAT(reported(), HasSubstr("no RDMA device"));
}

TEST_F(NixlBackendsTest, without_rdma_engine_config_has_no_effect_and_it_is_logged) {
  has_rdma_ = false;
  backend::BackendType ucx = called("ucx");
  ucx.params.push_back({.name = "settings"});
  have({called("shm"), called("tcp"), std::move(ucx)});
  ASSERT_TRUE(create("UCX", {{"engine_config", "RNDV_THRESH=8k"}}).ok());
  EXPECT_THAT(reported(), HasSubstr("engine_config=RNDV_THRESH=8k has no effect"));
}

TEST_F(NixlBackendsTest, without_rdma_the_times_of_ucx_are_those_of_tcp) {
  has_rdma_ = false;
  const auto timed = [](const char* name) {
    backend::BackendType type = called(name);
    type.params.push_back({.name = "timeout_ms", .default_value = "5000"});
    return type;
  };
  have({called("shm"), timed("ucx"), timed("tcp")});
  const auto ucx = create("UCX", {{"timeout_ms", "60000"}});
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_EQ((*ucx)->params.at("timeout_ms"), "60000");
}

TEST_F(NixlBackendsTest, parameter_that_a_companion_refuses_is_refused) {
  has_rdma_ = false;
  have({called("shm"), called("ucx"), failing("tcp", Code::invalid_argument)});
  EXPECT_EQ(create("UCX").code(), Code::invalid_argument);
}

TEST_F(NixlBackendsTest, without_rdma_ucx_refuses_parameters_that_nobody_knows) {
  has_rdma_ = false;
  have({called("shm"), called("ucx"), called("tcp")});
  EXPECT_EQ(create("UCX", {{"speed", "high"}}).code(), Code::invalid_argument);
  EXPECT_TRUE(create("UCX", {{"num_workers", "4"}, {"device_list", "mlx5_0"}}).ok());
}

TEST_F(NixlBackendsTest, with_rdma_ucx_joins_without_its_tcp) {
  have({called("shm"), called("ucx"), called("tcp")});
  const auto ucx = create("UCX");
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_THAT((*ucx)->types, ElementsAre("shm", "ucx", "tcp"));
  EXPECT_EQ((*ucx)->params.at("transports"), "^tcp");
}

TEST_F(NixlBackendsTest, ucx_by_its_own_name_is_given_as_it_is) {
  has_rdma_ = false;
  have({called("shm"), called("ucx"), called("tcp")});
  const auto ucx = create("ucx");
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_THAT((*ucx)->types, ElementsAre("shm", "ucx"));
  EXPECT_EQ((*ucx)->params.at("transports"), "");
}

TEST_F(NixlBackendsTest, a_build_without_ucx_knows_the_name_all_the_same) {
  have({called("shm")});
  EXPECT_THAT(backends_->plugins(), ElementsAre("UCX", "shm"));
  const auto ucx = create("UCX");
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_THAT((*ucx)->types, ElementsAre("shm"));
}

TEST_F(NixlBackendsTest,
       plug_ins_are_listed_with_all_their_names_and_all_memory_that_they_may_take) {
  backend::BackendType gds = called("gds");
  backend::BackendType straight = called("ucx_device");
  gds.kinds = {MemoryKind::device, MemoryKind::disk};
  straight.kinds = {MemoryKind::device};
  have({called("ucx"), std::move(gds), called("posix"), std::move(straight)});
  standard::add_nixl_aliases(registry_);
  EXPECT_THAT(backends_->plugins(),
              testing::UnorderedElementsAre("UCX", "GDS", "GDS_MT", "POSIX", "ucx_device"));
  EXPECT_THAT(backends_->plugin_kinds("UCX").value(), testing::Contains(MemoryKind::device));
  EXPECT_THAT(backends_->plugin_kinds("gds_mt").value(), testing::Contains(MemoryKind::system));
  EXPECT_EQ(backends_->plugin_kinds("HF3FS").code(), Code::not_found);
}

TEST_F(NixlBackendsTest, what_engines_pass_along_has_no_effect_on_storage_and_it_is_logged) {
  have({called("posix"), called("gds"), called("object")});
  const backend::Params of_sglang = {{"active", "True"}, {"prefetch_threshold", "256"}};
  backend::Params of_files = {{"file_path", "/kv"}, {"use_direct_io", "true"}};
  EXPECT_EQ(create("object", of_files).code(), Code::invalid_argument) << "it has no files";
  EXPECT_EQ(create("posix", {{"file_pth", "/kv"}}).code(), Code::invalid_argument);
  EXPECT_TRUE(create("object", of_sglang).ok());
  of_files.insert(of_sglang.begin(), of_sglang.end());
  EXPECT_TRUE(create("gds", of_files).ok());
  const auto posix = create("posix", of_files);
  ASSERT_TRUE(posix.ok()) << posix.status().to_string();
  EXPECT_FALSE((*posix)->params.contains("file_path"));
  EXPECT_THAT(reported(), HasSubstr("file_path=/kv has no effect on posix: the engine's own"));
}

TEST_F(NixlBackendsTest, engine_config_reaches_ucx) {
  backend::BackendType ucx = called("ucx");
  ucx.params.push_back({.name = "settings"});
  have({called("shm"), std::move(ucx)});
  const auto made =
      create("UCX", {{"engine_config", "MAX_RNDV_RAILS=2,UCX_TLS=tcp,ZCOPY_THRESH=8k"},
                     {"settings", "A=1;B=2,3"}});
  ASSERT_TRUE(made.ok()) << made.status().to_string();
  EXPECT_EQ((*made)->params.at("settings"), "A=1;B=2,3;MAX_RNDV_RAILS=2;ZCOPY_THRESH=8k");
  EXPECT_EQ((*made)->params.at("transports"), "tcp");
  EXPECT_THAT((*made)->types, ElementsAre("ucx")) << "these transports leave no shared memory";
}

TEST_F(NixlBackendsTest, engine_config_has_no_effect_where_there_is_no_ucx_and_it_is_logged) {
  have({called("shm")});
  ASSERT_TRUE(create("UCX", {{"engine_config", "TLS=tcp"}}).ok());
  EXPECT_THAT(reported(), HasSubstr("engine_config=TLS=tcp has no effect on shm"));
}

TEST_F(NixlBackendsTest, a_failure_of_ucx_is_that_of_the_whole) {
  have({called("shm"), failing("ucx", Code::invalid_argument)});
  EXPECT_EQ(create("UCX").code(), Code::invalid_argument);
  EXPECT_THAT(agent_->backends(), SizeIs(0));
}

TEST_F(NixlBackendsTest, transports_without_shared_memory_keep_shm_out) {
  have({called("shm"), called("ucx")}, {{"UCX_TLS", "tcp"}});
  EXPECT_THAT((*create("UCX"))->types, ElementsAre("ucx"));
}

TEST_F(NixlBackendsTest, the_parameter_wins_over_the_variable) {
  have({called("shm"), called("ucx")}, {{"UCX_TLS", "tcp"}});
  EXPECT_THAT((*create("UCX", {{"transports", "tcp,sm"}}))->types, ElementsAre("shm", "ucx"));
}

TEST_F(NixlBackendsTest, device_list_names_the_devices_of_ucx) {
  have({called("shm"), called("ucx")});
  const auto ucx = create("UCX", {{"device_list", "mlx5_0, mlx5_1"}});
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_EQ((*ucx)->params.at("devices"), "mlx5_0, mlx5_1");
  EXPECT_FALSE((*ucx)->params.contains("device_list"));
  EXPECT_EQ(reported().find("device_list"), std::string::npos) << reported();
}

TEST_F(NixlBackendsTest, device_list_beside_devices_has_no_effect_and_it_is_reported) {
  have({called("shm"), called("ucx")});
  const auto ucx = create("UCX", {{"device_list", "mlx5_0"}, {"devices", "lo"}});
  ASSERT_TRUE(ucx.ok()) << ucx.status().to_string();
  EXPECT_EQ((*ucx)->params.at("devices"), "lo");
  EXPECT_THAT(reported(), HasSubstr("device_list=mlx5_0 has no effect"));
}

TEST_F(NixlBackendsTest, a_request_is_served_by_what_was_asked_for) {
  have({called("shm"), called("ucx")});
  ASSERT_TRUE(create("UCX").ok());
  const std::vector<std::string> asked = {"UCX"};
  EXPECT_EQ(backends_->served_by("shm", {})->name, "UCX");
  ASSERT_TRUE(create("SHM").ok());
  EXPECT_EQ(backends_->served_by("shm", asked)->name, "UCX");
  EXPECT_EQ(backends_->served_by("shm", {})->name, "SHM");
  EXPECT_EQ(backends_->served_by("posix", {}), nullptr);
}

TEST(SharesMemoryTest, lists_are_read_as_ucx_reads_them) {
  for (const char* with :
       {"", "all", "sm", "tcp,cma", "rc,shm,self", "^tcp", "^rc,dc", "posix:aux"})
    EXPECT_TRUE(shares_memory(with)) << with;
  for (const char* without : {"tcp", "tcp,self", "rc_x,ud:aux", "^sm", "^shm,tcp", "self"})
    EXPECT_FALSE(shares_memory(without)) << without;
}

}  // namespace
}  // namespace towpath::nixl
