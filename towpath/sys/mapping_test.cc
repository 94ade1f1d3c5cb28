#include <cstring>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::sys {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

bool is_mapped(const void* address) {
  unsigned char resident = 0;
  return ::mincore(const_cast<void*>(address), 1, &resident) == 0;
}

TEST(MappingTest, anonymous_memory_is_aligned_and_zeroed) {
  auto mapping = Mapping::anonymous(10000);
  ASSERT_TRUE(mapping.ok()) << mapping.status().to_string();
  EXPECT_EQ(mapping->size(), 10000u);
  EXPECT_EQ(address_of(mapping->data()) % page_size(), 0u);
  for (const std::byte byte : mapping->bytes()) ASSERT_EQ(byte, std::byte{0});
}

TEST(MappingTest, unmaps_when_it_dies_and_when_replaced) {
  auto mapping = Mapping::anonymous(4096);
  ASSERT_TRUE(mapping.ok());
  const void* address = mapping->data();
  EXPECT_TRUE(is_mapped(address));
  { const Mapping moved = std::move(*mapping); }
  EXPECT_FALSE(is_mapped(address));
  EXPECT_FALSE(*mapping);
}

TEST(MappingTest, two_mappings_of_a_file_share_bytes) {
  auto fd = create_sealed_memfd("two", 8192);
  ASSERT_TRUE(fd.ok());
  auto writer = Mapping::of_file({.fd = fd->get(), .size_bytes = 8192});
  auto reader =
      Mapping::of_file({.fd = fd->get(), .offset = 4096, .size_bytes = 4096, .writable = false});
  ASSERT_TRUE(writer.ok() && reader.ok());
  writer->data()[4097] = std::byte{7};
  EXPECT_EQ(reader->data()[1], std::byte{7});
}

TEST(MappingTest, a_chosen_address_is_used_and_never_taken_from_another) {
  auto fd = create_sealed_memfd("at", 4096);
  auto place = Mapping::anonymous(4096);
  ASSERT_TRUE(fd.ok() && place.ok());
  void* at = place->data();
  const MapFile options{.fd = fd->get(), .size_bytes = 4096, .at = at};
  const auto refused = Mapping::of_file(options);
  EXPECT_EQ(refused.code(), Code::already_exists);
  EXPECT_THAT(
      refused.status().to_string(),
      AnyOf(HasSubstr("the place is taken"),
            HasSubstr("instead of")));  // where MAP_FIXED_NOREPLACE (Linux 4.17) is not known
  *place = Mapping();
  { const Mapping gone = std::move(*place); }
  const auto mapped = Mapping::of_file(options);
  ASSERT_TRUE(mapped.ok()) << mapped.status().to_string();
  EXPECT_EQ(mapped->data(), at);
}

// munmap() refuses to split a huge page: the whole would stay mapped while the process lives.
TEST(MappingTest, a_part_of_a_huge_page_is_unmapped_with_the_page) {
  constexpr std::uint64_t kHugePage = 2 << 20;
  auto fd = create_sealed_memfd("huge", kHugePage, kHugePage);
  if (!fd.ok()) GTEST_SKIP() << fd.status().to_string();
  for (const bool inherited : {true, false}) {
    const void* address = nullptr;
    {
      const auto part =
          Mapping::of_file({.fd = fd->get(), .size_bytes = 4096, .inherited = inherited});
      ASSERT_TRUE(part.ok()) << part.status().to_string();
      EXPECT_EQ(part->size(), 4096u);
      address = part->data();
      EXPECT_TRUE(is_mapped(address));
    }
    EXPECT_FALSE(is_mapped(address)) << inherited;
  }
}

TEST(MappingTest, refuses_what_cannot_be_right) {
  auto fd = create_sealed_memfd("small", 4096);
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(Mapping::anonymous(0).code(), Code::invalid_argument);
  EXPECT_EQ(Mapping::anonymous(UINT64_MAX / 2).code(), Code::exhausted);
  EXPECT_EQ(Mapping::of_file({.fd = fd->get()}).code(), Code::invalid_argument);
  EXPECT_EQ(Mapping::of_file({.fd = fd->get(), .offset = 12, .size_bytes = 4}).code(),
            Code::invalid_argument);
  EXPECT_EQ(Mapping::of_file({.fd = fd->get(), .size_bytes = 4, .at = reinterpret_cast<void*>(12)})
                .code(),
            Code::invalid_argument);
  EXPECT_EQ(Mapping::of_file({.fd = -1, .size_bytes = 4}).code(), Code::invalid_argument);
}

TEST(MappingTest, refuses_bytes_behind_the_end_of_a_file) {
  auto fd = create_sealed_memfd("small", 4096);
  ASSERT_TRUE(fd.ok());
  const auto refused = Mapping::of_file({.fd = fd->get(), .size_bytes = 4097});
  EXPECT_EQ(refused.code(), Code::out_of_range);
  EXPECT_EQ(
      Mapping::of_file({.fd = fd->get(), .offset = UINT64_MAX - 4095, .size_bytes = 8192}).code(),
      Code::out_of_range);
}

TEST(MappingTest, a_read_only_descriptor_is_not_mapped_for_writing) {
  auto directory = TemporaryDirectory::create();
  ASSERT_TRUE(directory.ok());
  const std::string path = directory->file("f");
  const Fd writer(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(writer.get(), 4096), 0);
  const Fd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(Mapping::of_file({.fd = reader.get(), .size_bytes = 4096}).code(), Code::denied);
  EXPECT_TRUE(Mapping::of_file({.fd = reader.get(), .size_bytes = 4096, .writable = false}).ok());
}

}  // namespace
}  // namespace towpath::sys
