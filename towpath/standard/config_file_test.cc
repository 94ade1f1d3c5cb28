#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/standard/config_file.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/child.h>

namespace towpath::standard {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ConfigFileTest, keys_are_variables_and_values_what_they_would_say) {
  const auto file = parse_config_file(
                        "# how we run\n"
                        "NIXL_ETCD_ENDPOINTS = \"http://a:1,http://b:2\"\n"
                        "\n"
                        "  TOWPATH_TRANSFER_TIMEOUT_MS=+1_500# a second and a half\r\n"
                        "NIXL_TELEMETRY_ENABLE = true\n"
                        "NIXL_TELEMETRY_PROMETHEUS_LOCAL = false\n",
                        "nixl.cfg")
                        .value();
  EXPECT_THAT(file.values, ElementsAre(Pair("NIXL_ETCD_ENDPOINTS", "http://a:1,http://b:2"),
                                       Pair("NIXL_TELEMETRY_ENABLE", "true"),
                                       Pair("NIXL_TELEMETRY_PROMETHEUS_LOCAL", "false"),
                                       Pair("TOWPATH_TRANSFER_TIMEOUT_MS", "1500")));
  EXPECT_EQ(file.place_of("TOWPATH_TRANSFER_TIMEOUT_MS"), "nixl.cfg:4");
  EXPECT_EQ(file.place_of("NIXL_LOG_LEVEL"), "");
  EXPECT_THAT(file.remarks, IsEmpty());
}

TEST(ConfigFileTest, what_is_no_setting_is_remarked_on) {
  const auto file = parse_config_file(
                        "speed = 'high'\n"
                        "[plugin.posix] # of another program\n"
                        "NIXL_LOG_LEVEL = [\n",
                        "nixl.cfg")
                        .value();
  EXPECT_THAT(file.values, IsEmpty());
  std::vector<std::string> said;
  for (const auto& [key, why] : file.remarks)
    said.push_back(file.place_of(key) + " " + key + " " + why);
  EXPECT_THAT(said, ElementsAre(HasSubstr("nixl.cfg:1 speed is no setting"),
                                HasSubstr("nixl.cfg:2 [plugin.posix] # of another program and")));
}

TEST(ConfigFileTest, text_is_written_as_in_toml) {
  const auto file = parse_config_file(R"(NIXL_A = "a \"b\" #c\\\t\n"
"NIXL_B" = '\n'
NIXL_C = "" # nothing
NIXL_D = -0)",
                                      "nixl.cfg")
                        .value();
  EXPECT_THAT(file.values, ElementsAre(Pair("NIXL_A", "a \"b\" #c\\\t\n"), Pair("NIXL_B", "\\n"),
                                       Pair("NIXL_C", ""), Pair("NIXL_D", "-0")));
}

TEST(ConfigFileTest, line_that_cannot_be_read_is_reported_with_its_number) {
  for (const char* wrong :
       {"NIXL_A = WARN", "NIXL_A", "NIXL_A =", "= 1", "NIXL_A = \"", "NIXL_A = \"\\",
        "NIXL_A = \"\\q\"", "NIXL_A = \"\"\"a\"\"\"", "NIXL_A = 'a' b", "NIXL_A = [1]",
        "NIXL_A = 1.5", "NIXL_A = 0x1f", "NIXL_A = _1", "NIXL_A = 1_", "NIXL_A = +", "NIXL A = 1",
        "\"NIXL_A = 1"}) {
    const auto file = parse_config_file(cat("# first\n", wrong, "\n"), "nixl.cfg");
    EXPECT_EQ(file.code(), Code::invalid_argument) << wrong;
    EXPECT_THAT(file.status().to_string(), HasSubstr("nixl.cfg:2 cannot be read")) << wrong;
  }
  const auto twice = parse_config_file("NIXL_A = 1\n\nNIXL_A = 1\n", "nixl.cfg");
  EXPECT_THAT(twice.status().to_string(), HasSubstr("nixl.cfg:3 says NIXL_A again"));
}

class ConfigFilePlacesTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = directory_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  std::string missing() { return directory_.path() + "/missing"; }
  sys::TemporaryDirectory directory_ = sys::TemporaryDirectory::create().value();
};

TEST_F(ConfigFilePlacesTest, first_of_three_places_is_read_and_no_other) {
  const std::string named = write("named", "NIXL_A = 1\n");
  const std::string home = write(".nixl.cfg", "NIXL_B = 1\n");
  const std::string system = write("system", "NIXL_C = 1\n");
  const std::string home_directory = directory_.path();
  EXPECT_EQ(read_config_file({}, missing()).value().path, "");
  EXPECT_EQ(read_config_file({{"HOME", "/nowhere"}}, system).value().path, system);
  EXPECT_EQ(read_config_file({{"HOME", home_directory}}, system).value().path, home);
  const auto file =
      read_config_file({{"HOME", home_directory}, {"NIXL_CONFIG_FILE", named}}, system).value();
  EXPECT_EQ(file.path, named);
  EXPECT_THAT(file.values, ElementsAre(Pair("NIXL_A", "1")));
}

TEST_F(ConfigFilePlacesTest, file_that_is_asked_for_must_be_there) {
  const auto none = read_config_file({{"NIXL_CONFIG_FILE", missing()}}, missing());
  EXPECT_EQ(none.code(), Code::not_found);
  EXPECT_THAT(none.status().to_string(), HasSubstr("NIXL_CONFIG_FILE='" + missing()));
  const auto folder = read_config_file({{"TOWPATH_CONFIG_FILE", directory_.path()}}, missing());
  EXPECT_FALSE(folder.ok()) << "a directory";
}

TEST(ConfigFileTest, a_home_that_may_not_be_entered_has_no_file) {
  if (::geteuid() != 0) GTEST_SKIP() << "run as root: root alone can become another user";
  const auto home = sys::TemporaryDirectory::create().value();
  std::ofstream(home.file(".nixl.cfg")) << "NIXL_LOG_LEVEL = 'info'\n";
  const Environment environment{{"HOME", home.path()}};
  EXPECT_EQ(read_config_file(environment, "/none")->values.size(), 1U);
  EXPECT_TRUE(sys::testing::passes_in_child([&] {
    ASSERT_EQ(::seteuid(65534), 0);
    const auto file = read_config_file(environment, "/none");
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_THAT(file->values, IsEmpty());
    ASSERT_EQ(file->remarks.size(), 1U);
    EXPECT_EQ(file->remarks[0].variable, "HOME");
  }));
}

}  // namespace
}  // namespace towpath::standard
