// Files as users name them: by descriptor, by path, by NIXL's path modes; and what is known of
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <towpath/backends/posix/open_file.h>
#include <towpath/backends/posix/posix_fixture.h>
#include <towpath/backends/posix/scripted_engine.h>
#include <towpath/sys/testing/few_descriptors.h>

namespace towpath::backends::posix {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PosixFilesTest : public ::testing::Test {
 public:
  void SetUp() override {
    ASSERT_NE(posix.backend, nullptr);
    posix.use_memory(65'536);
    fill_with_random_bytes(posix.memory, 3);
  }
  RegionDescriptor file(std::string key, int fd = -1) const {
    // NIXL's users number the files that they name by path as they like.
    return {.kind = MemoryKind::disk, .length = 8192, .device_id = 17, .fd = fd, .key = key};
  }
  Code code_of(const RegionDescriptor& region) {
    return posix.backend->register_memory(region).code();
  }
  backend::testing::RecordedCompletion write_to(const RegionDescriptor& region) {
    auto made = posix.backend->register_memory(region);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    if (!made.ok()) return {};
    posix.imported =
        std::move(*posix.backend->import_memory(*posix.connection, region, (*made)->key()));
    posix.registered = std::move(*made);
    return posix.write({posix.segment(0, 0, 8192)});
  }
  bool holds_the_bytes() {
    const sys::Fd plain(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::vector<std::byte> bytes(8192);
    return ::pread(plain.get(), bytes.data(), bytes.size(), 0) == 8192 &&
           std::memcmp(bytes.data(), posix.memory.data(), bytes.size()) == 0;
  }

  sys::TemporaryDirectory directory = std::move(*sys::TemporaryDirectory::create("/var/tmp"));
  const std::string path = directory.file("data");
  PosixFixture posix{{}};
};

TEST_F(PosixFilesTest, a_mode_and_a_path_make_a_file) {
  EXPECT_EQ(code_of(file("rw:" + path)), Code::not_found);
  EXPECT_TRUE(write_to(file("rw,create:" + path)).status.ok());
  EXPECT_TRUE(holds_the_bytes());
}

TEST_F(PosixFilesTest, a_mode_wins_over_the_number_that_comes_with_it) {
  const sys::Fd unauthenticated(::memfd_create("unauthenticated connection", MFD_CLOEXEC));
  EXPECT_TRUE(write_to(file("rw,create:" + path, unauthenticated.get())).status.ok());
  EXPECT_TRUE(holds_the_bytes());
  EXPECT_EQ(::lseek(unauthenticated.get(), 0, SEEK_END), 0);
}

TEST_F(PosixFilesTest, an_open_file_wins_over_the_plain_path_that_comes_with_it) {
  const sys::Fd open(::memfd_create("open", MFD_CLOEXEC));
  EXPECT_TRUE(write_to(file(path, open.get())).status.ok());
  EXPECT_EQ(::lseek(open.get(), 0, SEEK_END), 8192);
  EXPECT_EQ(::access(path.c_str(), F_OK), -1);
}

TEST_F(PosixFilesTest, a_plain_path_alone_is_opened) {
  EXPECT_EQ(code_of(file(path)), Code::not_found);
  { const sys::Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); }
  EXPECT_TRUE(write_to(file(path)).status.ok());
  EXPECT_TRUE(holds_the_bytes());
}

TEST_F(PosixFilesTest, a_device_id_stands_for_one_file_while_it_is_registered) {
  const std::string other = directory.file("other");
  auto first = posix.backend->register_memory(file("rw,create:" + path));
  RegionDescriptor behind = file("rw:" + path);
  behind.address = 8192;
  const auto second = posix.backend->register_memory(behind);
  ASSERT_TRUE(first.ok() && second.ok());
  const auto refused = posix.backend->register_memory(file("rw,create:" + other));
  EXPECT_EQ(refused.code(), Code::already_exists);
  EXPECT_THAT(refused.status().to_string(), AllOf(HasSubstr("device id 17"), HasSubstr(other)));
  EXPECT_EQ(code_of(file("ro:" + path)), Code::already_exists) << "writes would go either way";
  RegionDescriptor elsewhere = file("rw:" + other);
  elsewhere.device_id = 18;
  EXPECT_EQ(code_of(elsewhere), Code::ok);
  const auto imported = posix.backend->import_memory(*posix.connection, behind, (*second)->key());
  ASSERT_TRUE(imported.ok());
  first->reset();
  EXPECT_EQ(code_of(file("rw:" + other)), Code::already_exists);
}

TEST_F(PosixFilesTest, a_device_id_is_free_when_what_it_stood_for_is_taken_back) {
  for (const char* const name : {"first", "second", "first"}) {
    EXPECT_TRUE(write_to(file("rw,create:" + directory.file(name))).status.ok());
    posix.registered.reset();  // the import of it stays
  }
}

TEST_F(PosixFilesTest, a_device_id_is_free_while_the_last_transfers_of_what_it_stood_for_end) {
  const auto first = posix.backend->register_memory(file("rw,create:" + path));
  ASSERT_TRUE(first.ok());
  const RegionDescriptor other = file("rw,create:" + directory.file("other"));
  EXPECT_EQ(code_of(other), Code::already_exists);
  (*first)->revoke();
  EXPECT_EQ(code_of(other), Code::ok);
}

TEST_F(PosixFilesTest, a_number_that_went_to_another_file_is_not_confirmed) {
  std::unique_ptr<backend::Memory> made;
  RegionDescriptor region = file("a name");
  {
    const sys::Fd first(::memfd_create("first", MFD_CLOEXEC));
    region.fd = first.get();
    made = std::move(*posix.backend->register_memory(region));
    EXPECT_TRUE(posix.backend->confirm(*made, region).ok());
  }
  EXPECT_FALSE(posix.backend->confirm(*made, region).ok()) << "it is closed";
  const sys::Fd second(::memfd_create("second", MFD_CLOEXEC));
  ASSERT_EQ(second.get(), region.fd);
  EXPECT_EQ(posix.backend->confirm(*made, region).code(), Code::already_exists);
}

TEST_F(PosixFilesTest, read_only_means_it) {
  { const sys::Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); }
  const auto outcome = write_to(file("ro:" + path));
  EXPECT_EQ(outcome.status.code(), Code::denied);
  EXPECT_THAT(outcome.status.message(), HasSubstr(path));
}

TEST_F(PosixFilesTest, direct_by_path_is_the_same_as_direct_by_descriptor) {
  ASSERT_TRUE(write_to(file("rw,direct,create:" + path)).status.ok());
  const std::string reported = posix.backend->describe_path(*posix.local, *posix.imported);
  EXPECT_THAT(reported, HasSubstr("O_DIRECT"));  // done, or refused with the reason
  EXPECT_TRUE(holds_the_bytes());
}

TEST_F(PosixFilesTest, a_name_with_no_file_behind_it_is_refused) {
  EXPECT_EQ(code_of(file("")), Code::invalid_argument);
  EXPECT_EQ(code_of(file("rw,creat:" + path)), Code::invalid_argument);
  EXPECT_EQ(code_of(file("ro:" + directory.path())), Code::invalid_argument) << "a directory";
  EXPECT_EQ(code_of(file("ro:/nowhere/x")), Code::not_found);
}

TEST_F(PosixFilesTest, a_region_without_end_grows_with_the_file) {
  RegionDescriptor all = file("rw,create:" + path);
  all.length = INT64_MAX;
  EXPECT_TRUE(write_to(all).status.ok());
  EXPECT_EQ(posix.write({posix.segment(0, 1U << 30U, 512)}).bytes, 512U);
  const auto behind = posix.read({posix.segment(0, std::uint64_t{1} << 40U, 512)});
  EXPECT_EQ(behind.status.code(), Code::out_of_range);
  const auto vast = posix.write({posix.segment(0, std::uint64_t{INT64_MAX} - 100, 512)});
  EXPECT_FALSE(vast.status.ok()) << "no kernel has such an offset";
}

TEST_F(PosixFilesTest, synchronous_writes_stay_so_on_both_ways) {
  const sys::Fd opened(::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_DSYNC, 0600));
  if (!opened) GTEST_SKIP() << kNoDirect;
  ScriptedEngine engine;
  Counters counters;
  const auto kept = OpenFile::open({.fd = opened.get()}, engine, counters);
  ASSERT_TRUE(kept.ok() && (*kept)->has_twin());
  const int flags = ::fcntl((*kept)->engine_file(Path::buffered).fd, F_GETFL);
  EXPECT_EQ(flags & (O_DSYNC | O_DIRECT), O_DSYNC);
}

TEST_F(PosixFilesTest, writes_go_to_their_offset_where_the_users_descriptor_appends) {
  const sys::Fd opened(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(opened.get(), 16'384), 0);
  EXPECT_TRUE(write_to(file(path, opened.get())).status.ok());
  EXPECT_TRUE(holds_the_bytes());
  EXPECT_EQ(::lseek(opened.get(), 0, SEEK_END), 16'384);
  EXPECT_NE(::fcntl(opened.get(), F_GETFL) & O_APPEND, 0) << "the user's flags are the user's";
}

TEST_F(PosixFilesTest, a_descriptor_that_appends_and_cannot_be_opened_again_takes_no_writes) {
  const sys::Fd opened(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_TRUE(opened);
  ScriptedEngine engine;
  Counters counters;
  const sys::testing::FewDescriptors few(1);  // the duplicate takes it
  const auto kept = OpenFile::open({.fd = opened.get()}, engine, counters);
  ASSERT_TRUE(kept.ok()) << kept.status().to_string();
  EXPECT_TRUE((*kept)->allows(false));
  EXPECT_FALSE((*kept)->allows(true));
  EXPECT_EQ((*kept)->access_refusal(true).code(), Code::denied);
  EXPECT_THAT((*kept)->access_refusal(true).to_string(),
              AllOf(HasSubstr("O_APPEND"), HasSubstr("cannot open /proc/self/fd/")));
  EXPECT_THAT((*kept)->describe(), HasSubstr("all writes refused (O_APPEND"));
}

TEST_F(PosixFilesTest, files_are_queried_in_their_order) {
  const sys::Fd open(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(open.get(), 1234), 0);
  std::vector<RegionDescriptor> asked(7, {.kind = MemoryKind::disk});
  asked[0].key = path;
  asked[1].fd = open.get();
  asked[2].key = directory.file("none");
  asked[3].kind = MemoryKind::system;
  asked[4].key = "rw,direct:" + path;
  asked[4].fd = 0;  // as NIXL's users leave it when they name a path
  asked[5].fd = 987'654;
  asked[6].key = path + std::string(1, '\0') + "x";
  const auto answers = posix.backend->query(asked);
  ASSERT_TRUE(answers.ok()) << answers.status().to_string();
  ASSERT_EQ(answers->size(), asked.size());
  ASSERT_TRUE((*answers)[0].has_value());
  EXPECT_EQ((*answers)[0]->at("size"), "1234");
  EXPECT_EQ((*answers)[0]->at("mode"), "100600");
  EXPECT_THAT((*answers)[0]->at("mtime"), HasSubstr("."));
  EXPECT_EQ((*answers)[0], (*answers)[1]);
  EXPECT_EQ((*answers)[0], (*answers)[4]);
  for (const std::size_t none : {2U, 3U, 5U, 6U}) EXPECT_FALSE((*answers)[none].has_value());
  EXPECT_TRUE(posix.backend->query({})->empty());
}

TEST_F(PosixFilesTest, a_query_that_cannot_be_answered_names_the_descriptor) {
  std::vector<RegionDescriptor> asked(3, file(path));
  asked[2].key = "/" + std::string(5000, 'x');
  const auto answers = posix.backend->query(asked);
  EXPECT_FALSE(answers.ok());
  EXPECT_THAT(answers.status().to_string(), AllOf(HasSubstr("descriptor 2 of 3")));
  asked[1].key = "rw,fast:x";
  EXPECT_EQ(posix.backend->query(asked).code(), Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::backends::posix
