#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/backends/shm/peer_file.h>
#include <towpath/backends/shm/registration_table.h>
#include <towpath/sys/memfd.h>

namespace towpath::backends::shm {
namespace {

Result<PeerRegistrationTable> peer_view(const RegistrationTable& registrations) {
  TOWPATH_TRY(const sys::Fd fd, open_peer_file({.pid = ::getpid(), .file = registrations.file()}));
  return PeerRegistrationTable::map(fd.get());
}

TEST(RegistrationTableTest, peers_see_what_stands_and_what_was_taken_back) {
  auto registrations = RegistrationTable::create();
  ASSERT_TRUE(registrations.ok());
  auto peer = peer_view(*registrations);
  ASSERT_TRUE(peer.ok()) << peer.status().to_string();
  EXPECT_TRUE(peer->stands(RegistrationTable::kBackend));
  const Slot first = *registrations->take();
  const Slot second = *registrations->take();
  EXPECT_NE(first.index, second.index);
  EXPECT_TRUE(peer->stands(first));
  registrations->give_back(first);
  EXPECT_FALSE(peer->stands(first));
  EXPECT_TRUE(peer->stands(second));
  const Slot third = *registrations->take();
  EXPECT_EQ(third.index, first.index);
  EXPECT_FALSE(peer->stands(first));  // the old key does not come to mean the new region
}

TEST(RegistrationTableTest, peers_see_which_bytes_are_registered) {
  auto registrations = RegistrationTable::create();
  auto peer = peer_view(*registrations);
  const RegisteredBytes what{.address = 4096, .length = 7, .source = {1, 2}, .offset = 3};
  RegisteredBytes read_only = what;
  read_only.is_read_only = true;
  const Slot third = *registrations->take(read_only);
  EXPECT_EQ(peer->registered(third), read_only);
  const Slot first = *registrations->take(what);
  const Slot second = *registrations->take();
  EXPECT_EQ(peer->registered(first), what);
  EXPECT_EQ(peer->registered(second), RegisteredBytes{});
  EXPECT_EQ(peer->registered({RegistrationTable::kSlots, 1}), RegisteredBytes{});
}

// A key may come before what it names: by its generation, the next one, it would agree with the
// bytes that the slot had before, and then stand.
TEST(RegistrationTableTest, what_a_slot_had_is_not_said_of_what_it_will_have) {
  auto registrations = RegistrationTable::create();
  auto peer = peer_view(*registrations);
  const RegisteredBytes before{.address = 4096, .length = 7}, after{.address = 8192, .length = 9};
  const Slot first = *registrations->take(before);
  registrations->give_back(first);
  EXPECT_EQ(peer->registered(first), RegisteredBytes{});
  const Slot next{first.index, first.generation + 1};
  EXPECT_EQ(peer->registered(next), RegisteredBytes{});
  const Slot second = *registrations->take(after);
  ASSERT_EQ(second.generation, next.generation);
  ASSERT_EQ(second.index, next.index);
  EXPECT_EQ(peer->registered(next), after);
}

TEST(RegistrationTableTest, end_of_the_backend_ends_all_of_it) {
  auto registrations = RegistrationTable::create();
  auto peer = peer_view(*registrations);
  const Slot slot = *registrations->take();
  { const RegistrationTable ended = *std::move(registrations); }
  EXPECT_FALSE(peer->stands(slot));
  EXPECT_FALSE(peer->stands(RegistrationTable::kBackend));
}

TEST(RegistrationTableTest, slots_that_no_registration_table_has_never_stand) {
  auto registrations = RegistrationTable::create();
  auto peer = peer_view(*registrations);
  EXPECT_FALSE(peer->stands({RegistrationTable::kSlots, 1}));
  EXPECT_FALSE(peer->stands({UINT32_MAX, 1}));
  EXPECT_FALSE(peer->stands({7, 0}));
}

TEST(RegistrationTableTest, full_registration_table_refuses) {
  auto registrations = RegistrationTable::create();
  const auto peer = peer_view(*registrations);
  Slot last;
  for (std::uint32_t i = 1; i < RegistrationTable::kSlots; ++i)
    last = registrations->take({.offset = i}).value();
  EXPECT_EQ(registrations->take().code(), Code::exhausted);
  const RegisteredBytes in_last{.offset = RegistrationTable::kSlots - 1};
  EXPECT_EQ(peer->registered(last), in_last) << "within the memfd";
  registrations->give_back({5, 5});
  EXPECT_TRUE(registrations->take().ok());
}

TEST(RegistrationTableTest, file_that_is_too_small_is_no_registration_table) {
  for (const std::uint32_t size : {4096U, RegistrationTable::kSlots * 4}) {  // of the words alone
    const auto fd = sys::create_sealed_memfd("small", size);
    EXPECT_EQ(PeerRegistrationTable::map(fd->get()).code(), Code::out_of_range) << size;
  }
}

class PeerFileTest : public ::testing::Test {
 protected:
  sys::Fd memfd_ = *sys::create_sealed_memfd("test", 8192);
  FileRef file_ = *file_ref(memfd_.get());
};

TEST_F(PeerFileTest, memfd_is_mapped_once_for_all_its_regions) {
  PeerMappings mappings;
  const PeerFile what{.pid = ::getpid(), .file = file_, .writable = true};
  const auto first = mappings.find_or_open(what, 1);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  EXPECT_EQ(mappings.find_or_open(what, 8192)->get(), first->get());
  EXPECT_EQ((*first)->size(), 8192u);
}

TEST_F(PeerFileTest, memfd_that_has_grown_is_mapped_anew_for_what_lies_behind) {
  const sys::Fd growing(::memfd_create("growing", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(growing.get(), 4096), 0);
  ASSERT_EQ(::fcntl(growing.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  PeerMappings mappings;
  const PeerFile what{.pid = ::getpid(), .file = *file_ref(growing.get()), .writable = true};
  const auto first = mappings.find_or_open(what, 4096).value();
  ASSERT_EQ(::ftruncate(growing.get(), 8192), 0);
  EXPECT_EQ(mappings.find_or_open(what, 4096).value(), first) << "it will do";
  const auto second = mappings.find_or_open(what, 8192).value();
  EXPECT_EQ(second->size(), 8192u);
  EXPECT_EQ(mappings.find_or_open(what, 4096).value(), second) << "the longer one stays";
  EXPECT_EQ(first->size(), 4096u);
}

TEST_F(PeerFileTest, other_file_at_the_same_number_is_refused) {
  FileRef other = file_;
  ++other.inode;
  EXPECT_EQ(open_peer_file({.pid = ::getpid(), .file = other}).code(), Code::corrupt);
  other = file_;
  other.fd = 900;
  EXPECT_EQ(open_peer_file({.pid = ::getpid(), .file = other}).code(), Code::not_found);
}

// Without the look before the opening this test would hang.
TEST_F(PeerFileTest, pipes_and_unsealed_files_are_refused) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const sys::Fd reader(ends[0]), writer(ends[1]);
  EXPECT_EQ(open_peer_file({.pid = ::getpid(), .file = *file_ref(reader.get())}).code(),
            Code::corrupt);
  const sys::Fd plain(::memfd_create("plain", 0));
  ASSERT_EQ(::ftruncate(plain.get(), 4096), 0);
  EXPECT_EQ(open_peer_file({.pid = ::getpid(), .file = *file_ref(plain.get())}).code(),
            Code::denied);
}

}  // namespace
}  // namespace towpath::backends::shm
