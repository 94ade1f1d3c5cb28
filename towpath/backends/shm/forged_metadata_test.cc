// Metadata that somebody has put together from another's: in the process that it names only what
// is registered there is touched, whatever the keys say.
#include <array>
#include <csignal>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/backend/testing/recording_events.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>

namespace towpath::backends::shm {
namespace {

using namespace backend;

constexpr std::uint64_t kTableBytes = RegistrationTable::kSlots * 44;  // a word and five numbers

/// Two agents of one process, and shared memory of a user's, which peers may write to.
class ForgedMetadataTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> open(const AgentIdentity& self) {
    return *shm_type().open({.self = self, .clock = &clock_, .events = &events_});
  }
  std::unique_ptr<Connection> connect(const AgentIdentity& peer, ConstByteSpan info) {
    auto way = near_->connect(peer, info);
    EXPECT_TRUE(way.ok()) << way.status().to_string();
    return *std::move(way);
  }
  Code code_of(Connection& way, const ShmKey& key) {
    return near_->import_memory(way, {.address = key.address, .length = key.length}, encode(key))
        .code();
  }

  const AgentIdentity near_self_{"near", 1}, far_self_{"far", 2};
  sys::SystemClock clock_;
  backend::testing::RecordingEvents events_;
  const sys::Fd memfd_ = *sys::create_sealed_memfd("a user's", kTableBytes);
  const sys::Mapping bytes_ =
      *sys::Mapping::of_file({.fd = memfd_.get(), .size_bytes = kTableBytes});
  const std::unique_ptr<Backend> near_ = open(near_self_), far_ = open(far_self_);
};

TEST_F(ForgedMetadataTest, keys_of_other_bytes_than_are_registered_are_refused) {
  const auto way = connect(far_self_, far_->connection_info());
  RegionDescriptor region{.address = address_of(bytes_.data()) + 4096, .length = 8192};
  const auto plain = far_->register_memory(region).value();
  region.fd = memfd_.get();
  region.fd_offset = 4096;
  const auto shared = far_->register_memory(region).value();
  const auto expect_corrupt = [&](const Memory& memory, const auto& alter) {
    ShmKey key = *decode_key(memory.key());
    EXPECT_EQ(code_of(*way, key), Code::ok);
    alter(key);
    EXPECT_EQ(code_of(*way, key), Code::corrupt);
  };
  for (const Memory* memory : {plain.get(), shared.get()}) {
    expect_corrupt(*memory, [](ShmKey& key) { ++key.address; });
    expect_corrupt(*memory, [](ShmKey& key) { ++key.length; });
    expect_corrupt(*memory, [](ShmKey& key) { --key.length; });
  }
  expect_corrupt(*plain, [&](ShmKey& key) {
    key.shared = FileExtent{*file_ref(memfd_.get()), 4096};
  });
  expect_corrupt(*shared, [](ShmKey& key) { key.shared.reset(); });
  expect_corrupt(*shared, [](ShmKey& key) { --key.shared->offset; });
  const ShmInfo info = *decode_info(far_->connection_info());
  expect_corrupt(*shared, [&](ShmKey& key) { key.shared->file = info.pieces; });
}

TEST_F(ForgedMetadataTest, keys_of_what_nobody_can_write_to_do_not_hide_it) {
  const auto way = connect(far_self_, far_->connection_info());
  const auto memory = far_->register_memory({.address = address_of(bytes_.data()),
                                             .length = 4096,
                                             .fd = memfd_.get(),
                                             .is_read_only = true});
  ASSERT_TRUE(memory.ok());
  (*memory)->is_read_only = true;  // as an agent says
  ShmKey key = *decode_key((*memory)->key());
  EXPECT_TRUE(key.is_read_only);
  EXPECT_EQ(code_of(*way, key), Code::ok);
  key.is_read_only = false;
  EXPECT_EQ(code_of(*way, key), Code::corrupt);
}

// An agent may be given its own metadata, by another name, as a peer's: what it writes to the peer
// would land in its own memory.
TEST_F(ForgedMetadataTest, by_its_own_info_under_another_name_an_agent_reaches_what_it_registered) {
  const auto own = near_->register_memory({.address = address_of(bytes_.data()), .length = 4096});
  ASSERT_TRUE(own.ok());
  ShmInfo info = *decode_info(near_->connection_info());
  info.incarnation = 7;
  const auto way = connect({"thief", 7}, encode(info));
  ShmKey key = *decode_key((*own)->key());
  EXPECT_EQ(code_of(*way, key), Code::ok);
  const Bytes secret(4096);
  key.address = address_of(secret.data());
  EXPECT_EQ(code_of(*way, key), Code::corrupt);
}

TEST_F(ForgedMetadataTest, a_user_s_memory_is_none_of_a_backend_s_tables) {
  const ShmInfo good = *decode_info(far_->connection_info());
  // All that a table has to say of its backend, as a peer that may write there can.
  const std::uint32_t stands = RegistrationTable::kBackend.generation;
  const RegisteredBytes said = registered_bytes_of(good);
  const std::array<std::uint64_t, 5> numbers{said.address, said.length, said.source[0],
                                             said.source[1], said.offset};
  std::memcpy(bytes_.data(), &stands, sizeof stands);
  std::memcpy(bytes_.data() + RegistrationTable::kSlots * sizeof stands, numbers.data(),
              sizeof numbers);
  ShmInfo info = good;
  info.registrations = *file_ref(memfd_.get());
  EXPECT_EQ(near_->connect(far_self_, encode(info)).code(), Code::peer_lost);
  info = good;
  info.pieces = *file_ref(memfd_.get());
  EXPECT_EQ(near_->connect(far_self_, encode(info)).code(), Code::peer_lost);
  info.pieces = good.registrations;
  EXPECT_EQ(near_->connect(far_self_, encode(info)).code(), Code::peer_lost);
}

// The owner of the memory would not wait for a copy that is said in the other's table.
TEST_F(ForgedMetadataTest, pieces_are_said_in_the_table_of_whose_memory_it_is) {
  ShmInfo info = *decode_info(far_->connection_info());
  EXPECT_TRUE(near_->connect(far_self_, encode(info)).ok());
  info.pieces = decode_info(near_->connection_info())->pieces;
  EXPECT_EQ(near_->connect(far_self_, encode(info)).code(), Code::peer_lost);
}

// A forked child has its parent's descriptors, and other memory at the addresses that are
// registered in the parent.
TEST_F(ForgedMetadataTest, a_child_s_memory_is_not_what_its_parent_has_registered) {
  const AgentIdentity child_self{"child", 3};
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const sys::Fd reader(ends[0]);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto backend = open(child_self);
    const Bytes info = backend->connection_info();
    (void)!::write(ends[1], info.data(), info.size());
    while (true) ::pause();
  }
  ::close(ends[1]);
  Bytes bytes(4096);
  const ssize_t size = ::read(reader.get(), bytes.data(), bytes.size());
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  EXPECT_TRUE(near_->connect(child_self, bytes).ok());
  if (auto info = decode_info(bytes); info.ok()) {
    const ShmInfo parent_s = *decode_info(far_->connection_info());
    info->registrations = parent_s.registrations;
    info->pieces = parent_s.pieces;
    EXPECT_EQ(near_->connect(child_self, encode(*info)).code(), Code::peer_lost);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace towpath::backends::shm
