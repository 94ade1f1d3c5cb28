#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/standard/nixl_names.h>

namespace towpath::standard {
namespace {

using testing::ElementsAre;

backend::BackendType type_called(std::string name) {
  backend::BackendType type{.name = std::move(name)};
  type.open = [](const backend::BackendContext&) -> Result<std::unique_ptr<backend::Backend>> {
    return error(Code::unsupported, "only a name");
  };
  return type;
}

TEST(NixlNamesTest, backends_are_found_under_the_names_of_both) {
  backend::Registry registry;
  ASSERT_TRUE(registry.add(type_called("object")).ok());
  ASSERT_TRUE(registry.add(type_called("posix")).ok());
  EXPECT_FALSE(registry.find("OBJ").ok());
  add_nixl_aliases(registry);
  ASSERT_TRUE(registry.find("OBJ").ok());
  EXPECT_EQ((*registry.find("OBJ"))->name, "object");
  EXPECT_EQ((*registry.find("POSIX"))->name, "posix");
  EXPECT_FALSE(registry.find("UCX").ok()) << "there is no such type here";
  ASSERT_TRUE(registry.add(type_called("gds")).ok());
  add_nixl_aliases(registry);
  EXPECT_EQ((*registry.find("GDS_MT"))->name, "gds");
  EXPECT_EQ((*registry.find("GDS"))->name, "gds");
}

TEST(NixlNamesTest, a_type_that_nixl_does_not_know_keeps_its_name) {
  EXPECT_THAT(nixl_backend_names("ucx"), ElementsAre("UCX"));
  EXPECT_THAT(nixl_backend_names("object"), ElementsAre("OBJ"));
  EXPECT_THAT(nixl_backend_names("gds"), ElementsAre("GDS", "GDS_MT"));
  EXPECT_THAT(nixl_backend_names("shm"), ElementsAre("shm"));
}

TEST(NixlNamesTest, every_kind_of_memory_has_a_name) {
  EXPECT_EQ(nixl_memory_name(MemoryKind::pinned), "DRAM");
  EXPECT_EQ(nixl_memory_name(MemoryKind::disk), "FILE");
  for (const MemoryKind kind : kMemoryKinds) EXPECT_NE(nixl_memory_name(kind), "UNKNOWN");
}

}  // namespace
}  // namespace towpath::standard
