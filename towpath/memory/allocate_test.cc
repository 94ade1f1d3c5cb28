#include <gtest/gtest.h>

#include <towpath/memory/allocate.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::memory {
namespace {

TEST(AllocateTest, system_memory) {
  auto region = allocate({.kind = MemoryKind::system, .size_bytes = 100});
  ASSERT_TRUE(region.ok());
  EXPECT_EQ((*region)->kind(), MemoryKind::system);
  EXPECT_EQ((*region)->size(), 100u);
}

TEST(AllocateTest, disk_takes_the_size_of_the_allocation) {
  auto directory = sys::TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  sys::SystemFileSystem files;
  auto region = allocate({.kind = MemoryKind::disk,
                          .size_bytes = 8192,
                          .disk = {.path = directory->path() + "/", .size_bytes = 1},
                          .files = &files});
  ASSERT_TRUE(region.ok()) << region.status().to_string();
  EXPECT_EQ((*region)->kind(), MemoryKind::disk);
  EXPECT_EQ((*region)->size(), 8192u);
}

TEST(AllocateTest, disk_needs_a_file_system) {
  auto region = allocate({.kind = MemoryKind::disk, .size_bytes = 1, .disk = {.path = "x"}});
  EXPECT_EQ(region.code(), Code::invalid_argument);
  EXPECT_FALSE(region.status().remedy().empty());
}

TEST(AllocateTest, zero_bytes_of_any_kind_are_refused) {
  for (const MemoryKind kind : kMemoryKinds)
    EXPECT_EQ(allocate({.kind = kind}).code(), Code::invalid_argument) << name_of(kind);
}

TEST(AllocateTest, kinds_that_are_only_words_say_what_is_missing) {
  for (const MemoryKind kind :
       {MemoryKind::pinned, MemoryKind::device, MemoryKind::object, MemoryKind::block}) {
    const Status status = allocate({.kind = kind, .size_bytes = 4096}).status();
    EXPECT_EQ(status.code(), Code::unsupported) << name_of(kind);
    EXPECT_NE(status.message().find(name_of(kind)), std::string::npos) << status.to_string();
    EXPECT_FALSE(status.remedy().empty()) << name_of(kind);
  }
}

TEST(AllocateTest, a_number_that_is_no_kind_is_unsupported) {
  EXPECT_EQ(allocate({.kind = static_cast<MemoryKind>(99), .size_bytes = 1}).code(),
            Code::unsupported);
}

}  // namespace
}  // namespace towpath::memory
