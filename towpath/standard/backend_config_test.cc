#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/memory/borrowed.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/backend_config.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// Variables without their prefix.
Environment variables(const std::map<std::string, std::string>& said) {
  Environment environment{{"PATH", "/bin"}, {"DYN_KVBM_NIXL_BACKENDS", "true"}};
  for (const auto& [name, value] : said) environment["DYN_KVBM_NIXL_BACKEND_" + name] = value;
  return environment;
}
BackendConfig read(const std::map<std::string, std::string>& said) {
  const auto config = BackendConfig::from_environment(variables(said));
  EXPECT_TRUE(config.ok()) << config.status().to_string();
  return config.ok() ? *config : BackendConfig();
}
std::string refusal(const std::map<std::string, std::string>& said) {
  const auto config = BackendConfig::from_environment(variables(said));
  EXPECT_EQ(config.code(), Code::invalid_argument);
  return config.status().to_string();
}
std::vector<std::string> names(const BackendConfig& config) {
  std::vector<std::string> out;
  for (const BackendChoice& choice : config.backends()) out.push_back(choice.name);
  return out;
}

TEST(BackendConfigTest, nothing_said_means_ucx) {
  EXPECT_THAT(names(read({})), ElementsAre("UCX"));
  EXPECT_EQ(read({}), BackendConfig::usual());
}

TEST(BackendConfigTest, only_refusals_mean_no_backend) {
  EXPECT_THAT(names(read({{"UCX", "false"}})), ElementsAre());
}

TEST(BackendConfigTest, switches_are_read_in_all_their_spellings) {
  for (const char* on : {"1", "true", "TRUE", "Yes", "y", "on", "enable"})
    EXPECT_TRUE(read({{"OBJ", on}}).has_backend("obj")) << on;
  for (const char* off : {"0", "false", "False", "no", "N", "off", "disable"})
    EXPECT_FALSE(read({{"OBJ", off}}).has_backend("obj")) << off;
  EXPECT_THAT(refusal({{"OBJ", "maybe"}}), AllOf(HasSubstr("BACKEND_OBJ"), HasSubstr("'maybe'")));
  EXPECT_THAT(refusal({{"OBJ", ""}}), HasSubstr("no switch"));
}

TEST(BackendConfigTest, names_with_an_underscore_work) {
  EXPECT_THAT(names(read({{"GDS_MT", "true"}})), ElementsAre("GDS_MT"));
  EXPECT_THAT(names(read({{"AZURE_BLOB", "on"}, {"GDS", "1"}})), ElementsAre("AZURE_BLOB", "GDS"));
  const BackendConfig both = read({{"GDS_MT_THREAD_COUNT", "4"}, {"GDS_BATCH_LIMIT", "8"}});
  EXPECT_EQ(*both.params_of("gds_mt"), (backend::Params{{"thread_count", "4"}}));
  EXPECT_EQ(*both.params_of("GDS"), (backend::Params{{"batch_limit", "8"}}));
}

TEST(BackendConfigTest, names_of_others_are_known_when_they_are_reported) {
  const std::vector<std::string> known{"my_disk"};
  const auto config = BackendConfig::from_environment(variables({{"MY_DISK_DEPTH", "3"}}), known);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(*config->params_of("MY_DISK"), (backend::Params{{"depth", "3"}}));
  // Not reported, a switch is still one.
  EXPECT_THAT(names(read({{"MY_DISK", "true"}})), ElementsAre("MY_DISK"));
  EXPECT_THAT(refusal({{"MY_DISK_DEPTH", "3"}}), HasSubstr("MY_DISK_DEPTH"));
}

TEST(BackendConfigTest, parameters_switch_on_and_a_refusal_wins) {
  EXPECT_THAT(names(read({{"POSIX_DEPTH", "9"}})), ElementsAre("POSIX"));
  EXPECT_THAT(names(read({{"POSIX_DEPTH", "9"}, {"POSIX", "no"}, {"UCX", "yes"}})),
              ElementsAre("UCX"));
  EXPECT_EQ(read({{"posix_Depth", "9"}}), BackendConfig().with("posix", {{"depth", "9"}}));
}

TEST(BackendConfigTest, the_order_is_that_of_the_alphabet) {
  EXPECT_THAT(names(read({{"UCX", "1"}, {"posix", "1"}, {"OBJ", "1"}, {"GDS_MT", "1"}})),
              ElementsAre("GDS_MT", "OBJ", "POSIX", "UCX"));
}

TEST(BackendConfigTest, every_contradiction_is_reported) {
  const std::string reported = refusal({{"UCX", "1"},
                                        {"ucx", "0"},
                                        {"POSIX_DEPTH", "1"},
                                        {"POSIX_depth", "2"},
                                        {"", "1"},
                                        {"UCX_", "1"}});
  EXPECT_THAT(reported, AllOf(HasSubstr("on and off"), HasSubstr("two values"),
                              HasSubstr("names no backend"), HasSubstr("names no parameter")));
  EXPECT_THAT(names(read({{"UCX", "1"}, {"ucx", "yes"}})), ElementsAre("UCX"));
}

TEST(BackendConfigTest, a_config_is_written_by_hand_too) {
  BackendConfig config;
  EXPECT_TRUE(config.backends().empty());
  config.with("ucx").with("Posix", {{"depth", "8"}, {"engine", "threads"}}).with("OBJ");
  EXPECT_THAT(names(config), ElementsAre("UCX", "POSIX", "OBJ"));
  EXPECT_TRUE(config.has_backend("uCx"));
  EXPECT_EQ(config.params_of("GDS"), nullptr);
  config.merge(BackendConfig().with("POSIX", {{"depth", "9"}}).with("GDS")).without("obj");
  EXPECT_THAT(names(config), ElementsAre("UCX", "POSIX", "GDS"));
  EXPECT_EQ(*config.params_of("posix"), (backend::Params{{"depth", "9"}, {"engine", "threads"}}));
}

// ---- Creating them

class CreateBackendsTest : public testing::Test {
 protected:
  agent::Agent& agent() { return (*node_)->agent(); }

 private:
  Result<std::unique_ptr<Node>> node_ = Node::open({.name = "n", .progress_thread = false});
};

TEST_F(CreateBackendsTest, all_in_their_order_with_their_parameters) {
  const auto config = BackendConfig().with("posix", {{"engine", "threads"}}).with("SHM");
  ASSERT_TRUE(create_backends(agent(), config).ok());
  EXPECT_THAT(agent().backends(), ElementsAre("posix", "shm"));
  EXPECT_TRUE(has_backend(agent(), "POSIX"));
  EXPECT_TRUE(create_backends(agent(), BackendConfig()).ok()) << "none is legal";
}

TEST_F(CreateBackendsTest, strict_tries_all_and_names_each_that_failed) {
  const auto config =
      BackendConfig().with("DUDE").with("SHM").with("POSIX", {{"depth", "0"}}).with("loopback");
  const Status status = create_backends(agent(), config);
  EXPECT_EQ(status.code(), Code::not_found);
  EXPECT_THAT(status.to_string(),
              AllOf(HasSubstr("2 of 4"), HasSubstr("DUDE"), HasSubstr("POSIX: posix: depth='0'")));
  EXPECT_THAT(agent().backends(), ElementsAre("shm", "loopback"));
}

TEST_F(CreateBackendsTest, tolerant_goes_on_with_what_there_is) {
  const auto failures =
      create_available_backends(agent(), BackendConfig().with("DUDE").with("posix"));
  ASSERT_TRUE(failures.ok());
  ASSERT_EQ(failures->size(), 1U);
  EXPECT_EQ(failures->front().name, "DUDE");
  EXPECT_TRUE(create_available_backends(agent(), BackendConfig())->empty());
  const auto none = create_available_backends(agent(), BackendConfig().with("DUDE").with("NO"));
  EXPECT_EQ(none.code(), Code::not_found);
  EXPECT_THAT(none.status().to_string(), AllOf(HasSubstr("DUDE"), HasSubstr("NO")));
}

TEST_F(CreateBackendsTest, what_is_there_already_is_fine_but_not_new_parameters_for_it) {
  ASSERT_TRUE(create_backends(agent(), BackendConfig().with("posix")).ok());
  EXPECT_TRUE(create_backends(agent(), BackendConfig().with("POSIX")).ok());
  const auto changed = BackendConfig().with("POSIX", {{"depth", "3"}});
  EXPECT_EQ(create_backends(agent(), changed).code(), Code::already_exists);
}

TEST_F(CreateBackendsTest, what_is_required_and_missing_is_reported_with_what_is_there) {
  ASSERT_TRUE(create_backends(agent(), BackendConfig().with("posix")).ok());
  EXPECT_TRUE(require_backend(agent(), "POSIX").ok());
  const Status missing = require_backend(agent(), "GDS_MT");
  EXPECT_EQ(missing.code(), Code::not_found);
  EXPECT_THAT(missing.to_string(), AllOf(HasSubstr("GDS_MT"), HasSubstr("posix")));
}

// As NIXL's users do it: a backend by configuration, a file by mode and path under a number of
// their own, a query by path.
TEST_F(CreateBackendsTest, a_configured_backend_writes_a_file_that_is_named_by_path) {
  ASSERT_TRUE(create_backends(agent(), BackendConfig().with("POSIX")).ok());
  const auto directory = std::move(*sys::TemporaryDirectory::create());
  const std::string path = directory.file("blocks");
  const memory::SharedRegion bytes = *memory::SystemRegion::allocate(8192);
  const memory::SharedRegion file = *memory::BorrowedRegion::create({.kind = MemoryKind::disk,
                                                                     .size_bytes = 8192,
                                                                     .device_id = UINT64_MAX,
                                                                     .key = "rw,create:" + path});
  const auto known_bytes = agent().register_region(bytes);
  const auto known_file = agent().register_region(file);
  ASSERT_TRUE(known_file.ok()) << known_file.status().to_string();
  DescriptorList from(MemoryKind::system);
  DescriptorList to(MemoryKind::disk);
  ASSERT_TRUE(from.add(Descriptor{bytes->descriptor().address, 8192, 0}).ok());
  ASSERT_TRUE(to.add(Descriptor{0, 8192, UINT64_MAX}).ok());
  auto write = agent().create_transfer(TransferOp::write, from, "n", to);
  ASSERT_TRUE(write.ok()) << write.status().to_string();
  ASSERT_TRUE(write->post().ok());
  EXPECT_EQ(write->wait(), Outcome::done) << write->status().to_string();
  const std::vector<RegionDescriptor> asked{{.kind = MemoryKind::disk, .key = path},
                                            {.kind = MemoryKind::disk, .key = path + "x"}};
  const auto answers = agent().query("POSIX", asked);
  ASSERT_TRUE(answers.ok()) << answers.status().to_string();
  EXPECT_EQ(answers->front()->at("size"), "8192");
  EXPECT_FALSE(answers->back().has_value());
}

TEST(EnvironmentTest, holds_what_the_process_was_given) {
  const Environment environment = read_environment();
  const auto path = environment.find("PATH");
  ASSERT_NE(path, environment.end());
  EXPECT_FALSE(path->second.empty());
}

}  // namespace
}  // namespace towpath::standard
