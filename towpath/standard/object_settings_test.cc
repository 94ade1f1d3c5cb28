#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <towpath/core/format.h>
#include <towpath/standard/object_settings.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

class ObjectSettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write("credentials",
          "[default]\naws_access_key_id = d-key\naws_secret_access_key=d=secret/+\n"
          "# a remark\n[other]\nAWS_ACCESS_KEY_ID=o-key\naws_secret_access_key = o-secret\n"
          "aws_session_token = o-token\n");
    write("config", "[default]\nregion = eu-1\n[profile other]\nregion=eu-2\n");
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(directory.file(name)) << text;
    environment[name == "config" ? "AWS_CONFIG_FILE" : "AWS_SHARED_CREDENTIALS_FILE"] =
        directory.file(name);
  }
  sys::TemporaryDirectory directory = std::move(*sys::TemporaryDirectory::create("/tmp"));
  Environment environment;
};

TEST_F(ObjectSettingsTest, files_give_the_default_profile) {
  EXPECT_EQ(
      *object_params(environment),
      (backend::Params{{"access_key", "d-key"}, {"secret_key", "d=secret/+"}, {"region", "eu-1"}}));
}

TEST_F(ObjectSettingsTest, a_profile_is_chosen_by_name) {
  environment["AWS_PROFILE"] = "other";
  EXPECT_EQ(*object_params(environment), (backend::Params{{"access_key", "o-key"},
                                                          {"secret_key", "o-secret"},
                                                          {"session_token", "o-token"},
                                                          {"region", "eu-2"}}));
  environment["AWS_PROFILE"] = "nobody";
  EXPECT_EQ(object_params(environment).code(), Code::not_found);
}

TEST_F(ObjectSettingsTest, variables_win_over_files_and_are_not_mixed_with_them) {
  environment.insert({{"AWS_PROFILE", "other"},
                      {"AWS_ACCESS_KEY_ID", "v-key"},
                      {"AWS_SECRET_ACCESS_KEY", "v-secret"},
                      {"AWS_DEFAULT_BUCKET", "b"},
                      {"AWS_ENDPOINT_URL", "http://later"},
                      {"AWS_ENDPOINT_OVERRIDE", "http://first"},
                      {"AWS_DEFAULT_REGION", "r"}});
  EXPECT_EQ(*object_params(environment), (backend::Params{{"access_key", "v-key"},
                                                          {"secret_key", "v-secret"},
                                                          {"bucket", "b"},
                                                          {"endpoint_override", "http://first"},
                                                          {"region", "r"}}));
}

TEST_F(ObjectSettingsTest, without_files_and_variables_nothing_is_said) {
  EXPECT_TRUE(object_params({})->empty());
  EXPECT_TRUE(object_params({{"HOME", directory.path()}})->empty());
}

TEST_F(ObjectSettingsTest, home_is_where_the_files_are) {
  ASSERT_EQ(::mkdir(directory.file(".aws").c_str(), 0700), 0);
  std::ofstream(directory.file(".aws/credentials")) << "[default]\naws_access_key_id=h\n";
  EXPECT_EQ(object_params({{"HOME", directory.path()}})->at("access_key"), "h");
}

TEST_F(ObjectSettingsTest, a_file_that_cannot_be_read_is_reported) {
  environment["AWS_CONFIG_FILE"] = directory.path();
  const auto reported = object_params(environment);
  EXPECT_FALSE(reported.ok());
  EXPECT_THAT(reported.status().to_string(), ::testing::HasSubstr(directory.path()));
}

TEST(ObjectTypeTest, users_of_nixl_find_it) {
  const backend::Registry registry = make_registry();
  ASSERT_TRUE(registry.find("OBJ").ok());
  EXPECT_EQ((*registry.find("obj"))->name, "object");
}

}  // namespace
}  // namespace towpath::standard
