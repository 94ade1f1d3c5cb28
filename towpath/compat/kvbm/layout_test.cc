#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/compat/kvbm/layout.h>
#include <towpath/core/format.h>

namespace towpath::kvbm {
namespace {

using layout::BlockFormat;
using layout::LayoutDescriptor;
using layout::LayoutKind;
using ::testing::HasSubstr;

const AgentIdentity kPrefill{"prefill-0", 77};

LayoutDescriptor whole() {
  LayoutDescriptor descriptor;
  descriptor.config = {
      .num_blocks = 10, .num_layers = 4, .outer_dim = 2, .page_size = 16, .inner_dim = 128};
  descriptor.agent = kPrefill;
  descriptor.regions = {{4096, 327680}};
  return descriptor;
}
// What KVBM's to_json() writes of such a cache.
constexpr std::string_view kWhole =
    R"({"version":1,"layout_config":{"num_blocks":10,"num_layers":4,"outer_dim":2,"page_size":16,)"
    R"("inner_dim":128,"alignment":1,"dtype_width_bytes":2,"num_heads":null},"location":"System",)"
    R"("nixl_metadata":{"agent_name":"prefill-0","mem_type":"Dram","device_id":0},)"
    R"("memory_descriptors":[{"addr":4096,"size":327680}],"layout_type_details":)"
    R"({"FullyContiguous":{"block_format":"Operational","kv_block_layout":"OperationalNHD"}}})";

LayoutDescriptor separate() {
  LayoutDescriptor descriptor;
  descriptor.config = {.num_blocks = 2,
                       .num_layers = 3,
                       .outer_dim = 2,
                       .page_size = 4,
                       .inner_dim = 8,
                       .num_heads = 4,
                       .format = BlockFormat::hnd};
  descriptor.kind = LayoutKind::layer_separate_block_second;
  descriptor.location = {MemoryKind::device, 5};
  descriptor.agent = kPrefill;
  descriptor.regions = {{4096, 256}, {0, 256}, {8192, 300}};
  return descriptor;
}
constexpr std::string_view kSeparate =
    R"({"version":1,"layout_config":{"num_blocks":2,"num_layers":3,"outer_dim":2,"page_size":4,)"
    R"("inner_dim":8,"alignment":1,"dtype_width_bytes":2,"num_heads":4},"location":{"Device":5},)"
    R"("nixl_metadata":{"agent_name":"prefill-0","mem_type":"Vram","device_id":5},)"
    R"("memory_descriptors":[{"addr":4096,"size":256},{"addr":0,"size":256},)"
    R"({"addr":8192,"size":300}],"layout_type_details":{"LayerSeparate":)"
    R"({"block_dim":"BlockIsSecondDim","kv_block_layout":"OperationalHND"}}})";

Result<LayoutDescriptor> parse(std::string_view json) {
  return parse_kvbm_layout(json, {.agent = kPrefill});
}

/// `json` with something else in place of `was`, which must stand there.
std::string with(std::string_view json, std::string_view was, std::string_view is) {
  std::string text(json);
  const std::size_t at = text.find(was);
  EXPECT_NE(at, std::string::npos) << was;
  return at == std::string::npos ? text : text.replace(at, was.size(), is);
}
Status refusal(std::string_view was, std::string_view is, std::string_view of = kWhole) {
  return parse(with(of, was, is)).status();
}

TEST(KvbmLayoutTest, is_written_as_kvbm_writes_it) {
  EXPECT_EQ(to_kvbm_json(whole()).value(), kWhole);
  EXPECT_EQ(to_kvbm_json(separate()).value(), kSeparate);
}

TEST(KvbmLayoutTest, reads_what_kvbm_writes) {
  EXPECT_EQ(parse(kWhole).value(), whole());
  EXPECT_EQ(parse(kSeparate).value(), separate());
}

TEST(KvbmLayoutTest, fields_may_come_in_any_order_with_room_between) {
  const std::string moved =
      with(with(kWhole, R"({"version":1,)", "{\n"), R"("}}})", "\" } } ,\t\"version\" : 1 }\n");
  EXPECT_EQ(parse(moved).value(), whole());
  EXPECT_EQ(parse(with(kWhole, R"(,"num_heads":null)", "")).value(), whole());
}

TEST(KvbmLayoutTest, every_storage_has_its_word) {
  const struct {
    layout::Location location;
    const char* location_word;
    const char* nixl_words;
  } cases[] = {
      {{MemoryKind::system, 0}, R"("location":"System")", R"("mem_type":"Dram","device_id":0)"},
      {{MemoryKind::pinned, 1}, R"("location":"Pinned")", R"("mem_type":"Dram","device_id":1)"},
      {{MemoryKind::device, 7}, R"("location":{"Device":7})", R"("mem_type":"Vram","device_id":7)"},
      {{MemoryKind::disk, UINT64_MAX},
       R"("location":{"Disk":18446744073709551615})",
       R"("mem_type":"File","device_id":18446744073709551615)"},
  };
  for (const auto& each : cases) {
    LayoutDescriptor descriptor = whole();
    descriptor.location = each.location;
    const std::string json = to_kvbm_json(descriptor).value();
    EXPECT_THAT(json, HasSubstr(each.location_word));
    EXPECT_THAT(json, HasSubstr(each.nixl_words));
    EXPECT_EQ(parse(json).value(), descriptor);
  }
}

TEST(KvbmLayoutTest, later_releases_call_the_universal_order_otherwise) {
  LayoutDescriptor universal = whole();
  universal.config.num_heads = 8;
  universal.config.format = BlockFormat::universal;
  const std::string json = to_kvbm_json(universal).value();
  EXPECT_THAT(json, HasSubstr(R"("UniversalTP")"));
  EXPECT_EQ(parse(with(json, "UniversalTP", "Universal")).value(), universal);
}

TEST(KvbmLayoutTest, an_alignment_moves_no_block_of_kvbms) {
  const auto read = parse(with(with(kSeparate, R"("alignment":1)", R"("alignment":512)"),
                               R"("addr":4096)", R"("addr":4097)"));
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(read->config.alignment, 1u);
  EXPECT_THAT(refusal(R"("alignment":1)", R"("alignment":3)").to_string(),
              HasSubstr("alignment_must_be_power_of_2"));

  LayoutDescriptor descriptor = whole();
  descriptor.config.alignment = 4096;  // a block is 32 KiB: nothing moves
  EXPECT_EQ(parse(to_kvbm_json(descriptor).value()).value(), whole());
  descriptor.config.alignment = 65536;
  descriptor.regions = {{65536, 655360}};
  EXPECT_THAT(to_kvbm_json(descriptor).status().to_string(),
              HasSubstr("blocks that begin every 65536 bytes where they have 32768"));
}

TEST(KvbmLayoutTest, an_order_that_is_unknown_is_taken_for_none) {
  for (const std::string& json : {with(kWhole, "OperationalNHD", "Unknown"),
                                  with(kWhole, R"(,"kv_block_layout":"OperationalNHD")", "")}) {
    const Status refused = parse(json).status();
    EXPECT_EQ(refused.code(), Code::unsupported);
    EXPECT_THAT(refused.to_string(), HasSubstr("unknown_order"));
    const auto reported =
        parse_kvbm_layout(json, {.agent = kPrefill, .unknown_order = BlockFormat::nhd});
    EXPECT_EQ(reported.value(), whole());
  }
  EXPECT_EQ(refusal("OperationalNHD", "UniversalPP").code(), Code::unsupported);
  EXPECT_EQ(refusal(R"("OperationalNHD")", R"({"Custom":["Head","Layer","Outer","Page"]})").code(),
            Code::unsupported);
}

TEST(KvbmLayoutTest, other_versions_and_words_are_refused_by_name) {
  const struct {
    const char* was;
    const char* is;
    const char* says;
  } cases[] = {
      {R"("version":1)", R"("version":2)", "of version 2; this reads version 1"},
      {R"("version":1)", R"("version":0)", "of version 0"},
      {R"("version":1)", R"("version":999,"more":{})", "of version 999"},
      {R"("System")", R"({"Object":7})", "location is 'Object'; version 1 knows System, Pinned"},
      {R"("Dram")", R"("Tape")", "nixl_metadata.mem_type is 'Tape'"},
      {"FullyContiguous", "ObjectLayout", "layout_type_details is 'ObjectLayout'"},
      {R"("Operational")", R"("Squeezed")", "block_format is 'Squeezed'"},
      {"OperationalNHD", "OperationalDHN", "kv_block_layout is 'OperationalDHN'"},
      {R"("location")", R"("striped":2,"location")", "version 1 has not: striped"},
      {R"("addr")", R"("stride":2,"addr")", "memory_descriptors[0] has a field"},
  };
  for (const auto& each : cases) {
    const Status refused = refusal(each.was, each.is);
    EXPECT_EQ(refused.code(), Code::unsupported) << each.is;
    EXPECT_THAT(refused.to_string(), HasSubstr(each.says));
  }
}

TEST(KvbmLayoutTest, what_is_not_a_value_is_refused_by_path) {
  const struct {
    const char* was;
    const char* is;
    const char* says;
  } cases[] = {
      {R"("version":1,)", "", "has no version"},
      {R"("num_blocks":10,)", "", "layout_config has no num_blocks"},
      {R"("num_blocks":10)", R"("num_blocks":-10)", "layout_config.num_blocks is -10, not a whole"},
      {R"("num_blocks":10)", R"("num_blocks":10.0)", "layout_config.num_blocks is 10.0, not"},
      {R"("num_blocks":10)", R"("num_blocks":"10")", "layout_config.num_blocks is"},
      {R"("num_blocks":10)", R"("num_blocks":18446744073709551616)", "layout_config.num_blocks is"},
      {R"("num_blocks":10)", R"("num_blocks":1e999)", "no JSON"},
      {R"("num_heads":null)", R"("num_heads":true)", "layout_config.num_heads is true"},
      {R"("System")", "[]", "location is []"},
      {R"("System")", R"({"System":null})", "location is System with more"},
      {R"("System")", R"("Device")", "location is Device and does not say which"},
      {R"("prefill-0")", "7", "nixl_metadata.agent_name is 7, not text"},
      {R"([{"addr":4096,"size":327680}])", "{}", "memory_descriptors is {}, not a list"},
      {R"({"addr":4096,"size":327680})", "[1]", "memory_descriptors[0] is [1], not an object"},
      {R"("block_format":"Operational",)", "", "layout_type_details.FullyContiguous has no"},
      {R"("version":1)", R"("version":1,"version":1)", "version stands twice"},
      {R"("addr":4096)", R"("addr":4096,"addr":0)", "addr stands twice"},
      {R"("System")", "[[[[[[[[[[]]]]]]]]]]", "nested deeper than 8"},
      {"prefill-0", "\xff", "no JSON"},
      {"}}}", "}}", "no JSON"},
  };
  for (const auto& each : cases) {
    const Status refused = refusal(each.was, each.is);
    EXPECT_EQ(refused.code(), Code::corrupt) << each.is << ": " << refused.to_string();
    EXPECT_THAT(refused.to_string(), HasSubstr(each.says)) << each.is;
    EXPECT_FALSE(refused.hint().empty());
  }
  for (const char* text : {"", "7", "null", "[]", "\"version\""})
    EXPECT_EQ(parse(text).code(), Code::corrupt) << text;
}

TEST(KvbmLayoutTest, bounds_hold_before_anything_is_made_of_it) {
  EXPECT_EQ(parse(std::string(kMaxKvbmJsonBytes + 1, ' ')).code(), Code::out_of_range);
  EXPECT_EQ(refusal(R"({"Device":5})", R"({"Device":4294967296})", kSeparate).code(),
            Code::out_of_range);
  EXPECT_EQ(refusal("prefill-0", std::string(kMaxAgentName + 1, 'a')).code(), Code::out_of_range);
  std::string many = R"({"addr":4096,"size":327680})";
  for (std::uint64_t i = 0; i < layout::kMaxRegions; ++i) many += R"(,{"addr":0,"size":1})";
  EXPECT_THAT(refusal(R"({"addr":4096,"size":327680})", many).to_string(),
              HasSubstr("memory_descriptors has 65537 regions"));
}

TEST(KvbmLayoutTest, the_longest_layout_fits_the_bound) {
  LayoutDescriptor descriptor;
  descriptor.config = {.num_blocks = 1,
                       .num_layers = layout::kMaxRegions,
                       .outer_dim = 1,
                       .page_size = 1,
                       .inner_dim = 1};
  descriptor.kind = LayoutKind::layer_separate_block_first;
  descriptor.agent = {std::string(kMaxAgentName, '\x01'), 1};  // \u0001 in JSON
  constexpr std::uint64_t kFar = 10'000'000'000'000'000'000U;
  for (std::uint64_t i = 0; i < layout::kMaxRegions; ++i)
    descriptor.regions.push_back({kFar + 2 * i, 5'000'000'000'000'000'000U});
  const std::string json = to_kvbm_json(descriptor).value();
  EXPECT_LE(json.size(), kMaxKvbmJsonBytes);
  EXPECT_EQ(parse_kvbm_layout(json, {.agent = descriptor.agent}).value(), descriptor);
}

TEST(KvbmLayoutTest, what_makes_no_sense_as_a_layout_is_refused_as_one_of_ours) {
  EXPECT_THAT(refusal(R"("size":327680)", R"("size":327679)").to_string(),
              HasSubstr("too small for layout. Required: 327680 bytes, got: 327679"));
  EXPECT_EQ(refusal(R"("addr":4096)", R"("addr":18446744073709551615)").code(), Code::out_of_range);
  EXPECT_THAT(refusal(R"("addr":0)", R"("addr":4097)", kSeparate).to_string(),
              HasSubstr("overlap"));
  EXPECT_THAT(refusal(R"({"addr":4096,"size":256},)", "", kSeparate).to_string(),
              HasSubstr("Memory region count (2) must match num_layers (3)"));
  EXPECT_EQ(refusal(R"("num_blocks":10)", R"("num_blocks":18446744073709551615)").code(),
            Code::out_of_range);
  EXPECT_THAT(refusal(R"("page_size":16)", R"("page_size":0)").to_string(),
              HasSubstr("page_size_must_be_positive"));
  EXPECT_THAT(refusal("OperationalNHD", "OperationalHND").to_string(),
              HasSubstr("num_heads_required_for_kv_block_layout"));
  EXPECT_THAT(refusal("OperationalHND", "UniversalTP", kSeparate).to_string(),
              HasSubstr("universal_needs_all_layers_of_a_block_together"));
}

TEST(KvbmLayoutTest, what_it_says_of_its_memory_must_agree) {
  EXPECT_THAT(refusal(R"("Vram")", R"("Dram")", kSeparate).to_string(),
              HasSubstr("location is Device 5, nixl_metadata says Dram 5"));
  EXPECT_THAT(refusal(R"("device_id":5)", R"("device_id":6)", kSeparate).to_string(),
              HasSubstr("nixl_metadata says Vram 6"));
}

TEST(KvbmLayoutTest, is_read_with_the_metadata_of_its_agent_only) {
  EXPECT_THAT(parse_kvbm_layout(kWhole, {.agent = {"decode-0", 77}}).status().to_string(),
              HasSubstr("of the agent 'prefill-0' comes with the metadata of decode-0"));
  // No life is known: it must not pass for memory of this process.
  EXPECT_EQ(parse_kvbm_layout(kWhole, {.agent = {"prefill-0", 0}}).code(), Code::invalid_argument);
}

TEST(KvbmLayoutTest, what_version_1_has_no_word_for_is_not_written) {
  const auto refused = [](auto change) {
    LayoutDescriptor descriptor = whole();
    change(descriptor);
    const Status status = to_kvbm_json(descriptor).status();
    EXPECT_EQ(status.code(), Code::unsupported) << status.to_string();
    return status.to_string();
  };
  EXPECT_THAT(refused([](LayoutDescriptor& d) {
                d.kind = LayoutKind::strided;
                d.axes = layout::extents_of(d.config);
                std::uint64_t stride = 1;
                for (std::size_t i = layout::kAxes.size(); i-- > 0;
                     stride *= d.axes.shapes[i].extent)
                  d.axes.shapes[i].stride = stride;
              }),
              HasSubstr("no word for a strided layout"));
  EXPECT_THAT(refused([](LayoutDescriptor& d) {
                d.kind = LayoutKind::block_separate;
                d.regions.clear();
                for (std::uint64_t i = 0; i < 10; ++i) d.regions.push_back({i << 16U, 32768});
              }),
              HasSubstr("no word for a block_separate layout"));
  EXPECT_THAT(refused([](LayoutDescriptor& d) { d.location.kind = MemoryKind::block; }),
              HasSubstr("no word for memory of the kind block"));
  EXPECT_THAT(refused([](LayoutDescriptor& d) {
                d.location = {MemoryKind::device, std::uint64_t{1} << 32U};
              }),
              HasSubstr("no word for the GPU 4294967296"));
  EXPECT_THAT(refused([](LayoutDescriptor& d) { d.agent.name = "\xff"; }),
              HasSubstr("no word for the agent's name '\\xff'"));
  EXPECT_THAT(refused([](LayoutDescriptor& d) { d.agent.name.clear(); }), HasSubstr("UTF-8"));
  LayoutDescriptor small = whole();
  small.regions[0].length = 1;
  EXPECT_EQ(to_kvbm_json(small).code(), Code::invalid_argument);
}

/// A layout that version 1 can say.
LayoutDescriptor any_layout(std::mt19937_64& random) {
  const auto one_of = [&](auto... values) {
    const std::uint64_t all[] = {static_cast<std::uint64_t>(values)...};
    return all[random() % std::size(all)];
  };
  LayoutDescriptor any;
  any.config = {.num_blocks = 1 + random() % 9,
                .num_layers = 1 + random() % 5,
                .outer_dim = 1 + random() % 2,
                .page_size = one_of(1, 16, 24),
                .inner_dim = one_of(8, 24, 128),
                .dtype_width_bytes = one_of(1, 2, 4, 8)};
  any.kind = static_cast<LayoutKind>(random() % 3);
  if (random() % 2 == 0) any.config.num_heads = one_of(1, 2, 8);
  if (any.config.num_heads)
    any.config.format =
        static_cast<BlockFormat>(random() % (any.kind == LayoutKind::fully_contiguous ? 3 : 2));
  any.location = {static_cast<MemoryKind>(random() % 4), random() % 3};
  any.agent = kPrefill;
  std::uint64_t at = random() >> 1U;
  for (const std::uint64_t size : layout::Geometry::make(any.config, any.kind)->required_sizes()) {
    any.regions.push_back({at, size + random() % 100});
    at += size + random() % 3 * 4096;
  }
  return any;
}

TEST(KvbmLayoutTest, whatever_it_can_say_comes_back) {
  std::mt19937_64 random(20);
  for (int i = 0; i < 2000; ++i) {
    const LayoutDescriptor any = any_layout(random);
    const auto json = to_kvbm_json(any);
    ASSERT_TRUE(json.ok()) << i << ": " << json.status().to_string();
    const auto read = parse(*json);
    ASSERT_TRUE(read.ok()) << i << ": " << read.status().to_string() << "\n" << *json;
    ASSERT_EQ(*read, any) << i << ": " << *json;
  }
}

TEST(KvbmLayoutTest, a_letter_that_changes_is_never_a_layout_that_makes_no_sense) {
  for (std::size_t at = 0; at < kSeparate.size(); ++at)
    for (const char letter : {'0', '9', '"', '}', '\\', '\x80'}) {
      std::string text(kSeparate);
      text[at] = letter;
      const auto read = parse(text);
      if (read.ok()) {
        EXPECT_TRUE(read->validate().ok()) << text;
      } else {
        EXPECT_FALSE(read.status().message().empty());
      }
    }
}

}  // namespace
}  // namespace towpath::kvbm
