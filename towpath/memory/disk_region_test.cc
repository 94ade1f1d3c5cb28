#include <cstdlib>
#include <set>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/memory/disk_region.h>
#include <towpath/memory/system_region.h>
#include <towpath/memory/testing/observe.h>
#include <towpath/memory/view.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/child.h>

namespace towpath::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::next_descriptor;
using ::testing::SizeIs;
using ::testing::StartsWith;

class DiskRegionTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.file(name); }
  std::vector<std::string> names(const std::string& below = "") {
    auto found = files_.list(directory_.path() + below);
    EXPECT_TRUE(found.ok()) << found.status().to_string();
    return found.ok() ? *found : std::vector<std::string>();
  }
  std::shared_ptr<DiskRegion> open(const DiskOptions& options) {
    auto region = DiskRegion::open(options, files_);
    EXPECT_TRUE(region.ok()) << region.status().to_string();
    return region.ok() ? *std::move(region) : nullptr;
  }
  void put(const std::string& name, std::string_view text) {
    auto file = files_.open(path(name), {.writable = true, .create = true});
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(sys::write_exactly(**file, as_bytes(text), 0).ok());
  }
  std::string get(const std::string& name, std::size_t length) {
    auto file = files_.open(path(name), {});
    EXPECT_TRUE(file.ok());
    Bytes bytes(length);
    EXPECT_TRUE(sys::read_exactly(**file, bytes, 0).ok());
    return std::string(as_text(bytes));
  }

  sys::SystemFileSystem files_;
  sys::TemporaryDirectory directory_ = *sys::TemporaryDirectory::create();
};

TEST_F(DiskRegionTest, reports_the_open_file_and_begins_at_offset_zero) {
  const auto region = open({.path = path("kv"), .size_bytes = 65536});
  const RegionDescriptor self = region->descriptor();
  EXPECT_EQ(self.kind, MemoryKind::disk);
  EXPECT_EQ(self.address, 0u);
  EXPECT_EQ(self.length, 65536u);
  EXPECT_GE(self.fd, 0);
  EXPECT_EQ(self.device_id, static_cast<std::uint64_t>(self.fd));
  EXPECT_EQ(self.key, path("kv"));
  EXPECT_TRUE(region->created());
  EXPECT_TRUE(region->bytes().empty());
}

TEST_F(DiskRegionTest, space_is_reserved_and_zero) {
  const auto region = open({.path = path("kv"), .size_bytes = 1 << 20});
  struct stat info {};
  ASSERT_EQ(::fstat(region->descriptor().fd, &info), 0);
  EXPECT_GE(info.st_size, 1 << 20);
  EXPECT_GE(info.st_blocks * 512, 1 << 20);
  const auto memory = *SystemRegion::allocate(4096);
  memory->bytes()[0] = std::byte{1};
  ASSERT_TRUE(sys::read_exactly(region->file(), memory->bytes(), (1 << 20) - 4096).ok());
  EXPECT_EQ(memory->bytes()[0], std::byte{0});
}

TEST_F(DiskRegionTest, direct_or_reported_why_not) {
  const auto region = open({.path = path("kv"), .size_bytes = 4096});
  EXPECT_EQ(region->direct(), region->direct_refusal().empty()) << region->direct_refusal();
  const auto buffered = open({.path = path("kv2"), .size_bytes = 4096, .direct = DirectIo::off});
  EXPECT_FALSE(buffered->direct());
  EXPECT_EQ(buffered->file().alignment(), 1u);
}

TEST_F(DiskRegionTest, the_last_bytes_can_be_read_and_written_at_the_alignment) {
  const auto region = open({.path = path("kv"), .size_bytes = 5000});
  EXPECT_EQ(region->size(), 5000u);
  const std::uint64_t step = region->file().alignment();
  const std::uint64_t padded = (5000 + step - 1) / step * step;
  const auto memory = *SystemRegion::allocate(padded);
  memory->bytes()[4999] = std::byte{77};
  ASSERT_TRUE(sys::write_exactly(region->file(), memory->bytes(), 0).ok());
  ASSERT_TRUE(sys::read_exactly(region->file(), memory->bytes(), 0).ok());
  EXPECT_EQ(memory->bytes()[4999], std::byte{77});
}

TEST_F(DiskRegionTest, a_template_and_a_directory_give_new_names) {
  std::set<std::string> seen;
  std::vector<std::shared_ptr<DiskRegion>> regions;
  for (int i = 0; i < 3; ++i) {
    regions.push_back(open({.path = path("kv-XXXXXX"), .size_bytes = 1}));
    EXPECT_THAT(regions.back()->path(), StartsWith(path("kv-")));
    seen.insert(regions.back()->path());
    regions.push_back(open({.path = path("deep/er/"), .size_bytes = 1}));
    EXPECT_THAT(regions.back()->path(), StartsWith(path("deep/er/")));
    seen.insert(regions.back()->path());
  }
  EXPECT_THAT(seen, SizeIs(6));
  regions.clear();
  EXPECT_THAT(names(), ElementsAre("deep"));
  EXPECT_THAT(names("/deep/er"), IsEmpty());
}

TEST_F(DiskRegionTest, parents_are_made) {
  const auto region = open({.path = path("a/b/c/kv"), .size_bytes = 1});
  EXPECT_THAT(names("/a/b/c"), ElementsAre("kv"));
}

TEST_F(DiskRegionTest, life_decides_what_is_left) {
  { const auto region = open({.path = path("kept"), .size_bytes = 1, .life = FileLife::kept}); }
  {
    const auto region = open({.path = path("removed"), .size_bytes = 1});
    EXPECT_THAT(names(), ElementsAre("kept", "removed"));
  }
  {
    const auto region =
        open({.path = path("nameless"), .size_bytes = 1, .life = FileLife::nameless});
    EXPECT_THAT(names(), ElementsAre("kept"));
    const auto made = open({.path = path(""), .size_bytes = 1, .life = FileLife::nameless});
    EXPECT_THAT(names(), ElementsAre("kept"));
  }
  EXPECT_THAT(names(), ElementsAre("kept"));
}

TEST_F(DiskRegionTest, a_forked_child_that_drops_its_copy_leaves_the_file) {
  auto region = open({.path = path("removed"), .size_bytes = 1});
  EXPECT_TRUE(sys::testing::passes_in_child([&] { region.reset(); }));
  EXPECT_THAT(names(), ElementsAre("removed"));
  region.reset();
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(DiskRegionTest, a_file_that_was_there_keeps_its_bytes_and_its_name) {
  put("old", "precious");
  for (const FileLife life : {FileLife::kept, FileLife::removed_on_close}) {
    const auto region = open({.path = path("old"), .size_bytes = 8192, .life = life});
    EXPECT_FALSE(region->created());
    EXPECT_EQ(region->unlink().code(), Code::denied);
  }
  EXPECT_THAT(names(), ElementsAre("old"));
  EXPECT_EQ(get("old", 9), std::string("precious\0", 9));
}

TEST_F(DiskRegionTest, a_longer_file_is_not_cut) {
  put("old", std::string(10000, 'x'));
  { const auto region = open({.path = path("old"), .size_bytes = 16}); }
  EXPECT_EQ(get("old", 10000), std::string(10000, 'x'));
}

TEST_F(DiskRegionTest, nameless_never_takes_a_name_away_from_a_file_that_was_there) {
  put("old", "precious");
  auto region = DiskRegion::open(
      {.path = path("old"), .size_bytes = 8192, .life = FileLife::nameless}, files_);
  EXPECT_EQ(region.code(), Code::already_exists);
  EXPECT_EQ(get("old", 8), "precious");
}

TEST_F(DiskRegionTest, unlink_is_idempotent_and_the_bytes_live_on) {
  const auto region = open({.path = path("kv"), .size_bytes = 4096, .life = FileLife::kept});
  EXPECT_TRUE(region->unlink().ok());
  EXPECT_THAT(names(), IsEmpty());
  put("kv", "another's");
  EXPECT_TRUE(region->unlink().ok());
  EXPECT_THAT(names(), ElementsAre("kv"));
  const auto memory = *SystemRegion::allocate(4096);
  EXPECT_TRUE(sys::write_exactly(region->file(), memory->bytes(), 0).ok());
}

TEST_F(DiskRegionTest, a_name_that_somebody_removed_is_as_good_as_unlinked) {
  const auto region = open({.path = path("kv"), .size_bytes = 1});
  ASSERT_TRUE(files_.remove(path("kv")).ok());
  EXPECT_TRUE(region->unlink().ok());
}

TEST_F(DiskRegionTest, views_report_file_offsets_and_keep_the_file_open) {
  auto region = open({.path = path("kv"), .size_bytes = 65536});
  const int fd = region->descriptor().fd;
  auto view = *View::create(region, {.offset = 4096, .size_bytes = 4096});
  region.reset();
  EXPECT_EQ(view->descriptor().address, 4096u);
  EXPECT_EQ(view->descriptor().fd, fd);
  EXPECT_NE(::fcntl(fd, F_GETFD), -1);
  EXPECT_THAT(names(), ElementsAre("kv"));
  view.reset();
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(DiskRegionTest, wrong_options_are_refused_and_leave_nothing) {
  EXPECT_EQ(DiskRegion::open({.path = path("kv")}, files_).code(), Code::invalid_argument);
  EXPECT_EQ(DiskRegion::open({.size_bytes = 1}, files_).code(), Code::invalid_argument);
  EXPECT_EQ(DiskRegion::open({.path = path("XXXXXX"), .size_bytes = 1}, files_).code(),
            Code::invalid_argument);
  EXPECT_EQ(DiskRegion::open({.path = path("kv"), .size_bytes = UINT64_MAX}, files_).code(),
            Code::out_of_range);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(DiskRegionTest, a_directory_without_its_slash_gets_a_hint) {
  auto region = DiskRegion::open({.path = directory_.path(), .size_bytes = 1}, files_);
  EXPECT_EQ(region.code(), Code::invalid_argument) << region.status().to_string();
  EXPECT_THAT(std::string(region.status().hint()), HasSubstr("'/'"));
}

TEST_F(DiskRegionTest, a_parent_that_is_a_file_is_refused) {
  put("file", "x");
  EXPECT_FALSE(DiskRegion::open({.path = path("file/kv"), .size_bytes = 1}, files_).ok());
  EXPECT_EQ(get("file", 1), "x");
}

TEST_F(DiskRegionTest, more_than_the_disk_holds_leaves_no_file_and_no_descriptor) {
  const int before = next_descriptor();
  for (const FileLife life : {FileLife::kept, FileLife::removed_on_close, FileLife::nameless}) {
    auto region = DiskRegion::open(
        {.path = path("kv"), .size_bytes = std::uint64_t{1} << 43, .life = life}, files_);
    EXPECT_EQ(region.code(), Code::exhausted) << region.status().to_string();
    EXPECT_THAT(region.status().to_string(), HasSubstr("available"));
    EXPECT_THAT(names(), IsEmpty());
  }
  EXPECT_EQ(next_descriptor(), before);
}

TEST_F(DiskRegionTest, more_than_the_disk_holds_leaves_an_old_file_as_it_was) {
  put("old", "precious");
  auto region =
      DiskRegion::open({.path = path("old"), .size_bytes = std::uint64_t{1} << 43}, files_);
  EXPECT_EQ(region.code(), Code::exhausted);
  auto file = files_.open(path("old"), {});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*(*file)->size(), 8u);
  EXPECT_EQ(get("old", 8), "precious");
}

TEST_F(DiskRegionTest, where_direct_is_refused_required_fails_and_leaves_nothing) {
  auto shm = sys::TemporaryDirectory::create("/dev/shm");
  ASSERT_TRUE(shm.ok()) << shm.status().to_string();
  auto wanted = DiskRegion::open({.path = shm->file("kv"), .size_bytes = 8192}, files_);
  ASSERT_TRUE(wanted.ok()) << wanted.status().to_string();
  EXPECT_FALSE((*wanted)->direct());
  EXPECT_FALSE((*wanted)->direct_refusal().empty());
  const std::string refusal = (*wanted)->direct_refusal();
  auto required = DiskRegion::open(
      {.path = shm->file("kv2"), .size_bytes = 8192, .direct = DirectIo::required}, files_);
  EXPECT_EQ(required.code(), Code::unsupported);
  EXPECT_THAT(required.status().to_string(), HasSubstr(refusal));
  EXPECT_THAT(*files_.list(shm->path()), ElementsAre("kv"));
}

}  // namespace
}  // namespace towpath::memory
