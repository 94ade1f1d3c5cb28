#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/backend/registry.h>

namespace towpath::backend {
namespace {

BackendType type_named(std::string name) {
  return {.name = std::move(name),
          .params = {{"depth", "64", "operations in flight"}},
          .open = [](const BackendContext&) -> Result<std::unique_ptr<Backend>> {
            return error(Code::unavailable, "opened");
          }};
}

TEST(RegistryTest, finds_by_name_and_alias_whatever_the_case) {
  Registry registry;
  ASSERT_TRUE(registry.add(type_named("posix")).ok());
  ASSERT_TRUE(registry.alias("FILE_IO", "posix").ok());
  EXPECT_EQ((*registry.find("POSIX"))->name, "posix");
  EXPECT_EQ((*registry.find("File_Io"))->name, "posix");
  EXPECT_EQ(registry.find("ucx").code(), Code::not_found);
  EXPECT_THAT(std::string(registry.find("ucx").status().hint()), ::testing::HasSubstr("posix"));
}

TEST(RegistryTest, refuses_names_that_are_taken_or_unusable) {
  Registry registry;
  ASSERT_TRUE(registry.add(type_named("shm")).ok());
  ASSERT_TRUE(registry.add(type_named("posix")).ok());
  EXPECT_EQ(registry.add(type_named("shm")).code(), Code::already_exists);
  EXPECT_EQ(registry.add(type_named("Shm")).code(), Code::invalid_argument);
  EXPECT_EQ(registry.alias("shm", "posix").code(), Code::already_exists);
  EXPECT_EQ(registry.alias("x", "nope").code(), Code::not_found);
}

TEST(RegistryTest, unknown_parameters_are_refused_before_anything_opens) {
  Registry registry;
  ASSERT_TRUE(registry.add(type_named("shm")).ok());
  BackendContext context;
  context.params = {{"detph", "3"}};
  EXPECT_EQ(registry.open("shm", context).code(), Code::invalid_argument);
  context.params = {{"depth", "3"}};
  EXPECT_EQ(registry.open("shm", context).code(), Code::unavailable);
}

TEST(CapabilitiesTest, pair_answers_for_kinds_operation_and_reach) {
  Capabilities capabilities;
  capabilities.pairs = {{MemoryKind::system, MemoryKind::disk, true, false, true, false}};
  EXPECT_NE(capabilities.pair(MemoryKind::system, MemoryKind::disk, TransferOp::read, true),
            nullptr);
  EXPECT_EQ(capabilities.pair(MemoryKind::system, MemoryKind::disk, TransferOp::write, true),
            nullptr);
  EXPECT_EQ(capabilities.pair(MemoryKind::system, MemoryKind::disk, TransferOp::read, false),
            nullptr);
  EXPECT_TRUE(capabilities.takes(MemoryKind::disk));
  EXPECT_FALSE(capabilities.takes(MemoryKind::device));
  EXPECT_FALSE(capabilities.reaches_peers());
}

}  // namespace
}  // namespace towpath::backend
