#include <towpath/backends/nvme/testing/nvme_fixture.h>

namespace towpath::backends::nvme {
namespace {

using NvmeBackendTest = NvmeFixture;

constexpr std::uint64_t kKiB = 1024;

bool same(ConstByteSpan a, ConstByteSpan b) { return std::ranges::equal(a, b); }

TEST_F(NvmeBackendTest, bytes_arrive_in_commands_of_at_most_the_largest_transfer) {
  for (const std::uint64_t most : {8 * kKiB, 128 * kKiB, 512 * kKiB, 24 * kKiB}) {
    open({.max_transfer_bytes = most});
    target->keeps = true;
    const Bytes written = random_bytes(most, 512 * kKiB);
    std::ranges::copy(written, memory().begin());
    const auto outcome = write({segment(0, 4096, 512 * kKiB)});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.to_string();
    EXPECT_EQ(outcome.bytes, 512 * kKiB);
    EXPECT_EQ(on_device(4096, 512 * kKiB), written);
    EXPECT_EQ(target->seen.size(), (512 * kKiB + most - 1) / most);
    std::ranges::fill(memory(), std::byte{0});
    EXPECT_TRUE(read({segment(0, 4096, 512 * kKiB)}).status.ok());
    EXPECT_TRUE(same(memory().first(512 * kKiB), written));
  }
}

TEST_F(NvmeBackendTest, path_of_bytes_is_counted_where_they_moved) {
  open();
  EXPECT_TRUE(write({segment(0, 0, 4096)}).status.ok());
  EXPECT_TRUE(write({segment(1, 8192, 1024)}).status.ok());
  EXPECT_TRUE(write({segment(0, 20'000, 10)}).status.ok());
  EXPECT_TRUE(read({segment(0, 0, 2048)}).status.ok());
  const auto bytes = [&](const char* path, const char* op) {
    return counted("towpath_nvme_bytes_total", {{"path", path}, {"op", op}});
  };
  EXPECT_EQ(bytes("direct", "write"), 4096U);
  EXPECT_EQ(bytes("bounce", "write"), 1024U);
  EXPECT_EQ(bytes("modify", "write"), 10U);
  EXPECT_EQ(bytes("direct", "read"), 2048U);
  EXPECT_EQ(counted("towpath_nvme_commands_total"), 5U)
      << "a change of a part reads its block first";
}

TEST_F(NvmeBackendTest, operations_are_counted_by_their_ending) {
  open();
  target->faults = {{.from = 8, .result = 0x0281}};
  EXPECT_TRUE(write({segment(0, 0, 4096)}).status.ok());
  EXPECT_TRUE(read({segment(0, 0, 4096)}).status.ok());
  EXPECT_FALSE(read({segment(0, 4096, 4096)}).status.ok());
  driver->engine->manual = true;
  auto operation = backend->make_operation();
  const std::vector segments{segment(0, 0, 4096)};
  operation->post({TransferOp::write, connection.get(), segments});
  operation->cancel();
  driver->engine->answer(0, -ECANCELED);
  backend->progress();
  const auto ended = [&](const char* ending, const char* op) {
    return counted("towpath_nvme_operations_total", {{"ending", ending}, {"op", op}});
  };
  EXPECT_EQ(ended("done", "write"), 1U);
  EXPECT_EQ(ended("done", "read"), 1U);
  EXPECT_EQ(ended("failed", "read"), 1U);
  EXPECT_EQ(ended("cancelled", "write"), 1U);
}

TEST_F(NvmeBackendTest, change_of_a_part_leaves_the_rest_of_its_block) {
  open({.block_bytes = 4096});
  const Bytes before = random_bytes(1, 8192);
  put_on_device(0, before);
  const Bytes written = random_bytes(2, 5000);
  std::ranges::copy(written, memory().begin() + 1);
  EXPECT_TRUE(write({segment(1, 3000, 5000)}).status.ok());
  Bytes expected = before;
  std::ranges::copy(written, expected.begin() + 3000);
  EXPECT_EQ(on_device(0, 8192), expected);
}

TEST_F(NvmeBackendTest, durable_writes_go_past_the_drives_cache) {
  constexpr std::uint32_t kForced = 1U << 30U;
  open({}, {{"durable", "on"}});
  target->keeps = true;
  EXPECT_TRUE(write({segment(0, 0, 512)}).status.ok());
  EXPECT_TRUE(read({segment(0, 0, 512)}).status.ok());
  ASSERT_EQ(target->seen.size(), 2U);
  EXPECT_NE(target->seen[0].cdw12 & kForced, 0U);
  EXPECT_EQ(target->seen[1].cdw12 & kForced, 0U) << "a read";
  open({.has_write_cache = false}, {{"durable", "on"}});
  target->keeps = true;
  EXPECT_TRUE(write({segment(0, 0, 512)}).status.ok());
  EXPECT_EQ(target->seen.at(0).cdw12 & kForced, 0U) << "there is no cache";
}

// ---- refusals

TEST_F(NvmeBackendTest, writing_needs_the_word_of_the_region) {
  for (const std::string mode : {"ro:", ""}) {
    open({}, {}, 1U << 20U, mode);
    const auto outcome = write({segment(0, 0, 512)});
    EXPECT_EQ(outcome.status.code(), Code::denied) << outcome.status.to_string();
    EXPECT_EQ(outcome.bytes, 0U);
    EXPECT_EQ(on_device(0, 512), Bytes(512));
    EXPECT_TRUE(read({segment(0, 0, 512)}).status.ok());
  }
}

TEST_F(NvmeBackendTest, extent_beyond_the_namespace_is_refused_when_it_is_registered) {
  open({}, {}, 100 * 512);
  EXPECT_EQ(backend->register_memory(extent(0, 100 * 512 + 1, "ro:")).code(), Code::out_of_range);
  EXPECT_EQ(backend->register_memory(extent(100 * 512, 1, "ro:")).code(), Code::out_of_range);
  EXPECT_TRUE(backend->register_memory(extent(99 * 512, 512, "ro:")).ok());
}

TEST_F(NvmeBackendTest, a_device_id_stands_for_one_namespace_while_it_is_registered) {
  open();
  const sys::Fd other(::memfd_create("other", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(other.get(), 4096), 0);
  RegionDescriptor elsewhere = extent(0, 512, "rw:");
  elsewhere.key = cat("rw:/proc/self/fd/", other.get());
  const auto code_of = [&](const RegionDescriptor& region) {
    return backend->register_memory(region).code();
  };
  EXPECT_EQ(code_of(elsewhere), Code::already_exists) << "writes would go to either drive";
  EXPECT_EQ(code_of(extent(512, 512, "ro:")), Code::ok) << "the same, by another word";
  elsewhere.device_id = 8;
  EXPECT_EQ(code_of(elsewhere), Code::ok);
  elsewhere.device_id = 7;
  registered->revoke();  // its last transfers may be under way
  EXPECT_EQ(code_of(elsewhere), Code::ok);
}

TEST_F(NvmeBackendTest, what_is_no_memory_of_its_kinds_is_refused) {
  open();
  EXPECT_EQ(backend->register_memory(extent(0, 0, "ro:")).code(), Code::invalid_argument);
  EXPECT_EQ(backend->register_memory({.kind = MemoryKind::disk, .length = 1, .key = "/x"}).code(),
            Code::unsupported);
  EXPECT_EQ(backend->register_memory({.kind = MemoryKind::system, .length = 1}).code(),
            Code::invalid_argument);
  RegionDescriptor nowhere = extent(0, 512, "ro:");
  nowhere.key = "ro:/dev/no-such-namespace";
  EXPECT_EQ(backend->register_memory(nowhere).code(), Code::not_found);
}

TEST_F(NvmeBackendTest, hostile_keys_reach_nothing) {
  open();
  const RegionDescriptor good = extent(0, 512, "rw:");
  EXPECT_EQ(backend->import_memory(*connection, good, to_bytes("short")).code(), Code::corrupt);
  EXPECT_EQ(backend->import_memory(*connection, good, to_bytes("12345678")).code(),
            Code::not_found);
  EXPECT_EQ(
      backend->import_memory(*connection, extent(0, 2U << 20U, "rw:"), registered->key()).code(),
      Code::corrupt);
}

TEST_F(NvmeBackendTest, other_agents_are_sent_to_the_one_that_has_the_drive) {
  open();
  EXPECT_EQ(backend->connect({"decode-0", 1}, {}).code(), Code::unsupported);
  EXPECT_EQ(backend->connect(self, to_bytes("x")).code(), Code::corrupt);
}

TEST_F(NvmeBackendTest, import_that_outlives_its_registration_moves_nothing) {
  open();
  registered.reset();
  EXPECT_EQ(read({segment(0, 0, 512)}).status.code(), Code::not_found);
}

TEST_F(NvmeBackendTest, parameters_are_held_to_their_bounds) {
  for (const backend::Params& bad :
       {backend::Params{{"depth", "0"}}, backend::Params{{"depth", "1025"}},
        backend::Params{{"depth", "x"}}, backend::Params{{"durable", "maybe"}}}) {
    const auto opened = nvme_type(std::make_shared<testing::FakeDriver>())
                            .open({.self = self, .events = &events, .params = bad});
    EXPECT_EQ(opened.code(), Code::invalid_argument);
  }
}

TEST_F(NvmeBackendTest, path_names_the_namespace_and_says_that_it_is_a_fake) {
  open();
  const std::string path = backend->describe_path(*local, *imported);
  EXPECT_NE(path.find("FAKE"), std::string::npos) << path;
  EXPECT_NE(path.find("512 KiB a command"), std::string::npos) << path;
}

}  // namespace
}  // namespace towpath::backends::nvme
