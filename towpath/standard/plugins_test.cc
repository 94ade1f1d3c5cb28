#include <cstring>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <towpath/backend/testing/recording_events.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/plugin_backend.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/standard.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::standard {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A directory with some of the plug-ins that the build made of testing/example_plugin.c.
class PluginsTest : public testing::Test {
 protected:
  void add(int variant, const std::string& name) const {
    const std::filesystem::path made =
        cat(TOWPATH_EXAMPLE_PLUGINS, "/example_plugin_", variant, ".so");
    std::filesystem::copy_file(made, path(name));
  }
  std::filesystem::path path(const std::string& name) const {
    return std::filesystem::path(directory_.path()) / name;
  }
  std::vector<PluginFound> load() {
    auto found = load_plugins(directory_.path(), registry_);
    EXPECT_TRUE(found.ok()) << found.status().to_string();
    return found.ok() ? *std::move(found) : std::vector<PluginFound>();
  }

  sys::TemporaryDirectory directory_ = *sys::TemporaryDirectory::create("/tmp");
  backend::Registry registry_ = make_registry();
  sys::SystemClock clock_;
};

TEST_F(PluginsTest, a_plug_in_moves_bytes_for_an_agent) {
  add(0, "libtowpath_backend_example.so");
  const auto found = load();
  ASSERT_EQ(found.size(), 1U);
  ASSERT_TRUE(found[0].status.ok()) << found[0].status.to_string();
  EXPECT_EQ(found[0].name, "example");
  auto agent = *agent::Agent::create({.name = "alone", .registry = &registry_, .clock = &clock_});
  ASSERT_TRUE(agent->add_backend("example").ok());
  memory::SharedRegion region = *memory::SystemRegion::allocate(8192);
  auto registration = agent->register_region(region);
  ASSERT_TRUE(registration.ok()) << registration.status().to_string();
  std::memset(region->bytes().data(), 7, 4096);
  DescriptorList from(MemoryKind::system);
  DescriptorList to(MemoryKind::system);
  const std::uint64_t begin = region->descriptor().address;
  for (std::uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(from.add(Descriptor{begin + i * 1024, 512, 0}).ok());
    ASSERT_TRUE(to.add(Descriptor{begin + 4096 + i * 1024, 512, 0}).ok());
  }
  auto copy = agent->create_transfer(TransferOp::write, from, "alone", to);
  ASSERT_TRUE(copy.ok()) << copy.status().to_string();
  ASSERT_TRUE(copy->post().ok());
  EXPECT_EQ(copy->wait(), Outcome::done);
  EXPECT_EQ(copy->report()->bytes, 2048U);
  EXPECT_EQ(region->bytes()[4096 + 3 * 1024 + 511], std::byte{7});
  EXPECT_EQ(region->bytes()[4096 + 3 * 1024 + 512], std::byte{0});
}

TEST_F(PluginsTest, a_transfer_is_cancelled) {
  add(0, "libtowpath_backend_example.so");
  (void)load();
  auto agent = *agent::Agent::create({.name = "alone", .registry = &registry_, .clock = &clock_});
  ASSERT_TRUE(agent->add_backend("example").ok());
  memory::SharedRegion region = *memory::SystemRegion::allocate(8192);
  auto registration = agent->register_region(region);
  DescriptorList from(MemoryKind::system);
  DescriptorList to(MemoryKind::system);
  ASSERT_TRUE(from.add(Descriptor{region->descriptor().address, 512, 0}).ok());
  ASSERT_TRUE(to.add(Descriptor{region->descriptor().address + 4096, 512, 0}).ok());
  auto copy = agent->create_transfer(TransferOp::write, from, "alone", to);
  ASSERT_TRUE(copy.ok());
  ASSERT_TRUE(copy->post().ok());
  copy->cancel();
  EXPECT_TRUE(copy->ended());
  EXPECT_EQ(copy->outcome(), Outcome::cancelled);
}

/// Two agents, and a region of each.
class PluginPeersTest : public PluginsTest {
 protected:
  struct Side {
    std::unique_ptr<agent::Agent> agent;
    memory::SharedRegion region;
    memory::Registration registration;
    DescriptorList list{MemoryKind::system};
  };
  Side open(const std::string& name, const std::vector<std::string>& backends, std::byte fill) {
    Side side{
        .agent = *agent::Agent::create({.name = name, .registry = &registry_, .clock = &clock_}),
        .region = *memory::SystemRegion::allocate(4096)};
    for (const std::string& one : backends) EXPECT_TRUE(side.agent->add_backend(one).ok()) << one;
    side.registration = *side.agent->register_region(side.region);
    std::memset(side.region->bytes().data(), static_cast<int>(fill), 4096);
    EXPECT_TRUE(side.list.add(Descriptor{side.region->descriptor().address, 4096, 0}).ok());
    return side;
  }
};

TEST_F(PluginPeersTest, two_agents_that_have_only_a_plug_in_are_reported_that_it_reaches_no_peers) {
  add(0, "libtowpath_backend_example.so");
  (void)load();
  const Side left = open("left", {"example"}, {});
  const Side right = open("right", {"example"}, {});
  const auto met = left.agent->load_metadata(*right.agent->metadata());
  EXPECT_EQ(met.code(), Code::unavailable);
  EXPECT_THAT(met.status().to_string(), HasSubstr("its metadata names none"));
}

TEST_F(PluginPeersTest, beside_a_plug_in_another_backend_moves_bytes_between_agents) {
  add(0, "libtowpath_backend_example.so");
  (void)load();
  const Side left = open("left", {"example", "loopback"}, std::byte{1});
  const Side right = open("right", {"example", "loopback"}, std::byte{2});
  const auto met = left.agent->load_metadata(*right.agent->metadata());
  ASSERT_TRUE(met.ok()) << met.status().to_string();
  auto pull = left.agent->create_transfer(TransferOp::read, left.list, "right", right.list);
  ASSERT_TRUE(pull.ok()) << pull.status().to_string();
  ASSERT_TRUE(pull->post().ok());
  EXPECT_EQ(pull->wait(), Outcome::done);
  EXPECT_EQ(left.region->bytes()[4095], std::byte{2});
  EXPECT_EQ(pull->backend(), "loopback");
  auto within = left.agent->create_transfer(TransferOp::read, left.list, "right", right.list,
                                            {.backends = {"example"}});
  EXPECT_EQ(within.code(), Code::unsupported) << within.status().to_string();
}

int& file_given() {
  static int fd = -1;
  return fd;
}

/// Takes files, and moves nothing.
const towpath_backend_v1_t& files_plugin() {
  static const towpath_pair_v1 kPair{.local_kind = static_cast<std::uint32_t>(MemoryKind::system),
                                     .remote_kind = static_cast<std::uint32_t>(MemoryKind::disk),
                                     .read = true,
                                     .write = true};
  static const towpath_backend_v1_t kPlugin{
      .size = sizeof(towpath_backend_v1_t),
      .name = "files",
      .summary = "takes files",
      .pairs = &kPair,
      .pair_count = 1,
      .params = nullptr,
      .param_count = 0,
      .alignment = 1,
      .latency_ns = 100,
      .bytes_per_second = 0,
      .quiesced_within_ns = 0,
      .open = [](const towpath_host_v1*, const towpath_param_v1*, size_t, void**, char*,
                 size_t) -> std::int32_t { return 0; },
      .close = [](void*) {},
      .register_memory = [](void*, const towpath_region_v1* region, void**, char*,
                            size_t) -> std::int32_t { return file_given() = region->fd, 0; },
      .deregister_memory =
          [](void*, void*) {
            EXPECT_TRUE(file_given() < 0 || ::fcntl(file_given(), F_GETFD) >= 0);
          },
      .post = [](void*, void*, std::uint32_t, const towpath_segment_v1*, size_t) {},
      .cancel = [](void*, void*) {},
      .progress = [](void*) { return false; },
      .wait_fd = [](void*) { return -1; }};
  return kPlugin;
}

struct PluginFilesTest : ::testing::Test {
  const sys::SystemClock clock;
  backend::testing::RecordingEvents events;
  const std::unique_ptr<backend::Backend> opened =
      plugin_type(files_plugin(), nullptr)
          .value()
          .open({.self = {"alone", 1}, .clock = &clock, .events = &events})
          .value();
};

TEST_F(PluginFilesTest, a_file_stays_open_and_another_with_its_number_is_not_taken_for_it) {
  std::unique_ptr<backend::Memory> made;
  RegionDescriptor region{.kind = MemoryKind::disk, .length = 4096};
  {
    const sys::Fd first(::memfd_create("first", MFD_CLOEXEC));
    region.fd = first.get();
    made = opened->register_memory(region).value();
    EXPECT_NE(file_given(), region.fd);
    EXPECT_TRUE(opened->confirm(*made, region).ok());
  }
  EXPECT_FALSE(opened->confirm(*made, region).ok()) << "it is closed";
  const sys::Fd second(::memfd_create("second", MFD_CLOEXEC));
  ASSERT_EQ(second.get(), region.fd);
  EXPECT_EQ(opened->confirm(*made, region).code(), Code::already_exists);
  made.reset();
  EXPECT_EQ(::fcntl(file_given(), F_GETFD), -1) << "it is nobody's any more";
  region.key = "rw:/somewhere";
  EXPECT_TRUE(opened->register_memory(region).ok());
  EXPECT_EQ(file_given(), -1) << "of a path the number says nothing";
}

/// A pool is thousands of regions of one file, and a process has a thousand descriptors.
TEST_F(PluginFilesTest, regions_of_one_file_share_a_descriptor) {
  sys::Fd file(::memfd_create("pool", MFD_CLOEXEC));
  const std::string name = cat("/proc/self/fd/", file.get());
  const sys::Fd other(::open(name.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
  ASSERT_TRUE(other);
  RegionDescriptor region{.kind = MemoryKind::disk, .length = 4096};
  region.fd = other.get();
  const auto appends = opened->register_memory(region).value();
  const int appending = file_given();
  region.fd = file.get();
  auto first = opened->register_memory(region).value();
  const int given = file_given();
  EXPECT_NE(given, appending) << "it was opened in another way";
  region.address = 4096;
  auto second = opened->register_memory(region).value();
  EXPECT_EQ(file_given(), given);
  file.reset();
  first.reset();
  EXPECT_GE(::fcntl(given, F_GETFD), 0) << "the other region has it still";
  second.reset();
  EXPECT_EQ(::fcntl(given, F_GETFD), -1);
  file_given() = -1;
}

TEST_F(PluginsTest, what_a_plug_in_says_is_reported) {
  add(0, "libtowpath_backend_example.so");
  (void)load();
  auto agent = *agent::Agent::create({.name = "alone", .registry = &registry_, .clock = &clock_});
  const Status moody = agent->add_backend("example", {{"mood", "bad"}});
  EXPECT_EQ(moody.code(), Code::invalid_argument);
  EXPECT_THAT(moody.to_string(), HasSubstr("the mood is bad"));
  EXPECT_THAT(agent->add_backend("example", {{"speed", "high"}}).to_string(), HasSubstr("mood"));
  ASSERT_TRUE(agent->add_backend("example", {{"mood", "good"}}).ok());
  const auto region = memory::SystemRegion::allocate(13);
  const auto unlucky = agent->register_region(*region, {.backends = {"example"}});
  EXPECT_THAT(unlucky.status().to_string(), HasSubstr("bad luck"));
}

TEST_F(PluginsTest, what_is_wrong_with_a_plug_in_is_named_and_the_others_are_loaded) {
  add(0, "libtowpath_backend_a.so");
  add(1, "libtowpath_backend_b.so");
  add(2, "libtowpath_backend_c.so");
  add(3, "libtowpath_backend_d.so");
  add(4, "libtowpath_backend_e.so");
  std::ofstream(path("libtowpath_backend_f.so")) << "no library at all";
  std::ofstream(path("libother.so")) << "none of ours";
  std::vector<Code> codes;
  for (const PluginFound& one : load()) codes.push_back(one.status.code());
  EXPECT_THAT(codes,
              ElementsAre(Code::ok, Code::unsupported, Code::invalid_argument,
                          Code::invalid_argument, Code::already_exists, Code::invalid_argument));
  EXPECT_TRUE(registry_.find("example").ok());
}

TEST_F(PluginsTest, a_library_without_the_entry_is_no_plug_in) {
  std::filesystem::copy_file(TOWPATH_NO_PLUGIN, path("libtowpath_backend_none.so"));
  const auto found = load();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].status.code(), Code::unsupported);
  EXPECT_THAT(found[0].status.to_string(), HasSubstr("towpath_backend_v1"));
}

TEST_F(PluginsTest, a_directory_that_is_not_there_is_an_error) {
  EXPECT_EQ(load_plugins(path("nowhere").string(), registry_).status().code(), Code::not_found);
}

}  // namespace
}  // namespace towpath::standard
