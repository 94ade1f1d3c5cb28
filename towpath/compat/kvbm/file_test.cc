#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/compat/kvbm/file.h>

namespace towpath::kvbm {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

auto said(const std::string& path, const std::string& value, const std::string& place) {
  return testing::AllOf(Field(&Setting::path, path), Field(&Setting::value, value),
                        Field(&Setting::place, place));
}

TEST(KvbmFileTest, tables_and_dotted_keys_are_paths) {
  const auto read = parse_kvbm_toml(
      "# a comment\n"
      "onboard.mode = \"inter\" # as # it is\n"
      "[cache.host]\r\n"
      "  cache_size_gb = 4.0\r\n"
      "num_blocks = 1_000\n"
      "[ cache . 'disk' ]\n"
      "storage_path = '/var/lib/a # b'\n"
      "use_gds = false\n"
      "[offload.g2_to_g3]\n"
      "policies = [\"presence\", \"presence_lfu\"]\n"
      "presence = {}\n",
      "kvbm.toml");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_THAT(*read, ElementsAre(said("onboard.mode", "inter", "kvbm.toml:2"),
                                 said("cache.host.cache_size_gb", "4.0", "kvbm.toml:4"),
                                 said("cache.host.num_blocks", "1000", "kvbm.toml:5"),
                                 said("cache.disk.storage_path", "/var/lib/a # b", "kvbm.toml:7"),
                                 said("cache.disk.use_gds", "false", "kvbm.toml:8"),
                                 said("offload.g2_to_g3.policies",
                                      "[\"presence\", \"presence_lfu\"]", "kvbm.toml:10"),
                                 said("offload.g2_to_g3.presence", "{}", "kvbm.toml:11")));
}

TEST(KvbmFileTest, a_line_that_cannot_be_read_is_named) {
  for (const char* line : {"[cache", "[[cache]]", "[]", "[a..b]", "cache", "= 4", "a = ", "a = \"b",
                           "a = [1,", "a = b c", "a. = 1", "a = \"b\" \"c\""}) {
    const auto read = parse_kvbm_toml(std::string("x = 1\n") + line, "f");
    EXPECT_EQ(read.status().code(), Code::invalid_argument) << line;
    EXPECT_THAT(read.status().to_string(), HasSubstr("f:2")) << line;
  }
  const auto secret = parse_kvbm_toml("secret_key = \"hush", "f");
  EXPECT_THAT(secret.status().to_string(),
              testing::AllOf(HasSubstr("'secret_key '"), testing::Not(HasSubstr("hush"))));
  const auto twice = parse_kvbm_toml("a.b = 1\n[a]\nb = 2\n", "f");
  EXPECT_THAT(twice.status().to_string(), HasSubstr("f:3 says a.b again"));
}

TEST(KvbmFileTest, json_says_the_same) {
  const auto read = parse_kvbm_json(
      R"({"cache": {"host": {"cache_size_gb": 4.5, "num_blocks": null}}, "on": true, "l": ["a"]})",
      "JSON");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_THAT(*read, ElementsAre(said("cache.host.cache_size_gb", "4.5", "JSON"),
                                 said("l", "[\"a\"]", "JSON"), said("on", "true", "JSON")));
  const std::string deep(100'000, '[');
  for (const std::string& text : {std::string("{"), std::string("[1]"), "{\"a\":" + deep})
    EXPECT_EQ(parse_kvbm_json(text, "JSON").status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::kvbm
