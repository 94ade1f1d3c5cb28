#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/agent/metadata.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/blockcopy/testing/transfer_node.h>
#include <towpath/compat/kvbm/bincode.h>
#include <towpath/compat/kvbm/package.h>
#include <towpath/compat/kvbm/words.h>
#include <towpath/core/format.h>
#include <towpath/layout/layout_codec.h>

namespace towpath::kvbm {
namespace {

using blockcopy::testing::TransferNode;
using layout::LayoutDescriptor;
using ::testing::HasSubstr;

constexpr std::uint64_t kWorker = 300;
const AgentIdentity kSender{"prefill-0", 77};

Bytes metadata_of(const AgentIdentity& agent) {
  agent::AgentMetadata metadata;
  metadata.identity = agent;
  metadata.generation = 1;
  return *agent::encode(metadata);
}

/// Two layers on GPU 1, blocks second, in the order of heads.
LayoutDescriptor heads_on_gpu() {
  LayoutDescriptor descriptor;
  descriptor.config = {.num_blocks = 1000,
                       .num_layers = 2,
                       .outer_dim = 2,
                       .page_size = 4,
                       .inner_dim = 8,
                       .num_heads = 4,
                       .format = layout::BlockFormat::hnd};
  descriptor.kind = layout::LayoutKind::layer_separate_block_second;
  descriptor.location = {MemoryKind::device, 1};
  descriptor.agent = kSender;
  descriptor.regions = {{0x123456789a, 128000}, {0x20000, 70000 + 58000}};
  return descriptor;
}

Bytes package_of(std::vector<blockcopy::PackedLayout> layouts) {
  for (blockcopy::PackedLayout& each : layouts)
    if (each.layout.empty()) each.layout = *layout::encode(heads_on_gpu());
  return *blockcopy::encode(blockcopy::LayoutPackage{metadata_of(kSender), std::move(layouts)});
}

// ---- as KVBM writes it, spelled here by hand ----

Bytes& operator+=(Bytes& bytes, const Bytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
  return bytes;
}
Bytes raw(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}
Bytes address(const Bytes& metadata) {
  Bytes bytes = raw({251, 0x2c, 0x01});  // worker 300
  bytes += raw({9});
  bytes += to_bytes("prefill-0");
  if (metadata.size() > 250)
    bytes += raw(
        {251, static_cast<int>(metadata.size() & 0xffU), static_cast<int>(metadata.size() >> 8U)});
  else
    bytes += raw({static_cast<int>(metadata.size())});
  bytes += metadata;
  return bytes;
}
Bytes handle_and_tier() {
  return raw({254, 0x2c, 1, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,  // worker 300, layout 5
              1});                                                     // G2
}
Bytes words() {
  Bytes bytes = raw({1,                                        // version
                     251, 0xe8, 0x03, 2, 2, 4, 8, 1, 2, 1, 4,  // config, Some(4)
                     2, 1,                                     // Device(1)
                     9});
  bytes += to_bytes("prefill-0");
  bytes +=
      raw({1,   1,  // Vram, 1
           2,       // regions
           253, 0x9a, 0x78, 0x56, 0x34, 0x12, 0,    0,    0,    252, 0x00, 0xf4, 0x01, 0,
           252, 0,    0,    2,    0,    252,  0x00, 0xf4, 0x01, 0,   1,    1,    2});  // second
                                                                                       // dim, HND
  return bytes;
}
Bytes packed() {
  Bytes bytes = address(metadata_of(kSender));
  bytes += raw({1});
  bytes += handle_and_tier();
  bytes += words();
  return bytes;
}
/// With `change` made to the words behind the handle.
template <class Change>
Status refusal_of(Change change) {
  Bytes bytes = address(metadata_of(kSender));
  bytes += raw({1});
  bytes += handle_and_tier();
  Bytes said = words();
  change(said);
  bytes += said;
  return package_from_kvbm(bytes).status();
}

TEST(KvbmPackageTest, is_written_as_kvbm_writes_it) {
  EXPECT_EQ(package_to_kvbm(package_of({{5, "G2", 0, 0, {}}}), kWorker).value(), packed());
  Bytes nothing = address(metadata_of(kSender));
  nothing += raw({0});
  EXPECT_EQ(package_to_kvbm(package_of({}), kWorker).value(), nothing);
}

TEST(KvbmPackageTest, reads_what_kvbm_writes) {
  const auto ours = package_from_kvbm(packed());
  ASSERT_TRUE(ours.ok()) << ours.status().to_string();
  const auto open = blockcopy::open_package(*ours);
  ASSERT_TRUE(open.ok()) << open.status().to_string();
  EXPECT_EQ(open->agent, kSender);
  EXPECT_EQ(open->metadata, metadata_of(kSender));
  ASSERT_EQ(open->layouts.size(), 1u);
  EXPECT_EQ(open->layouts[0].id, 5u);
  EXPECT_EQ(open->layouts[0].tier, "g2");
  EXPECT_EQ(open->layouts[0].layout.layout().descriptor(), heads_on_gpu());
}

TEST(KvbmPackageTest, comes_back_with_every_tier_and_id) {
  const Bytes ours = package_of(
      {{0, "g1", 0, 0, {}}, {65535, "g4", 0, 0, {}}, {7, "g3", 0, 0, {}}, {250, "g2", 0, 0, {}}});
  for (const std::uint64_t worker : {std::uint64_t{0}, std::uint64_t{251}, UINT64_MAX})
    EXPECT_EQ(package_from_kvbm(package_to_kvbm(ours, worker).value()).value(), ours) << worker;
}

TEST(KvbmPackageTest, metadata_of_nixl_itself_is_refused_with_what_would_do) {
  Bytes bytes = address(to_bytes("nixlSerDes|something"));
  bytes += raw({0});
  const Status refused = package_from_kvbm(bytes).status();
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_THAT(refused.to_string(), HasSubstr("'prefill-0', 20 bytes, is no metadata"));
  EXPECT_THAT(refused.hint(), HasSubstr("libnixl_capi.so"));
  EXPECT_FALSE(refused.cause().ok());
}

TEST(KvbmPackageTest, of_others_it_takes_nothing) {
  Bytes bytes = address(metadata_of({"decode-0", 77}));
  bytes += raw({0});
  EXPECT_THAT(
      package_from_kvbm(bytes).status().to_string(),
      HasSubstr("names the agent 'prefill-0', its NIXL metadata is the metadata of decode-0"));
  EXPECT_THAT(refusal_of([](Bytes& said) { said[15] = std::byte{'q'}; }).to_string(),
              HasSubstr("the agent 'qrefill-0' comes with the metadata of prefill-0"));
  Bytes other = packed();
  const std::size_t handle = other.size() - words().size() - handle_and_tier().size();
  other[handle + 1] = std::byte{0x2d};
  EXPECT_THAT(package_from_kvbm(other).status().to_string(),
              HasSubstr("worker 301 comes with the address of worker 300"));
  other = packed();
  other[handle + 11] = std::byte{1};  // above the 16 bits of the id
  EXPECT_THAT(package_from_kvbm(other).status().to_string(), HasSubstr("reserved bits"));
  Bytes twice = address(metadata_of(kSender));
  twice += raw({2});
  for (int i = 0; i < 2; ++i) {
    twice += handle_and_tier();
    twice += words();
  }
  EXPECT_THAT(package_from_kvbm(twice).status().to_string(), HasSubstr("stands twice"));
}

TEST(KvbmPackageTest, other_versions_are_refused_both_ways) {
  EXPECT_THAT(refusal_of([](Bytes& said) { said[0] = std::byte{2}; }).to_string(),
              HasSubstr("of version 2; this reads version 1"));
  EXPECT_THAT(refusal_of([](Bytes& said) { said[0] = std::byte{0}; }).to_string(),
              HasSubstr("of version 0"));
  // A later KVBM: what it appends is at least the byte that says there is nothing.
  const Status later = refusal_of([](Bytes& said) { said.push_back(std::byte{0}); });
  EXPECT_EQ(later.code(), Code::unsupported);
  EXPECT_THAT(later.to_string(), HasSubstr("1 bytes follow the layouts"));
  EXPECT_THAT(package_to_kvbm(package_of({{65536, "g2", 0, 0, {}}}), 1).status().to_string(),
              HasSubstr("no word for the layout id 65536"));
  EXPECT_THAT(package_to_kvbm(package_of({{1, "disk", 0, 0, {}}}), 1).status().to_string(),
              HasSubstr("no word for the tier 'disk'"));
  EXPECT_THAT(package_to_kvbm(package_of({{1, "g2", 0, 4, {}}}), 1).status().to_string(),
              HasSubstr("begins at layer 0 and head 4"));
  LayoutDescriptor object = heads_on_gpu();
  object.location.kind = MemoryKind::block;
  EXPECT_EQ(package_to_kvbm(package_of({{1, "g2", 0, 0, *layout::encode(object)}}), 1).code(),
            Code::unsupported);
}

TEST(KvbmPackageTest, every_value_is_held_against_its_bound) {
  const struct {
    std::size_t at;  // in the words
    int value;
    Code code;
    const char* says;
  } cases[] = {
      {10, 2, Code::corrupt, "num_heads"},
      {12, 4, Code::out_of_range, "location before byte"},
      {24, 6, Code::out_of_range, "mem_type"},
      {13, 2, Code::invalid_argument, "location is Device 2, nixl_metadata says Vram 1"},
      {26, 3, Code::out_of_range, "kind of layout"},
      {26, 255, Code::corrupt, "count of regions"},
      {15, 0xff, Code::corrupt, "no UTF-8"},
  };
  for (const auto& each : cases) {
    const Status refused =
        refusal_of([&](Bytes& said) { said[each.at] = static_cast<std::byte>(each.value); });
    EXPECT_EQ(refused.code(), each.code) << each.at << ": " << refused.to_string();
    EXPECT_THAT(refused.to_string(), HasSubstr(each.says)) << each.at;
  }
  const auto last = [](std::size_t back, int value) {
    return refusal_of(
        [&](Bytes& said) { said[said.size() - back] = static_cast<std::byte>(value); });
  };
  EXPECT_THAT(last(1, 6).to_string(), HasSubstr("kv_block_layout"));
  EXPECT_THAT(last(1, 5).to_string(), HasSubstr("kv_block_layout is Unknown"));
  EXPECT_THAT(last(1, 4).to_string(), HasSubstr("axis of a custom order"));
  EXPECT_THAT(last(2, 2).to_string(), HasSubstr("block_dim"));
  EXPECT_THAT(last(3, 2).to_string(), HasSubstr("kind of layout"));
}

TEST(KvbmPackageTest, an_order_that_is_unknown_is_taken_for_what_the_caller_says) {
  Bytes bytes = packed();
  bytes.back() = std::byte{5};
  EXPECT_EQ(package_from_kvbm(bytes).code(), Code::unsupported);
  EXPECT_EQ(package_from_kvbm(bytes, layout::BlockFormat::hnd).value(),
            package_from_kvbm(packed()).value());
}

TEST(KvbmPackageTest, cut_short_anywhere_it_is_no_package) {
  const Bytes whole = packed();
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(package_from_kvbm(ConstByteSpan(whole).first(length)).ok()) << length;
}

TEST(KvbmPackageTest, a_number_has_one_form) {
  for (const Bytes& longer : {raw({251, 250, 0}), raw({252, 255, 255, 0, 0}),
                              raw({253, 255, 255, 255, 255, 0, 0, 0, 0}), raw({255})})
    EXPECT_EQ(BincodeReader(longer).number("n").code(), Code::corrupt);
  Bytes low = raw({254});
  low.resize(17);
  EXPECT_EQ(BincodeReader(low).wide("n").code(), Code::corrupt);
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{250}, std::uint64_t{251}, std::uint64_t{65535},
        std::uint64_t{65536}, std::uint64_t{UINT32_MAX}, std::uint64_t{UINT32_MAX} + 1,
        UINT64_MAX}) {
    BincodeWriter out;
    out.number(value);
    out.wide({value, 0});
    out.wide({value, 1});
    const Bytes bytes = std::move(out).finish();
    BincodeReader in(bytes);
    EXPECT_EQ(in.number("n").value(), value);
    EXPECT_EQ(in.wide("n").value(), (WideNumber{value, 0}));
    EXPECT_EQ(in.wide("n").value(), (WideNumber{value, 1}));
    EXPECT_EQ(in.left(), 0u);
  }
}

TEST(KvbmPackageTest, blocks_of_a_cache_that_came_as_kvbms_metadata_are_copied) {
  TransferNode near("near");
  TransferNode far("far");
  ASSERT_TRUE(far.agent->load_metadata(*near.agent->metadata()).ok());
  constexpr std::uint32_t kSalt = 900;
  const blockcopy::LayoutHandle filled = far.add_filled(kSalt);
  (void)far.add(far.manager->local_layout(filled).value(), {.tier = "g2"});
  ASSERT_TRUE(far.manager->unregister_layout(filled).ok());  // it has no tier
  const auto theirs = package_to_kvbm(*far.manager->export_package(), kWorker);
  ASSERT_TRUE(theirs.ok()) << theirs.status().to_string();
  const auto handles = near.manager->import_package(package_from_kvbm(*theirs).value());
  ASSERT_TRUE(handles.ok()) << handles.status().to_string();
  EXPECT_EQ(near.manager->info(handles->front())->options.tier, "g2");
  const blockcopy::LayoutHandle here = near.add({"here"});
  auto job =
      near.manager->copy({.source = handles->front(), .target = here, .blocks = {{1, 4, 2}}});
  ASSERT_TRUE(job.ok()) << job.status().to_string();
  while (!job->ended()) {
    const bool moved = near.manager->progress();
    if (!far.manager->progress() && !moved)
      near.manager->wait_for_work(std::chrono::milliseconds(1));
  }
  ASSERT_EQ(job->outcome(), Outcome::done) << job->status().to_string();
  near.expect_block(here, 4, kSalt, 1);
  near.expect_block(here, 5, kSalt, 2);
}

}  // namespace
}  // namespace towpath::kvbm
