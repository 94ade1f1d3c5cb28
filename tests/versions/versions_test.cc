// What the release before wrote is read, or refused by name; and so is every other version, at each
// door. The recorded bytes lie beside this file: README.md.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/kv/blobs/blob_store.h>
#include <towpath/kv/disk/drive_files.h>
#include <towpath/kv/disk/drive_format.h>
#include <towpath/kv/disk/store_fixture.h>
#include <towpath/rendezvous/fetch_until.h>
#include <towpath/rendezvous/file_rendezvous.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/memory_file_system.h>

#include "doors.h"

namespace towpath::versions {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kNewest = "0.2.0";

/// The folders beside this file.
std::vector<std::string> releases() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(TOWPATH_RECORDED))
    if (entry.is_directory()) found.push_back(entry.path().filename().string());
  return found;
}

Bytes recorded(const std::string& name, const std::string& release = kNewest) {
  std::ifstream file(cat(TOWPATH_RECORDED, "/", release, "/", name), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_FALSE(text.empty()) << name << " is not recorded";
  return to_bytes(text);
}

Door door_called(const std::string& name) {
  const auto doors = all_doors();
  const auto found = std::ranges::find(doors, name, &Door::name);
  EXPECT_NE(found, doors.end()) << name;
  return *found;
}

/// Refused as another version, with both numbers and what to do.
void expect_refused(const Status& status, std::uint64_t theirs, std::uint64_t ours) {
  const std::string text = status.to_string();
  EXPECT_EQ(status.code(), Code::unsupported) << text;
  EXPECT_THAT(text, HasSubstr(cat(" ", theirs)));
  EXPECT_THAT(text, HasSubstr(cat(" ", ours)));
  EXPECT_FALSE(status.hint().empty()) << text;
}

/// A version that is written still has the same bytes: a field that moved needs another one.
void expect_in_order(const Door& door, const std::string& release) {
  const Bytes bytes = recorded(door.name, release);
  const std::uint64_t theirs = version_in(door.place, bytes);
  const Status read = door.read(bytes);
  if (theirs < door.oldest || theirs > door.version)
    return expect_refused(read, theirs, door.version);
  EXPECT_TRUE(read.ok()) << read.to_string();
  if (theirs == door.version && door.is_fixed) {
    EXPECT_TRUE(door.write() == bytes) << "the same version, and other bytes";
  }
}

TEST(VersionsTest, what_a_release_wrote_is_read_or_refused_by_name) {
  ASSERT_THAT(releases(), Contains(kNewest));
  for (const std::string& release : releases()) {
    for (const Door& door : all_doors()) {
      SCOPED_TRACE(cat(door.name, " of ", release));
      expect_in_order(door, release);
    }
  }
}

TEST(VersionsTest, what_this_release_writes_has_the_version_of_the_table) {
  for (const Door& door : all_doors()) {
    SCOPED_TRACE(door.name);
    const Bytes bytes = door.write();
    EXPECT_EQ(version_in(door.place, bytes), door.version);
    const Status read = door.read(bytes);
    EXPECT_TRUE(read.ok()) << read.to_string();
  }
}

TEST(VersionsTest, a_newer_version_is_refused_at_each_door) {
  for (const Door& door : all_doors()) {
    SCOPED_TRACE(door.name);
    const std::uint64_t newer = door.version + 1;
    expect_refused(door.read(with_version(door.place, door.write(), newer)), newer, door.version);
  }
}

TEST(VersionsTest, an_older_version_is_refused_where_it_is_not_read) {
  for (const Door& door : all_doors()) {
    SCOPED_TRACE(door.name);
    const std::uint64_t older = door.oldest - 1;
    const Status read = door.read(with_version(door.place, door.write(), older));
    if (older > 0 || !door.place.in_envelope) {
      expect_refused(read, older, door.version);
    } else {
      EXPECT_EQ(read.code(), Code::corrupt);  // no release ever wrote version 0
      EXPECT_THAT(read.to_string(), HasSubstr("version 0"));
    }
  }
}

TEST(VersionsTest, an_envelope_of_another_version_is_refused_at_each_door) {
  for (const Door& door : all_doors()) {
    if (!door.place.in_envelope) continue;
    SCOPED_TRACE(door.name);
    Bytes bytes = door.write();
    bytes[4] = std::byte{2};
    expect_refused(door.read(bytes), 2, 1);
  }
}

// ---- stores: of the release before they are served, of a newer one they are left alone

class StoreVersionsTest : public ::testing::Test {
 protected:
  StoreVersionsTest() {
    std::filesystem::copy(cat(TOWPATH_RECORDED, "/", kNewest), directory_,
                          std::filesystem::copy_options::recursive);
  }
  ~StoreVersionsTest() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<kv::BlockStore> open_store() {
    return kv::testing::open_store(
        files_, {.directory = directory_ + "/store", .segment_bytes = std::uint64_t{1} << 20U});
  }
  std::string path(const std::string& name) const { return cat(directory_, "/", name); }
  /// Each segment of the store.
  std::vector<std::string> segments() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path("store")))
      if (entry.path().filename().string().starts_with("segment-"))
        found.push_back(entry.path().string());
    return found;
  }
  static Bytes read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return to_bytes(std::string{std::istreambuf_iterator<char>(file), {}});
  }
  /// Patches the version of an envelope that a file begins with.
  static void make_newer(const std::string& path) {
    const Door door = door_called("segment_header");
    std::ofstream(path, std::ios::binary | std::ios::in).seekp(0)
        << as_text(with_version(door.place, read(path), 2));
  }

  sys::SystemFileSystem files_;
  const std::string directory_ = cat(::testing::TempDir(), "/towpath-versions-", ::getpid());
};

TEST_F(StoreVersionsTest, a_store_of_0_2_0_is_served) {
  const auto store = open_store();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->figures().from_index, 2u);
  for (const kv::BlockHash hash : {7, 14})
    EXPECT_TRUE(kv::testing::get_block(*store, hash).ok()) << hash;
}

TEST_F(StoreVersionsTest, a_store_of_0_2_0_is_served_without_its_index) {
  std::filesystem::remove(path("store/index"));
  const auto store = open_store();
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(store->figures().from_scan, 2u);
  for (const kv::BlockHash hash : {7, 14})
    EXPECT_TRUE(kv::testing::get_block(*store, hash).ok()) << hash;
}

TEST_F(StoreVersionsTest, segments_of_a_newer_release_are_named_and_left_alone) {
  ASSERT_EQ(segments().size(), 1u);
  const std::string segment = segments().front();
  make_newer(segment);
  const Bytes before = read(segment);
  for (int life = 0; life < 2; ++life) {
    const auto store = open_store();
    ASSERT_NE(store, nullptr);
    EXPECT_THAT(store->figures().reported,
                Contains(::testing::AllOf(HasSubstr("segment_header version 2"),
                                          HasSubstr("knows up to 1"))));
    EXPECT_EQ(kv::testing::get_block(*store, 7).code(), Code::not_found);
    EXPECT_TRUE(kv::testing::put_block(*store, 21 + life).ok());
    EXPECT_TRUE(store->sync().ok() && store->checkpoint().ok());
  }
  EXPECT_EQ(read(segment), before);
}

TEST_F(StoreVersionsTest, an_index_of_a_newer_release_is_named_and_done_without) {
  make_newer(path("store/index"));
  const auto store = open_store();
  ASSERT_NE(store, nullptr);
  EXPECT_THAT(store->figures().reported, Contains(HasSubstr("block_index version 2")));
  EXPECT_TRUE(kv::testing::get_block(*store, 7).ok());
}

TEST_F(StoreVersionsTest, blobs_of_0_2_0_are_read_and_newer_ones_refused) {
  auto blobs = kv::BlobStore::open(files_, path("blobs"));
  ASSERT_TRUE(blobs.ok());
  Bytes bytes(4);
  ASSERT_TRUE(blobs->restore({.name = "a", .context = "b"}, bytes).ok());
  EXPECT_EQ(as_text(bytes), "lock");
  make_newer(path("blobs/a.blob"));
  expect_refused(blobs->restore({.name = "a", .context = "b"}, bytes), 2, 1);
}

TEST_F(StoreVersionsTest, a_drive_of_a_newer_release_is_refused_unwritten) {
  constexpr std::uint64_t kDrive = std::uint64_t{16} << 20U;
  const kv::DriveLabel label = *kv::divide_drive(kDrive);
  for (const char* door : {"drive_label", "drive_table"}) {
    SCOPED_TRACE(door);
    Bytes all(kDrive);
    const auto lay = [&](const std::string& name, std::uint64_t at) {
      Bytes page = recorded(name);
      if (name == door) page = with_version(door_called(name).place, page, 2);
      std::ranges::copy(page, all.begin() + static_cast<std::ptrdiff_t>(at));
    };
    lay("drive_label", 0);
    lay("drive_table", label.table_at(1));
    std::ofstream(path("drive"), std::ios::binary) << as_text(all);
    expect_refused(kv::DriveFiles::open(files_, path("drive"), 1).status(), 2, 1);
    Bytes after = read(path("drive"));
    if (std::string_view(door) == "drive_table")  // its holder is written before it is read
      copy_bytes(ConstByteSpan(all).subspan(kv::kHolderAt, kv::kDrivePage),
                 after.data() + kv::kHolderAt);
    EXPECT_TRUE(after == all);
  }
}

// ---- metadata that lie in a folder

TEST_F(StoreVersionsTest, metadata_of_0_2_0_in_a_folder_are_found_and_newer_ones_named) {
  const std::string folder = path("metadata");
  const sys::SystemClock clock;
  std::filesystem::rename(folder, path("recorded"));  // the file of that door
  const auto publisher = rendezvous::FileRendezvous::open({.directory = folder}, clock);
  ASSERT_TRUE(publisher.ok() && (*publisher)->publish({"prefill"}, recorded("metadata")).ok());
  const auto lay = [&](const Bytes& bytes) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename().string().starts_with("prefill"))
        std::ofstream(entry.path(), std::ios::binary) << as_text(bytes);
  };
  const auto fetched = [&]() -> Status {
    TOWPATH_TRY(const auto open, rendezvous::FileRendezvous::open({.directory = folder}, clock));
    return fetch_until(*open, {"prefill"}, run::Deadline::after(clock, std::chrono::seconds(5)),
                       clock)
        .status();
  };
  lay(recorded("rendezvous_frame"));
  EXPECT_TRUE(fetched().ok());
  const Door door = door_called("rendezvous_frame");
  lay(with_version(door.place, recorded(door.name), 2));
  expect_refused(fetched(), 2, 1);
}

}  // namespace
}  // namespace towpath::versions
