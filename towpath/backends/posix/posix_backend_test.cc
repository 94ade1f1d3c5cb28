#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include <towpath/backends/posix/counters.h>
#include <towpath/backends/posix/posix_fixture.h>
#include <towpath/core/format.h>

namespace towpath::backends::posix {
namespace {

using backend::Segment;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Way {
  const char* engine;
  bool direct;

  std::string name() const { return cat(engine, direct ? "_direct" : "_buffered"); }
};
// Else the suite's list of tests shows the bytes of pointers, which no two runs share.
void PrintTo(const Way& way, std::ostream* out) { *out << way.name(); }

/// Every case by every engine, through the page cache and past it.
class PosixPathTest : public ::testing::TestWithParam<Way> {
 protected:
  void open(backend::Params params = {}) {
    params["engine"] = GetParam().engine;
    posix = std::make_unique<PosixFixture>(std::move(params));
    ASSERT_NE(posix->backend, nullptr);
  }
  /// A file of `length` zeros.
  void make_file(std::uint64_t length) {
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | (GetParam().direct ? O_DIRECT : 0);
    file.reset(::open(path().c_str(), flags, 0600));
    if (!file && GetParam().direct) GTEST_SKIP() << kNoDirect;
    ASSERT_TRUE(file) << std::strerror(errno);
    ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(length)), 0);
    posix->use_file(file.get(), length);
  }
  std::string path() const { return directory.file("data"); }
  std::vector<std::byte> content() {
    std::vector<std::byte> bytes(2U << 20U);
    const sys::Fd plain(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    bytes.resize(static_cast<std::size_t>(::pread(plain.get(), bytes.data(), bytes.size(), 0)));
    return bytes;
  }
  /// Writes from the first half of the memory, reads into the second, compares.
  void round_trip(std::vector<Segment> segments) {
    const std::uint64_t half = posix->memory.size() / 2;
    fill_with_random_bytes(posix->memory.first(half), half);
    std::memset(posix->memory.data() + half, 0x5A, half);
    std::uint64_t total = 0;
    for (const Segment& segment : segments) total += segment.length * segment.count;
    auto outcome = posix->write(segments);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.to_string();
    ASSERT_EQ(outcome.bytes, total);
    for (Segment& segment : segments) segment.local_address += half;
    outcome = posix->read(segments);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.to_string();
    ASSERT_EQ(outcome.bytes, total);
    std::vector<std::byte> expected(half, std::byte{0x5A});
    const std::uint64_t base = address_of(posix->memory.data()) + half;
    for (const Segment& segment : segments) {
      for (std::uint64_t i = 0; i < segment.count; ++i) {
        const std::uint64_t at = segment.local_address - base + i * segment.local_stride;
        std::memcpy(expected.data() + at, posix->memory.data() + at, segment.length);
      }
    }
    EXPECT_EQ(std::memcmp(expected.data(), posix->memory.data() + half, half), 0);
  }

  sys::TemporaryDirectory directory = std::move(*sys::TemporaryDirectory::create("/var/tmp"));
  sys::Fd file;
  std::unique_ptr<PosixFixture> posix;
};

INSTANTIATE_TEST_SUITE_P(All, PosixPathTest,
                         ::testing::Values(Way{"io_uring", false}, Way{"io_uring", true},
                                           Way{"threads", false}, Way{"threads", true}),
                         [](const auto& way) { return way.param.name(); });

TEST_P(PosixPathTest, any_size_goes_there_and_back) {
  open();
  posix->use_memory(4U << 20U);
  make_file(2U << 20U);
  for (const std::uint64_t size :
       {0UL, 1UL, 511UL, 4095UL, 4096UL, 4097UL, 65'536UL, 1UL << 20U, (1UL << 20U) + 13UL}) {
    SCOPED_TRACE(size);
    round_trip({posix->segment(0, 0, size)});
    round_trip({posix->segment(4096, 8192, size)});
    round_trip({posix->segment(3, 1001, size)});
  }
}

TEST_P(PosixPathTest, plain_lists_of_any_length_in_any_order) {
  open({{"depth", "32"}});
  posix->use_memory(2 * 65'536 * 64);
  make_file(65'536 * 64);
  for (const std::size_t count : {1U, 100U, 65'536U}) {
    SCOPED_TRACE(count);
    std::vector<std::uint64_t> places(count);
    std::iota(places.begin(), places.end(), 0U);
    // Neighbours of eight, so that direct I/O of some is aligned and merged.
    if (count <= 100) std::shuffle(places.begin(), places.end(), std::mt19937(1));
    std::vector<Segment> segments;
    for (std::size_t i = 0; i < count; ++i)
      segments.push_back(posix->segment((count - 1 - i) * 64, places[i] * 64, 64));
    round_trip(segments);
  }
}

TEST_P(PosixPathTest, strided_lists_gather_and_scatter) {
  open();
  posix->use_memory(8U << 20U);
  make_file(4U << 20U);
  Segment blocks = posix->segment(0, 4096, 1024);
  blocks.count = 1000;
  blocks.local_stride = 4096;
  blocks.remote_stride = 1024;
  round_trip({blocks});
  blocks.remote_stride = 2048;
  round_trip({blocks});
  blocks.length = 16;
  blocks.count = 65'536;
  blocks.local_stride = 32;
  blocks.remote_stride = 16;
  round_trip({blocks});
}

TEST_P(PosixPathTest, depth_of_one_works) {
  open({{"depth", "1"}, {"chunk_bytes", "4K"}});
  posix->use_memory(1U << 20U);
  make_file(1U << 20U);
  round_trip({posix->segment(0, 0, 300'000), posix->segment(400'000, 400'000, 77)});
}

TEST_P(PosixPathTest, the_file_really_holds_the_bytes) {
  open();
  posix->use_memory(1U << 20U);
  make_file(1U << 20U);
  fill_with_random_bytes(posix->memory, 3);
  ASSERT_TRUE(posix->write({posix->segment(0, 0, 1U << 20U)}).status.ok());
  const auto bytes = content();
  ASSERT_EQ(bytes.size(), posix->memory.size());
  EXPECT_EQ(std::memcmp(bytes.data(), posix->memory.data(), bytes.size()), 0);
}

TEST_P(PosixPathTest, the_end_of_the_file_is_named) {
  open();
  posix->use_memory(1U << 20U);
  make_file(100'000);
  posix->use_file(file.get(), 1U << 20U);
  const auto outcome = posix->read({posix->segment(0, 0, 4096), posix->segment(4096, 98'304, 8192),
                                    posix->segment(65'536, 200'704, 512)});
  EXPECT_EQ(outcome.status.code(), Code::out_of_range);
  ASSERT_EQ(outcome.failures.size(), 2U);
  EXPECT_EQ(outcome.failures[0].segment, 1U);
  EXPECT_EQ(outcome.failures[0].bytes, 100'000U - 98'304U);
  EXPECT_THAT(outcome.failures[0].status.message(), HasSubstr("ends at 100000"));
  EXPECT_EQ(outcome.failures[1].segment, 2U);
  EXPECT_EQ(outcome.bytes, 4096U + 100'000U - 98'304U);
}

TEST_P(PosixPathTest, a_descriptor_closed_too_early_hits_nobody_else) {
  open();
  posix->use_memory(1U << 20U);
  make_file(1U << 20U);
  const int number = file.get();
  file.reset();
  const sys::Fd unauthenticated(
      ::open(directory.file("unauthenticated connection").c_str(), O_RDWR | O_CREAT, 0600));
  ASSERT_EQ(unauthenticated.get(), number);
  fill_with_random_bytes(posix->memory, 5);
  ASSERT_TRUE(posix->write({posix->segment(0, 0, 4096)}).status.ok());
  EXPECT_EQ(::lseek(unauthenticated.get(), 0, SEEK_END), 0);
  EXPECT_EQ(std::memcmp(content().data(), posix->memory.data(), 4096), 0);
}

TEST_P(PosixPathTest, cancelled_transfers_touch_nothing_after_their_end) {
  open({{"chunk_bytes", "64K"}, {"depth", "8"}});
  posix->use_memory(8U << 20U);
  make_file(8U << 20U);
  fill_with_random_bytes(posix->memory, 1);
  ASSERT_TRUE(posix->write({posix->segment(0, 0, 8U << 20U)}).status.ok());
  int cancelled = 0;
  for (int round = 0; round < 5; ++round) {
    posix->events.completions.clear();  // an operation of before may have had the same address
    std::memset(posix->memory.data(), 0x11, posix->memory.size());
    const std::vector<Segment> segments{posix->segment(0, 0, 8U << 20U)};
    auto operation = posix->backend->make_operation();
    operation->post({TransferOp::read, posix->connection.get(), segments});
    for (int i = 0; i < round; ++i) posix->backend->progress();
    operation->cancel();
    posix->run(*operation);
    const auto& outcome = posix->events.last(*operation);
    if (outcome.status.ok()) continue;
    EXPECT_EQ(outcome.status.code(), Code::cancelled);
    EXPECT_LT(outcome.bytes, posix->memory.size());
    ++cancelled;
    std::memset(posix->memory.data(), 0x22, posix->memory.size());
    for (int i = 0; i < 50; ++i) posix->backend->progress();
    // All equal to their neighbour, and the first one to the poison.
    EXPECT_EQ(posix->memory[0], std::byte{0x22});
    EXPECT_EQ(std::memcmp(posix->memory.data(), posix->memory.data() + 1, posix->memory.size() - 1),
              0);
  }
  EXPECT_GT(cancelled, 0) << "all were done before they could be cancelled";
}

TEST_P(PosixPathTest, many_operations_at_once_each_end_once) {
  open({{"depth", "8"}});
  posix->use_memory(4U << 20U);
  make_file(2U << 20U);
  fill_with_random_bytes(posix->memory.first(2U << 20U), 9);
  ASSERT_TRUE(posix->write({posix->segment(0, 0, 2U << 20U)}).status.ok());
  std::vector<std::vector<Segment>> lists;
  std::vector<std::unique_ptr<backend::Operation>> operations;
  for (std::uint64_t i = 0; i < 128; ++i) {
    lists.push_back({posix->segment((2U << 20U) + i * 16'384, i * 16'384, 16'384)});
    operations.push_back(posix->backend->make_operation());
  }
  for (std::size_t i = 0; i < lists.size(); ++i)
    operations[i]->post({TransferOp::read, posix->connection.get(), lists[i]});
  for (auto& operation : operations) posix->run(*operation);
  for (auto& operation : operations) {
    EXPECT_EQ(posix->events.count(*operation), 1U);
    EXPECT_TRUE(posix->events.last(*operation).status.ok());
  }
  EXPECT_EQ(std::memcmp(posix->memory.data(), posix->memory.data() + (2U << 20U), 2U << 20U), 0);
}

// What the page cache has is the kernel's to know: the bytes come either way, counted once.
TEST_P(PosixPathTest, a_read_is_answered_by_the_page_cache_or_by_the_engine) {
  open();
  posix->use_memory(1U << 20U);
  make_file(1U << 20U);
  round_trip({posix->segment(0, 0, 65'536)});
  const Counters counters(&posix->metrics, posix->self.name);
  EXPECT_EQ(counters.submissions.value() + counters.cached_reads.value(), 2U);
}

// The rule of registered_buffers: pinned pages spare O_DIRECT I/O a look-up, and cost a buffered
// one.
TEST_P(PosixPathTest, registered_buffers_are_used_as_the_parameter_says) {
  const bool can = std::string_view(GetParam().engine) == "io_uring";
  for (const std::string use : {"auto", "on", "off"}) {
    SCOPED_TRACE(use);
    open({{"registered_buffers", use}});
    posix->use_memory(1U << 20U);
    make_file(1U << 20U);
    const bool direct =
        posix->backend->describe_path(*posix->local, *posix->imported).find("O_DIRECT in units") !=
        std::string::npos;
    ASSERT_TRUE(posix->write({posix->segment(0, 0, 65'536)}).status.ok());
    const bool used = can && (use == "on" || (use == "auto" && direct));
    const std::string reported = posix->backend->describe_path(*posix->local, *posix->imported);
    EXPECT_THAT(reported, HasSubstr(used ? "registered buffer" : "plain buffer"));
    const Counters counters(&posix->metrics, posix->self.name);
    EXPECT_EQ(counters.registered_ios.value(), used ? 1U : 0U);
    EXPECT_EQ(counters.registered_bytes.value(), can && use != "off" ? 1 << 20 : 0);
  }
}

// ---- What does not depend on the page cache

class PosixBackendTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_NE(posix.backend, nullptr);
    posix.use_memory(1U << 20U);
  }
  PosixFixture posix{{{"engine", GetParam()}}};
  sys::TemporaryDirectory directory = std::move(*sys::TemporaryDirectory::create());
};

INSTANTIATE_TEST_SUITE_P(All, PosixBackendTest, ::testing::Values("io_uring", "threads"),
                         [](const auto& param_info) { return std::string(param_info.param); });

TEST_P(PosixBackendTest, a_full_device_is_exhausted) {
  const sys::Fd full(::open("/dev/full", O_RDWR | O_CLOEXEC));
  posix.use_file(full.get(), 1U << 20U);
  const auto outcome = posix.write({posix.segment(0, 0, 4096), posix.segment(8192, 8192, 4096)});
  EXPECT_EQ(outcome.status.code(), Code::exhausted);
  EXPECT_EQ(outcome.bytes, 0U);
  EXPECT_EQ(outcome.failures.size(), 2U);
  EXPECT_THAT(outcome.failures[1].status.message(), AllOf(HasSubstr("ENOSPC"), HasSubstr("8192")));
}

TEST_P(PosixBackendTest, a_file_system_that_fills_up_keeps_what_fitted) {
  if (::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "no small tmpfs (" << std::strerror(errno)
                 << "): run as root with CAP_SYS_ADMIN";
  {
    const sys::Fd file(::open(directory.file("data").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    posix.use_file(file.get(), 1U << 20U);
    Segment dense = posix.segment(0, 0, 1000);
    dense.count = 100;
    dense.local_stride = dense.remote_stride = 1000;
    const auto outcome = posix.write({dense});
    EXPECT_EQ(outcome.status.code(), Code::exhausted);
    EXPECT_EQ(outcome.bytes, 65'536U);
    ASSERT_EQ(outcome.failures.size(), 35U);
    EXPECT_EQ(outcome.failures[0].extent, 65U);
    EXPECT_EQ(outcome.failures[0].bytes, 536U);
    posix.imported.reset();
    posix.registered.reset();
  }
  EXPECT_EQ(::umount2(directory.path().c_str(), MNT_DETACH), 0);
}

TEST_P(PosixBackendTest, a_file_that_must_not_grow_refuses_the_extents_behind_its_end) {
  const sys::Fd file(::memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), 8192), 0);
  ASSERT_EQ(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  posix.use_file(file.get(), 1U << 20U);
  const auto outcome = posix.write({posix.segment(0, 0, 4096), posix.segment(4096, 16'384, 4096),
                                    posix.segment(8192, 4096, 4096)});
  EXPECT_EQ(outcome.status.code(), Code::denied);
  ASSERT_EQ(outcome.failures.size(), 1U);
  EXPECT_EQ(outcome.failures[0].segment, 1U);
  EXPECT_EQ(outcome.bytes, 8192U);
}

TEST_P(PosixBackendTest, files_open_for_one_way_refuse_the_other) {
  const std::string path = directory.file("data");
  const sys::Fd writer(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const sys::Fd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  posix.use_file(reader.get(), 4096);
  EXPECT_EQ(posix.write({posix.segment(0, 0, 10)}).status.code(), Code::denied);
  posix.use_file(writer.get(), 4096);
  EXPECT_EQ(posix.read({posix.segment(0, 0, 10)}).status.code(), Code::denied);
  EXPECT_TRUE(posix.write({posix.segment(0, 0, 10)}).status.ok());
}

TEST_P(PosixBackendTest, a_directory_a_pipe_and_a_closed_number_are_no_files) {
  const auto code_of = [&](int fd) {
    return posix.backend->register_memory({.kind = MemoryKind::disk, .length = 1, .fd = fd}).code();
  };
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const sys::Fd in(ends[0]), out(ends[1]);
  const sys::Fd folder(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(code_of(in.get()), Code::invalid_argument);
  EXPECT_EQ(code_of(folder.get()), Code::invalid_argument);
  EXPECT_EQ(code_of(-1), Code::invalid_argument);
  EXPECT_EQ(code_of(987'654), Code::invalid_argument);
}

TEST_P(PosixBackendTest, bad_regions_are_refused) {
  const auto code_of = [&](const RegionDescriptor& region) {
    return posix.backend->register_memory(region).code();
  };
  EXPECT_EQ(code_of({.kind = MemoryKind::device, .address = 4096, .length = 1}), Code::unsupported);
  EXPECT_EQ(code_of({.address = 0, .length = 1}), Code::invalid_argument);
  EXPECT_EQ(code_of({.address = 4096, .length = 0}), Code::invalid_argument);
  EXPECT_EQ(code_of({.address = UINT64_MAX, .length = 2}), Code::invalid_argument);
}

TEST_P(PosixBackendTest, hostile_metadata_find_nothing) {
  const sys::Fd file(::memfd_create("data", MFD_CLOEXEC));
  posix.use_file(file.get(), 4096);
  const auto code_of = [&](const RegionDescriptor& region, ConstByteSpan key) {
    return posix.backend->import_memory(*posix.connection, region, key).code();
  };
  const RegionDescriptor good{.kind = MemoryKind::disk,
                              .length = 4096,
                              .device_id = static_cast<std::uint64_t>(file.get())};
  Bytes key = posix.registered->key();
  EXPECT_EQ(code_of(good, key), Code::ok);
  EXPECT_EQ(code_of(good, {}), Code::corrupt);
  EXPECT_EQ(code_of(good, ConstByteSpan(key).first(15)), Code::corrupt);
  RegionDescriptor bad = good;
  bad.length = 4097;
  EXPECT_EQ(code_of(bad, key), Code::corrupt);
  bad = good;
  bad.kind = MemoryKind::system;
  EXPECT_EQ(code_of(bad, key), Code::corrupt);
  key[8] ^= std::byte{0x40};
  EXPECT_EQ(code_of(good, key), Code::not_found);
  key = posix.registered->key();
  posix.registered.reset();
  EXPECT_EQ(code_of(good, key), Code::not_found);
  EXPECT_EQ(posix.read({posix.segment(0, 0, 1)}).status.code(), Code::not_found);
}

TEST_P(PosixBackendTest, only_the_agent_itself_is_reached) {
  EXPECT_EQ(posix.backend->connect({"decode-0", 9}, {}).code(), Code::unsupported);
  const std::array<std::byte, 1> junk{};
  EXPECT_EQ(posix.backend->connect(posix.self, junk).code(), Code::corrupt);
  EXPECT_TRUE(posix.backend->connection_info().empty());
  EXPECT_EQ(posix.backend->notify(*posix.connection, {}).code(), Code::unsupported);
}

TEST_P(PosixBackendTest, the_path_is_reported) {
  const sys::Fd file(::memfd_create("data", MFD_CLOEXEC));
  posix.use_file(file.get(), 4096);
  const std::string reported = posix.backend->describe_path(*posix.local, *posix.imported);
  EXPECT_THAT(reported, HasSubstr("through the page cache"));
  if (std::string_view(GetParam()) == "io_uring")
    EXPECT_EQ(reported,
              "io_uring, plain buffer (auto: the page cache copies faster from and to plain ones); "
              "registered file, through the page cache");
  else
    EXPECT_THAT(reported, AllOf(HasSubstr("threads"), HasSubstr("plain buffer (unsupported")));
}

TEST_P(PosixBackendTest, memory_that_cannot_be_pinned_goes_plain_and_is_reported) {
  void* wall = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(wall, MAP_FAILED);
  auto made = posix.backend->register_memory({.address = address_of(wall), .length = 4096});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(posix.log.count_of("not pinned"), std::string_view(GetParam()) == "threads" ? 2U : 1U);
  const sys::Fd file(::memfd_create("data", MFD_CLOEXEC));
  posix.use_file(file.get(), 4096);
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  const Segment bad{made->get(), posix.imported.get(), address_of(wall), 0, 4096};
  const auto outcome = posix.read({bad, posix.segment(0, 0, 100)});
  EXPECT_EQ(outcome.status.code(), Code::io_error) << outcome.status.to_string();  // EFAULT
  EXPECT_EQ(outcome.bytes, 100U);
  made->reset();
  ::munmap(wall, 4096);
}

TEST(PosixTypeTest, parameters_are_checked_by_name) {
  sys::SystemClock clock;
  telemetry::NullSink log;
  backend::testing::RecordingEvents events;
  backend::Registry registry;
  ASSERT_TRUE(registry.add(posix_type()).ok());
  const auto status_of = [&](const std::string& name, const std::string& value) {
    return registry
        .open("posix", {.clock = &clock, .events = &events, .log = &log, .params = {{name, value}}})
        .status();
  };
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"depth", "0"},
                                                        {"depth", "4097"},
                                                        {"depth", "many"},
                                                        {"chunk_bytes", "100"},
                                                        {"chunk_bytes", "2G"},
                                                        {"engine", "aio"},
                                                        {"registered_buffers", "yes"}}) {
    EXPECT_EQ(status_of(name, value).code(), Code::invalid_argument) << name << "=" << value;
    EXPECT_THAT(status_of(name, value).message(), HasSubstr(name));
  }
  EXPECT_EQ(status_of("speed", "high").code(), Code::invalid_argument);
  EXPECT_TRUE(status_of("chunk_bytes", "64K").ok());
  EXPECT_TRUE(status_of("registered_buffers", "off").ok());
  EXPECT_TRUE(status_of("registered_buffers", "on").ok());
}

TEST(PosixTypeTest, the_probe_says_which_engine) {
  EXPECT_EQ(posix_type().probe({}).back().verdict, Verdict::yes);
  EXPECT_THAT(posix_type().probe({{"engine", "threads"}}).back().reason, HasSubstr("threads"));
  EXPECT_EQ(posix_type().probe({{"engine", "aio"}}).back().verdict, Verdict::no);
}

}  // namespace
}  // namespace towpath::backends::posix
