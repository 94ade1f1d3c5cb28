// What FileRendezvous adds to what every Rendezvous does (rendezvous_test.cc).
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/rendezvous/file_rendezvous.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/file.h>
#include <towpath/sys/temporary_directory.h>
#include <towpath/sys/testing/child.h>

namespace towpath::rendezvous {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FileRendezvousTest : public ::testing::Test {
 protected:
  std::unique_ptr<FileRendezvous> join() {
    return FileRendezvous::open({.directory = directory_.path()}, clock_).value();
  }
  Result<Bytes> ask(FileRendezvous& from, const MetadataName& name) {
    Result<Bytes> answer = error(Code::internal, "no answer");
    EXPECT_TRUE(from.fetch(name, run::Deadline::never(),
                           [&](Result<Bytes> metadata) { answer = std::move(metadata); })
                    .ok());
    from.progress();
    return answer;
  }
  /// As if nobody had touched the metadata since.
  void age(const std::string& file, std::int64_t by_seconds) {
    struct stat about {};
    ASSERT_EQ(stat(directory_.file(file).c_str(), &about), 0);
    const timespec times[] = {about.st_atim, {about.st_mtim.tv_sec - by_seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, directory_.file(file).c_str(), times, 0), 0);
  }
  bool exists(const std::string& file) { return access(directory_.file(file).c_str(), F_OK) == 0; }
  std::set<std::string> own_files() {
    std::set<std::string> own;
    const auto all = sys::SystemFileSystem().list(directory_.path());
    for (const std::string& file : all.value())
      if (sys::is_own_file(file)) own.insert(file);
    return own;
  }
  ChangeSeen note() {
    return [this](const Change& change) {
      seen_.push_back(
          cat(change.name.agent, change.metadata ? cat(" ", as_text(*change.metadata)) : ""));
    };
  }

  const sys::TemporaryDirectory directory_ = sys::TemporaryDirectory::create().value();
  ManualClock clock_;
  std::unique_ptr<FileRendezvous> here_ = join();
  std::unique_ptr<FileRendezvous> there_ = join();
  std::vector<std::string> seen_;
};

TEST_F(FileRendezvousTest, nobody_else_may_enter_whatever_the_umask_is) {
  const std::string made = directory_.file("made");
  const mode_t before = umask(0);
  const auto here = FileRendezvous::open({.directory = made}, clock_);
  ASSERT_TRUE(here.ok()) << here.status().to_string();
  EXPECT_TRUE((*here)->publish("a", as_bytes("1")).ok());
  umask(before);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(made).permissions(), perms::owner_all);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(made)) {
    EXPECT_EQ(entry.status().permissions(), perms::owner_read | perms::owner_write) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 1);
}

TEST_F(FileRendezvousTest, watcher_hears_of_others_from_then_on) {
  ASSERT_TRUE(here_->publish("before", as_bytes("0")).ok());
  there_->watch(note());
  ASSERT_TRUE(there_->publish("own", as_bytes("x")).ok());
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  ASSERT_TRUE(run::eventually([&] { return there_->progress() > 0; }));
  ASSERT_TRUE(here_->publish("a", as_bytes("2")).ok());
  ASSERT_TRUE(here_->publish({"a", "part"}, as_bytes("3")).ok());
  ASSERT_TRUE(run::eventually([&] { return there_->progress() > 0; }));
  here_.reset();
  ASSERT_TRUE(run::eventually([&] { return there_->progress() > 0; }));
  EXPECT_THAT(seen_, ElementsAre("a 1", "a 2", "a 3", "a", "a", "before"));
  there_->watch(nullptr);
  EXPECT_EQ(there_->progress(), 0U);
}

TEST_F(FileRendezvousTest, name_that_is_published_from_here_after_another_is_not_seen_withdrawn) {
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  there_->watch(note());
  ASSERT_TRUE(there_->publish("a", as_bytes("2")).ok());
  clock_.advance(seconds(1));  // the next look
  there_->progress();
  EXPECT_THAT(seen_, ElementsAre());
  ASSERT_TRUE(here_->publish("a", as_bytes("3")).ok());
  clock_.advance(seconds(1));
  there_->progress();
  EXPECT_THAT(seen_, ElementsAre("a 3"));
}

TEST_F(FileRendezvousTest, relative_path_means_the_same_when_the_process_has_gone_elsewhere) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.path());
  auto relative = FileRendezvous::open({.directory = "."}, clock_);
  std::filesystem::current_path(before);
  ASSERT_TRUE(relative.ok()) << relative.status().to_string();
  (*relative)->watch(note());
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  clock_.advance(seconds(1));  // the next look, where there is no inotify
  (*relative)->progress();
  EXPECT_THAT(seen_, ElementsAre("a 1"));
  EXPECT_TRUE((*relative)->standing().trouble.ok());
}

TEST_F(FileRendezvousTest, metadata_of_a_dead_process_is_not_served_and_goes) {
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  there_->watch(note());
  age("a.metadata", 11);
  const auto answer = ask(*there_, "a");
  EXPECT_EQ(answer.code(), Code::not_found);
  EXPECT_THAT(answer.status().message(), HasSubstr("has not been heard of for 1"));
  clock_.advance(seconds(1));  // the next look
  there_->progress();
  EXPECT_THAT(seen_, ElementsAre("a"));
  const auto later = join();
  EXPECT_TRUE(exists("a.metadata")) << "only one that has lain there for long is removed";
  age("a.metadata", 100);
  const auto last = join();
  EXPECT_FALSE(exists("a.metadata"));
  clock_.advance(seconds(4));
  here_->progress();
  EXPECT_EQ(ask(*there_, "a").value(), to_bytes("1")) << "it was only slow";
}

TEST_F(FileRendezvousTest, lease_is_kept_while_somebody_makes_progress) {
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  age("a.metadata", 11);
  clock_.advance(seconds(4));
  here_->progress();
  EXPECT_EQ(ask(*there_, "a").value(), to_bytes("1"));
}

TEST_F(FileRendezvousTest, of_two_with_one_name_the_later_has_it_and_the_first_is_reported) {
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  ASSERT_TRUE(there_->publish("a", as_bytes("2")).ok());
  clock_.advance(seconds(4));
  here_->progress();
  EXPECT_EQ(here_->standing().trouble.code(), Code::already_exists);
  EXPECT_TRUE(here_->withdraw("a").ok());
  EXPECT_EQ(ask(*here_, "a").value(), to_bytes("2")) << "it was not ours to remove";
}

TEST_F(FileRendezvousTest, metadata_is_brought_again_when_who_took_its_name_is_dead) {
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  ASSERT_TRUE(there_->publish("a", as_bytes("2")).ok());
  clock_.advance(seconds(4));
  here_->progress();
  EXPECT_EQ(here_->standing().trouble.code(), Code::already_exists);
  age("a.metadata", 11);
  clock_.advance(seconds(4));
  here_->progress();
  EXPECT_TRUE(here_->standing().trouble.ok());
  EXPECT_EQ(ask(*here_, "a").value(), to_bytes("1"));
}

/// While it lives, this process is another user where files are concerned, if it may be.
class AnotherUser {
 public:
  ~AnotherUser() {
    if (may_be_) {
      EXPECT_EQ(seteuid(0), 0);
    }
  }
  bool may_be() const { return may_be_; }

 private:
  const bool may_be_ = geteuid() == 0 && seteuid(65534) == 0;
};

TEST_F(FileRendezvousTest, name_that_another_user_has_taken_stays_with_him_and_is_reported) {
  ASSERT_EQ(chmod(directory_.path().c_str(), 0777), 0);
  {
    const AnotherUser first;
    if (!first.may_be()) GTEST_SKIP() << sys::testing::kNoNobody;
    ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  }
  ASSERT_TRUE(there_->publish("a", as_bytes("2")).ok());
  clock_.advance(seconds(4));
  {
    const AnotherUser first;
    here_->progress();
  }
  EXPECT_EQ(here_->standing().trouble.code(), Code::already_exists);
  EXPECT_EQ(ask(*there_, "a").value(), to_bytes("2"));
  age("a.metadata", 11);
  clock_.advance(seconds(4));
  {
    const AnotherUser first;
    here_->progress();
  }
  EXPECT_TRUE(here_->standing().trouble.ok());
  EXPECT_EQ(ask(*there_, "a").value(), to_bytes("1")) << "the one that had taken it is dead";
}

TEST_F(FileRendezvousTest, what_is_no_metadata_is_refused_or_passed_over) {
  there_->watch(note());
  std::ofstream(directory_.file("short.metadata")) << "TOWP";
  std::ofstream(directory_.file("odd.metadata")) << std::string(100, 'x');
  ASSERT_EQ(mkfifo(directory_.file("pipe.metadata").c_str(), 0600), 0);
  ASSERT_EQ(symlink("/etc/hostname", directory_.file("link.metadata").c_str()), 0);
  ASSERT_EQ(truncate(directory_.file("odd.metadata").c_str(), std::int64_t{1} << 40), 0);
  EXPECT_EQ(ask(*here_, "short").code(), Code::corrupt);
  EXPECT_EQ(ask(*here_, "odd").code(), Code::out_of_range);
  EXPECT_EQ(ask(*here_, "pipe").code(), Code::corrupt);
  EXPECT_FALSE(ask(*here_, "link").ok());
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  ASSERT_EQ(rename(directory_.file("a.metadata").c_str(), directory_.file("b.metadata").c_str()),
            0);
  EXPECT_EQ(ask(*here_, "b").code(), Code::not_found) << "metadata under another name";
  ASSERT_TRUE(here_->publish("c", as_bytes("2")).ok());
  clock_.advance(seconds(1));
  there_->progress();
  EXPECT_THAT(seen_, ElementsAre("c 2"));
}

TEST_F(FileRendezvousTest, copy_of_metadata_stands_for_nobody) {
  there_->watch(note());
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  const std::string copy = directory_.file("copy.metadata");
  std::ofstream(copy) << std::ifstream(directory_.file("a.metadata")).rdbuf();
  clock_.advance(seconds(1));
  there_->progress();
  ASSERT_EQ(unlink(copy.c_str()), 0);
  clock_.advance(seconds(1));
  there_->progress();
  EXPECT_THAT(seen_, ElementsAre("a 1")) << "it lives";
}

TEST_F(FileRendezvousTest, one_too_many_does_not_take_the_place_of_one_that_is_watched) {
  there_ =
      FileRendezvous::open({.directory = directory_.path(), .max_metadata = 1}, clock_).value();
  there_->watch(note());
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  clock_.advance(seconds(1));
  there_->progress();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(here_->publish(cat("b", i), as_bytes("2")).ok());
  clock_.advance(seconds(1));
  there_->progress();
  EXPECT_THAT(seen_, ElementsAre("a 1"));
  EXPECT_EQ(there_->standing().trouble.code(), Code::exhausted);
}

TEST_F(FileRendezvousTest, what_cannot_be_read_counts_as_withdrawn_after_a_lease) {
  there_->watch(note());
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  clock_.advance(seconds(1));
  there_->progress();
  ASSERT_EQ(unlink(directory_.file("a.metadata").c_str()), 0);
  ASSERT_EQ(mkfifo(directory_.file("a.metadata").c_str(), 0600), 0);
  clock_.advance(seconds(1));
  there_->progress();
  EXPECT_THAT(seen_, ElementsAre("a 1"));
  EXPECT_EQ(there_->standing().trouble.code(), Code::corrupt);
  clock_.advance(seconds(11));
  there_->progress();
  EXPECT_THAT(seen_, ElementsAre("a 1", "a"));
}

TEST_F(FileRendezvousTest, file_that_reports_the_time_is_kept_and_made_again) {
  const std::set<std::string> before = own_files();
  ASSERT_EQ(before.size(), 2U);
  for (const std::string& file : before) age(file, 101);
  clock_.advance(seconds(4));
  here_->progress();
  there_->progress();
  (void)join();
  EXPECT_EQ(own_files(), before) << "those of the living are not removed";
  for (const std::string& file : before) ASSERT_EQ(unlink(directory_.file(file).c_str()), 0);
  clock_.advance(seconds(4));
  here_->progress();
  there_->progress();
  EXPECT_EQ(own_files().size(), 2U);
  here_.reset();
  there_.reset();
  EXPECT_TRUE(own_files().empty());
}

TEST_F(FileRendezvousTest, files_of_others_are_not_removed_with_those_of_the_dead) {
  const std::string left = ",12-0xcafe";
  const std::set<std::string> foreign = {"notes.metadata", ",draft", ",12-0xcafe.txt", ",-0x1"};
  for (const std::string& file : foreign)
    std::ofstream(directory_.file(file)) << "of somebody else";
  std::ofstream(directory_.file(left)) << "half written";
  for (const std::string& file : foreign) age(file, 1000);
  age(left, 1000);
  (void)join();
  for (const std::string& file : foreign) EXPECT_TRUE(exists(file)) << file;
  EXPECT_FALSE(exists(left));
}

TEST_F(FileRendezvousTest, a_forked_child_that_drops_its_copy_leaves_all) {
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  EXPECT_TRUE(sys::testing::passes_in_child([&] { here_.reset(); }));
  EXPECT_TRUE(exists("a.metadata"));
  EXPECT_EQ(own_files().size(), 2U);
}

TEST_F(FileRendezvousTest, nothing_is_left_behind) {
  ASSERT_TRUE(here_->publish("a", as_bytes("1")).ok());
  here_.reset();
  there_.reset();
  EXPECT_EQ(rmdir(directory_.path().c_str()), 0);
  EXPECT_EQ(mkdir(directory_.path().c_str(), 0700), 0);
  EXPECT_EQ(
      FileRendezvous::open({.directory = directory_.path(), .lease = Duration(1)}, clock_).code(),
      Code::invalid_argument);
}

}  // namespace
}  // namespace towpath::rendezvous
