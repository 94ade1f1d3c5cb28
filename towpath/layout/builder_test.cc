#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/layout/builder.h>
#include <towpath/layout/plan.h>
#include <towpath/layout/remote_layout.h>
#include <towpath/memory/system_region.h>
#include <towpath/memory/testing/recording_registrar.h>
#include <towpath/memory/view.h>
#include <towpath/sys/memory_file_system.h>

namespace towpath::layout {
namespace {

using memory::Registered;
using memory::SharedRegion;
using memory::SystemRegion;
using memory::testing::EventLog;
using memory::testing::RecordingRegistrar;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Contiguous: 768 bytes. Per layer: 256.
LayoutConfig config() {
  return {.num_blocks = 2, .num_layers = 3, .outer_dim = 2, .page_size = 4, .inner_dim = 8};
}

// A user's own kind of memory.
class OwnMemory {
 public:
  explicit OwnMemory(std::size_t size) : bytes_(size) {}
  const std::byte* address() const { return bytes_.data(); }
  std::uint64_t size() const { return bytes_.size(); }
  MemoryKind kind() const { return MemoryKind::system; }
  std::uint64_t device_id() const { return 0; }

 private:
  std::vector<std::byte> bytes_;
};

class BuilderTest : public ::testing::Test {
 protected:
  auto start() { return PhysicalLayoutBuilder(agent_).with_config(config()); }

  SharedRegion registered(std::uint64_t size, RecordingRegistrar& agent) {
    auto memory = memory::register_with(SystemRegion::allocate(size).value(), agent);
    return std::make_shared<Registered<SystemRegion>>(*std::move(memory));
  }
  SharedRegion registered(std::uint64_t size) { return registered(size, agent_); }

  static std::string why(const auto& failed) { return std::string(failed.status().message()); }

  EventLog log_;
  RecordingRegistrar agent_{log_, {.name = "builder-test"}};
  sys::MemoryFileSystem files_;
};

TEST_F(BuilderTest, builds_fully_contiguous_from_registered_regions) {
  auto built = start().fully_contiguous().with_registered_regions({registered(768)});
  ASSERT_TRUE(built.ok()) << built.status().to_string();
  const PhysicalLayout layout = std::move(*built).build().value();
  EXPECT_EQ(layout.location(), (Location{.kind = MemoryKind::system, .device_id = 0}));
  EXPECT_TRUE(layout.is_fully_contiguous());
  EXPECT_TRUE(layout.layout().is_fully_contiguous());
  EXPECT_EQ(layout.config(), config());
  EXPECT_EQ(
      layout.metadata(),
      (LayoutMetadata{.agent_name = "builder-test", .kind = MemoryKind::system, .device_id = 0}));
}

TEST_F(BuilderTest, builds_layer_separate_from_registered_regions) {
  const std::vector<SharedRegion> regions = {registered(256), registered(256), registered(256)};
  auto built = start().layer_separate(BlockDimension::first).with_registered_regions(regions);
  ASSERT_TRUE(built.ok()) << built.status().to_string();
  const PhysicalLayout layout = std::move(*built).build().value();
  EXPECT_EQ(layout.location().kind, MemoryKind::system);
  EXPECT_FALSE(layout.is_fully_contiguous());
  EXPECT_EQ(layout.config().num_layers, 3u);
  EXPECT_EQ(layout.metadata().agent_name, "builder-test");
  EXPECT_EQ(layout.metadata().kind, MemoryKind::system);
  for (std::uint64_t layer = 0; layer < 3; ++layer)
    EXPECT_EQ(layout.memory_region({1, layer, 1}).value(),
              (Extent{layer, regions[layer]->descriptor().address + 192, 64}));
}

TEST_F(BuilderTest, one_allocation_holds_the_layers_at_multiples_of_512) {
  const PhysicalLayout layout =
      start().layer_separate(BlockDimension::second).allocate_system().build().value();
  const std::uint64_t base = layout.layout().regions()[0].address;
  EXPECT_EQ(base % 4096, 0u);
  EXPECT_THAT(layout.layout().regions(),
              ElementsAre(RegionExtent{base, 256}, RegionExtent{base + 512, 256},
                          RegionExtent{base + 1024, 256}));
  const auto* view = dynamic_cast<const memory::View*>(layout.regions()[0].get());
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->base()->size(), 1790u);
  EXPECT_THAT(log_.events(), ElementsAre("register builder-test"));
}

TEST_F(BuilderTest, a_contiguous_layout_uses_the_allocation_itself) {
  const PhysicalLayout layout = start().fully_contiguous().allocate_system().build().value();
  EXPECT_EQ(dynamic_cast<const memory::View*>(layout.regions()[0].get()), nullptr);
  EXPECT_EQ(layout.regions()[0]->size(), 768u);
}

TEST_F(BuilderTest, alignment_holds_for_absolute_addresses) {
  for (std::uint64_t alignment : {64u, 1024u, 65536u}) {
    LayoutConfig aligned = config();
    aligned.alignment = alignment;
    for (BlockDimension dimension : {BlockDimension::first, BlockDimension::second}) {
      const auto built = PhysicalLayoutBuilder(agent_)
                             .with_config(aligned)
                             .layer_separate(dimension)
                             .allocate_system()
                             .build();
      ASSERT_TRUE(built.ok()) << built.status().to_string();
      for (std::uint64_t layer = 0; layer < 3; ++layer)
        EXPECT_EQ(built->memory_region({1, layer, 0}).value().address % alignment, 0u);
    }
  }
}

TEST_F(BuilderTest, pages_are_bytes_that_do_not_touch_each_other) {
  for (bool contiguous : {true, false}) {
    auto kind =
        contiguous ? start().fully_contiguous() : start().layer_separate(BlockDimension::second);
    const PhysicalLayout layout = std::move(kind).allocate_system().build().value();
    const auto each_page = [&](auto visit) {
      unsigned char mark = 1;
      for (std::uint64_t b = 0; b < 2; ++b)
        for (std::uint64_t l = 0; l < 3; ++l)
          for (std::uint64_t o = 0; o < 2; ++o) visit(layout.bytes({b, l, o}).value(), mark++);
    };
    each_page([](ByteSpan page, unsigned char mark) {
      ASSERT_EQ(page.size(), 64u);
      std::fill(page.begin(), page.end(), std::byte{mark});
    });
    each_page([](ByteSpan page, unsigned char mark) {
      EXPECT_THAT(page, ::testing::Each(std::byte{mark}));
    });
    EXPECT_EQ(layout.bytes({2, 0, 0}).code(), Code::out_of_range);
  }
}

TEST_F(BuilderTest, layers_on_disk_have_offsets_of_their_own) {
  const PhysicalLayout layout = start()
                                    .layer_separate(BlockDimension::first)
                                    .allocate_disk(files_, {.path = "/cache/kv"})
                                    .build()
                                    .value();
  EXPECT_EQ(layout.location().kind, MemoryKind::disk);
  EXPECT_THAT(layout.layout().regions(),
              ElementsAre(RegionExtent{0, 256}, RegionExtent{512, 256}, RegionExtent{1024, 256}));
  EXPECT_EQ(layout.memory_region({1, 2, 1}).value(), (Extent{2, 1024 + 192, 64}));
  EXPECT_EQ(layout.regions()[2]->descriptor().key, "/cache/kv");
  EXPECT_EQ(layout.bytes({0, 0, 0}).code(), Code::unsupported);
}

TEST_F(BuilderTest, disk_without_a_path_is_a_new_file_in_the_default_directory) {
  const PhysicalLayout layout = start().fully_contiguous().allocate_disk(files_).build().value();
  EXPECT_THAT(layout.regions()[0]->descriptor().key, ::testing::StartsWith(kDefaultDiskDirectory));
}

class ObjectsTest : public BuilderTest {
 protected:
  auto objects(const memory::ObjectPlace& place) {
    return PhysicalLayoutBuilder(store_).with_config(config()).block_separate().allocate_objects(
        place);
  }

  RecordingRegistrar store_{log_, {.name = "store", .kinds = {MemoryKind::object}}};
};

TEST_F(ObjectsTest, each_block_is_an_object_with_an_id_of_its_own) {
  const PhysicalLayout layout = objects({.bucket = "kv", .key = "model/rank-0"}).build().value();
  EXPECT_EQ(store_.registered(), 2u);
  EXPECT_EQ(layout.location(), (Location{.kind = MemoryKind::object, .device_id = 0}));
  EXPECT_EQ(layout.regions()[1]->descriptor().key, "s3://kv/model/rank-0/1");
  for (const std::size_t block : {0u, 1u}) {
    const auto self = layout.regions()[block]->descriptor();
    EXPECT_EQ(layout.layout().regions()[block], (RegionExtent{0, 384, self.device_id}));
    EXPECT_EQ(layout.memory_region({block, 2, 1}).value(), (Extent{block, 320, 64}));
  }
  EXPECT_NE(layout.layout().regions()[0].device_id, layout.layout().regions()[1].device_id);
  EXPECT_EQ(layout.bytes({0, 0, 0}).code(), Code::unsupported);
}

TEST_F(ObjectsTest, descriptors_name_the_object_of_each_block) {
  const PhysicalLayout cache = start().fully_contiguous().allocate_system().build().value();
  const PhysicalLayout layout = objects({.key = "a"}).build().value();
  const std::vector<BlockRange> both = {{0, 0, 2}};
  const Plan made = plan(cache.layout(), layout.layout(), both).value();
  const DescriptorList target = describe(made, cache.layout(), layout.layout())->target;
  ASSERT_EQ(target.size(), 2u);
  for (const std::size_t block : {0u, 1u})
    EXPECT_EQ(target.at(block).device_id, layout.regions()[block]->descriptor().device_id);
}

TEST_F(ObjectsTest, layouts_over_other_objects_share_no_bytes_and_over_the_same_do) {
  const PhysicalLayout one = objects({.key = "a"}).build().value();
  const PhysicalLayout again = objects({.key = "a"}).build().value();
  const PhysicalLayout other = objects({.key = "b"}).build().value();
  EXPECT_TRUE(bounds_of(one.layout(), again.layout())->same_blocks);
  EXPECT_FALSE(bounds_of(one.layout(), other.layout())->same_blocks);
}

TEST_F(ObjectsTest, one_object_for_two_blocks_is_refused) {
  std::vector<SharedRegion> twice;
  for (int i = 0; i < 2; ++i)
    twice.push_back(memory::ObjectRegion::create({.key = "same", .size_bytes = 384}).value());
  auto builder = PhysicalLayoutBuilder(store_).with_config(config()).block_separate();
  EXPECT_THAT(why(std::move(*std::move(builder).with_memory_regions(twice)).build()),
              HasSubstr("overlap"));
}

TEST_F(ObjectsTest, only_an_object_per_block_can_be_put_whole) {
  const auto refused = PhysicalLayoutBuilder(store_)
                           .with_config(config())
                           .layer_separate(BlockDimension::first)
                           .allocate_objects({.key = "a"})
                           .build();
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_THAT(std::string(refused.status().hint()), HasSubstr("block_separate"));
}

TEST_F(ObjectsTest, an_agent_without_a_store_fails_at_build_with_the_object) {
  const auto failed = start().block_separate().allocate_objects({.key = "a"}).build();
  EXPECT_EQ(failed.code(), Code::unsupported);
  EXPECT_EQ(objects({}).build().code(), Code::invalid_argument);
}

TEST_F(BuilderTest, no_device_fails_at_build_with_what_is_missing) {
  const auto failed =
      start().layer_separate(BlockDimension::first).allocate_device(nullptr).build();
  EXPECT_EQ(failed.code(), Code::unsupported);
  EXPECT_EQ(why(failed), "failed to allocate device memory (1790 bytes) for a layout");
  EXPECT_THAT(std::string(failed.status().cause().message()), HasSubstr("no device was given"));
  EXPECT_FALSE(failed.status().hint().empty());
}

TEST_F(BuilderTest, an_allocation_that_fails_keeps_its_cause) {
  files_.set_capacity(100);
  const auto failed =
      start().fully_contiguous().allocate_disk(files_, {.path = "/cache/kv"}).build();
  EXPECT_EQ(failed.code(), Code::exhausted);
  EXPECT_THAT(why(failed), HasSubstr("failed to allocate disk memory (768 bytes) at /cache/kv"));
  EXPECT_FALSE(failed.status().cause().ok());
}

TEST_F(BuilderTest, a_registration_that_fails_keeps_its_cause_and_frees_the_memory) {
  agent_.fail_next_register(error(Code::exhausted, "no more keys"));
  const auto failed = start().fully_contiguous().allocate_system().build();
  EXPECT_EQ(failed.code(), Code::exhausted);
  EXPECT_THAT(failed.status().to_string(), HasSubstr("no more keys"));
  EXPECT_EQ(agent_.registered(), 0u);
}

TEST_F(BuilderTest, own_memory_is_registered_at_once_and_kept) {
  std::vector<OwnMemory> values;
  for (int i = 0; i < 3; ++i) values.emplace_back(256);
  const std::byte* last = values[2].address();
  auto builder =
      start().layer_separate(BlockDimension::first).with_memory_regions(std::move(values));
  ASSERT_TRUE(builder.ok()) << builder.status().to_string();
  EXPECT_EQ(agent_.registered(), 3u);
  {
    const PhysicalLayout layout = std::move(*builder).build().value();
    EXPECT_EQ(layout.memory_region({0, 2, 0}).value().address, address_of(last));
  }
  (void)std::exchange(builder, error(Code::cancelled, "done"));
  EXPECT_EQ(agent_.registered(), 0u);
}

TEST_F(BuilderTest, own_memory_that_cannot_be_registered_is_named_and_nothing_stays) {
  agent_.fail_next_register(error(Code::denied, "memlock"), 1);
  std::vector<OwnMemory> values;
  for (int i = 0; i < 3; ++i) values.emplace_back(256);
  const auto failed =
      start().layer_separate(BlockDimension::first).with_memory_regions(std::move(values));
  EXPECT_EQ(failed.code(), Code::denied);
  EXPECT_THAT(why(failed), HasSubstr("memory region at index 1"));
  EXPECT_THAT(failed.status().to_string(), HasSubstr("memlock"));
  EXPECT_EQ(agent_.registered(), 0u);

  std::vector<OwnMemory> empty;
  empty.emplace_back(0);
  EXPECT_EQ(start().fully_contiguous().with_memory_regions(std::move(empty)).code(),
            Code::invalid_argument);
}

TEST_F(BuilderTest, shared_regions_are_registered_unless_they_are_already) {
  std::vector<SharedRegion> regions = {registered(256), SystemRegion::allocate(256).value(),
                                       registered(256)};
  ASSERT_EQ(agent_.registered(), 2u);
  auto builder = start().layer_separate(BlockDimension::first).with_memory_regions(regions);
  ASSERT_TRUE(builder.ok()) << builder.status().to_string();
  EXPECT_EQ(agent_.registered(), 3u);
  EXPECT_TRUE(std::move(*builder).build().ok());
  regions[1] = nullptr;
  EXPECT_THAT(why(start().layer_separate(BlockDimension::first).with_memory_regions(regions)),
              HasSubstr("index 1"));
}

TEST_F(BuilderTest, a_region_that_another_agent_knows_is_registered_with_ours_too) {
  RecordingRegistrar other(log_, {.name = "other"});
  const std::vector<SharedRegion> regions = {registered(768, other)};
  auto builder = start().fully_contiguous().with_memory_regions(regions);
  EXPECT_EQ(agent_.registered(), 1u);
  EXPECT_EQ(other.registered(), 1u);
  EXPECT_EQ(std::move(*builder).build().value().metadata().agent_name, "builder-test");
}

TEST_F(BuilderTest, regions_that_are_not_registered_are_refused_by_index) {
  const SharedRegion bare = SystemRegion::allocate(256).value();
  const auto refused = [&](std::vector<SharedRegion> regions) {
    return why(
        start().layer_separate(BlockDimension::first).with_registered_regions(std::move(regions)));
  };
  EXPECT_EQ(refused({registered(256), bare, registered(256)}),
            "provided memory region at index 1 is not registered");
  EXPECT_EQ(refused({nullptr}), "provided memory region at index 0 is not registered");
}

TEST_F(BuilderTest, a_registration_that_ended_before_build_is_refused) {
  auto gone = std::make_unique<RecordingRegistrar>(
      log_, RecordingRegistrar::Options{.name = "builder-test"});
  auto builder = start().fully_contiguous().with_registered_regions({registered(768, *gone)});
  ASSERT_TRUE(builder.ok());
  gone.reset();
  EXPECT_THAT(why(std::move(*builder).build()), HasSubstr("is not registered"));
}

TEST_F(BuilderTest, regions_of_another_agent_are_refused_with_both_names) {
  RecordingRegistrar other(log_, {.name = "other"});
  const auto failed =
      std::move(*start().fully_contiguous().with_registered_regions({registered(768, other)}))
          .build();
  EXPECT_EQ(failed.code(), Code::invalid_argument);
  EXPECT_THAT(why(failed), HasSubstr("registered with agent 'other'"));
  EXPECT_THAT(why(failed), HasSubstr("'builder-test'"));
}

TEST_F(BuilderTest, the_count_of_provided_regions_must_match) {
  const auto two = std::move(*start()
                                  .layer_separate(BlockDimension::first)
                                  .with_registered_regions({registered(256), registered(256)}))
                       .build();
  EXPECT_EQ(why(two), "provided memory count (2) does not match required allocations (3)");
  const auto none = std::move(*start().fully_contiguous().with_registered_regions({})).build();
  EXPECT_EQ(why(none), "provided memory count (0) does not match required allocations (1)");
}

TEST_F(BuilderTest, a_provided_region_that_is_too_small_is_refused) {
  const auto failed =
      std::move(*start().fully_contiguous().with_registered_regions({registered(767)})).build();
  EXPECT_THAT(why(failed), HasSubstr("Required: 768 bytes, got: 767 bytes"));
}

TEST_F(BuilderTest, provided_regions_must_be_of_one_location) {
  auto file = memory::allocate({.kind = MemoryKind::disk,
                                .size_bytes = 256,
                                .disk = {.path = "/cache/kv"},
                                .files = &files_})
                  .value();
  const SharedRegion disk =
      std::make_shared<Registered<memory::Region>>(*memory::register_with(std::move(file), agent_));
  const auto failed =
      std::move(*start()
                     .layer_separate(BlockDimension::first)
                     .with_registered_regions({registered(256), disk, registered(256)}))
          .build();
  EXPECT_THAT(why(failed), HasSubstr("all memory regions must share the same storage location "
                                     "(found system device 0 and disk device"));
}

TEST_F(BuilderTest, an_invalid_config_fails_at_build_before_anything_is_allocated) {
  LayoutConfig bad = config();
  bad.outer_dim = 3;
  const auto failed =
      PhysicalLayoutBuilder(agent_).with_config(bad).fully_contiguous().allocate_system().build();
  EXPECT_THAT(why(failed), HasSubstr("outer_dim_must_be_1_or_2"));
  LayoutConfig huge = config();
  huge.num_blocks = std::uint64_t{1} << 60;
  const auto overflow =
      PhysicalLayoutBuilder(agent_).with_config(huge).fully_contiguous().allocate_system().build();
  EXPECT_THAT(why(overflow), HasSubstr("allocation size overflow during layout computation"));
  huge.num_blocks = (std::uint64_t{1} << 63) / 128 - 1;
  const auto sum = PhysicalLayoutBuilder(agent_)
                       .with_config(huge)
                       .layer_separate(BlockDimension::first)
                       .allocate_system()
                       .build();
  EXPECT_EQ(sum.code(), Code::out_of_range);
  EXPECT_THAT(why(sum), HasSubstr("overflow while placing the regions"));
  EXPECT_THAT(log_.events(), IsEmpty());
}

TEST_F(BuilderTest, memory_outlives_the_layout_only_as_long_as_a_copy_does) {
  auto layout = std::make_unique<PhysicalLayout>(
      start().layer_separate(BlockDimension::first).allocate_system().build().value());
  const PhysicalLayout copy = *layout;
  layout.reset();
  EXPECT_EQ(agent_.registered(), 1u);
  EXPECT_EQ(copy.bytes({1, 2, 1}).value()[0], std::byte{0});
}

TEST_F(BuilderTest, a_descriptor_names_the_agent_and_its_incarnation) {
  const PhysicalLayout layout = start().fully_contiguous().allocate_system().build().value();
  const LayoutDescriptor descriptor = layout.descriptor(77);
  EXPECT_EQ(descriptor.agent, (AgentIdentity{.name = "builder-test", .incarnation = 77}));
  EXPECT_EQ(descriptor.config, config());
  EXPECT_EQ(descriptor.regions, layout.layout().descriptor().regions);

  const auto remote = RemoteLayout::decode(layout.serialize(77).value());
  ASSERT_TRUE(remote.ok()) << remote.status().to_string();
  EXPECT_EQ(remote->agent(), descriptor.agent);
  EXPECT_EQ(remote->memory_region({1, 2, 1}).value(), layout.memory_region({1, 2, 1}).value());
}

}  // namespace
}  // namespace towpath::layout
