#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/layout/layout_codec.h>
#include <towpath/layout/remote_layout.h>
#include <towpath/wire/envelope.h>

namespace towpath::layout {
namespace {

using ::testing::HasSubstr;

LayoutDescriptor contiguous() {
  LayoutDescriptor descriptor;
  descriptor.config = {.num_blocks = 2,
                       .num_layers = 3,
                       .outer_dim = 2,
                       .page_size = 4,
                       .inner_dim = 8,
                       .num_heads = 4};
  descriptor.location = {.kind = MemoryKind::disk, .device_id = 9};
  descriptor.agent = {.name = std::string("prefill\0\xff", 9), .incarnation = UINT64_MAX};
  descriptor.regions = {{UINT64_MAX - 768, 768}};
  return descriptor;
}

LayoutDescriptor separate() {
  LayoutDescriptor descriptor = contiguous();
  descriptor.kind = LayoutKind::layer_separate_block_second;
  descriptor.config.num_heads.reset();
  descriptor.location = {};
  descriptor.regions = {{4096, 256}, {0, 256}, {8192, 300}};
  return descriptor;
}

// Fields as a foreign writer could write them: tag (u16), kind (u8), value; lengths are u32.
class Payload {
 public:
  Payload& number(std::uint16_t tag, std::uint64_t value) {
    head(tag, 1);
    varint(value);
    return *this;
  }
  Payload& text(std::uint16_t tag, const std::string& value) {
    head(tag, 2);
    put_length(value.size());
    for (char letter : value) bytes_.push_back(static_cast<std::byte>(letter));
    return *this;
  }
  Payload& region(std::uint64_t address, std::uint64_t length) {
    Payload inner;
    inner.number(kRequiredBit | 1, address).number(kRequiredBit | 2, length);
    head(kRequiredBit | 14, 3);
    put_length(inner.bytes_.size());
    bytes_.insert(bytes_.end(), inner.bytes_.begin(), inner.bytes_.end());
    return *this;
  }
  Payload& axis(std::uint64_t stride) {
    Payload inner;
    inner.number(kRequiredBit | 1, stride);
    head(kRequiredBit | 16, 3);
    put_length(inner.bytes_.size());
    bytes_.insert(bytes_.end(), inner.bytes_.begin(), inner.bytes_.end());
    return *this;
  }
  Bytes seal(std::uint16_t version = 1) const {
    return wire::seal({.type = wire::MessageType::layout, .version = version}, bytes_);
  }

  static constexpr std::uint16_t kRequiredBit = 0x8000;

 private:
  void head(std::uint16_t tag, std::uint8_t kind) {
    bytes_.push_back(static_cast<std::byte>(tag & 0xff));
    bytes_.push_back(static_cast<std::byte>(tag >> 8));
    bytes_.push_back(static_cast<std::byte>(kind));
  }
  void put_length(std::size_t size) {
    for (int shift = 0; shift < 32; shift += 8)
      bytes_.push_back(static_cast<std::byte>(size >> shift));
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 0x80));
    bytes_.push_back(static_cast<std::byte>(value));
  }

  Bytes bytes_;
};

struct Numbers {
  std::uint64_t outer_dim = 2, layout_kind = 1, memory_kind = 0, incarnation = 5;
  std::string name = "a";
  std::uint64_t regions = 3;
};

Payload foreign(const Numbers& n) {
  const auto tag = [](std::uint16_t number) {
    return static_cast<std::uint16_t>(Payload::kRequiredBit | number);
  };
  Payload out;
  out.number(tag(1), 2).number(tag(2), 3).number(tag(3), n.outer_dim).number(tag(4), 4);
  out.number(tag(5), 8).number(tag(6), 1).number(tag(7), 2).number(tag(9), n.layout_kind);
  out.number(tag(10), n.memory_kind).number(tag(11), 0).text(tag(12), n.name);
  out.number(tag(13), n.incarnation);
  for (std::uint64_t i = 0; i < n.regions; ++i) out.region(i * 256, 256);
  return out;
}

Status refusal(const Bytes& bytes) { return decode_layout(bytes).status(); }
std::string why(const Status& status) { return std::string(status.message()); }

TEST(LayoutCodecTest, formats_and_a_region_per_block_travel) {
  LayoutDescriptor blocks = contiguous();
  blocks.kind = LayoutKind::block_separate;
  blocks.config.format = BlockFormat::universal;
  blocks.regions = {{0, 384}, {4096, 384}};
  EXPECT_EQ(decode_layout(encode(blocks).value()).value(), blocks);
  // A reader that knows no formats still reads what has the usual one.
  EXPECT_GT(encode(blocks)->size(), encode([&] {
                                      LayoutDescriptor usual = blocks;
                                      usual.config.format = BlockFormat::nhd;
                                      return usual;
                                    }())
                                        ->size());
}

TEST(LayoutCodecTest, objects_travel_with_their_ids) {
  LayoutDescriptor objects = contiguous();
  objects.kind = LayoutKind::block_separate;
  objects.location = {.kind = MemoryKind::object, .device_id = 0};
  objects.regions = {{0, 384, UINT64_MAX}, {0, 384, 7}};
  EXPECT_EQ(decode_layout(encode(objects).value()).value(), objects);
  LayoutDescriptor file = contiguous();
  file.regions[0].device_id = 7;
  EXPECT_THAT(why(encode(file).status()), HasSubstr("a device id where there is none"));
  objects.location.device_id = 7;
  EXPECT_EQ(encode(objects).code(), Code::invalid_argument);
}

TEST(LayoutCodecTest, both_families_come_back_as_they_went) {
  for (const LayoutDescriptor& descriptor : {contiguous(), separate()}) {
    const auto bytes = encode(descriptor);
    ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
    const auto back = decode_layout(*bytes);
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    EXPECT_EQ(*back, descriptor);
    EXPECT_EQ(encode(*back).value(), *bytes);
  }
}

TEST(LayoutCodecTest, a_remote_layout_finds_pages_where_the_local_one_does) {
  const LayoutDescriptor descriptor = separate();
  const auto remote = RemoteLayout::decode(encode(descriptor).value());
  ASSERT_TRUE(remote.ok()) << remote.status().to_string();
  const Layout local = Layout::make(descriptor).value();
  EXPECT_EQ(remote->layout(), local);
  EXPECT_EQ(remote->agent(), descriptor.agent);
  EXPECT_EQ(remote->config(), descriptor.config);
  EXPECT_EQ(remote->location(), descriptor.location);
  for (std::uint64_t b = 0; b < 2; ++b)
    for (std::uint64_t l = 0; l < 3; ++l)
      for (std::uint64_t o = 0; o < 2; ++o)
        EXPECT_EQ(remote->memory_region({b, l, o}).value(), local.memory_region({b, l, o}).value());
  EXPECT_EQ(remote->memory_region({2, 0, 0}).code(), Code::out_of_range);
}

TEST(LayoutCodecTest, the_hand_written_form_is_the_one_that_encode_writes) {
  const auto read = decode_layout(foreign({}).seal());
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(encode(*read).value(), foreign({}).seal());
}

TEST(LayoutCodecTest, newer_versions_and_version_0_are_refused_by_number) {
  for (std::uint16_t version : {2, 999}) {
    const Status status = refusal(foreign({}).seal(version));
    EXPECT_EQ(status.code(), Code::unsupported);
    EXPECT_THAT(why(status), HasSubstr(cat(version)));
  }
  Bytes zero = foreign({}).seal();
  zero[10] = zero[11] = std::byte{0};  // the message version, were the checksum not in the way
  EXPECT_FALSE(decode_layout(zero).ok());
}

TEST(LayoutCodecTest, counts_of_regions_that_do_not_match_are_refused) {
  EXPECT_THAT(why(refusal(foreign({.regions = 2}).seal())),
              HasSubstr("Memory region count (2) must match num_layers (3)"));
  EXPECT_THAT(why(refusal(foreign({.layout_kind = 0, .regions = 3}).seal())),
              HasSubstr("exactly 1 memory region, got 3"));
  EXPECT_THAT(why(refusal(foreign({.regions = 0}).seal())), HasSubstr("count (0)"));
  EXPECT_EQ(refusal(foreign({.regions = kMaxRegions + 1}).seal()).code(), Code::corrupt);
}

TEST(LayoutCodecTest, values_that_are_none_are_refused_by_field) {
  EXPECT_THAT(why(refusal(foreign({.layout_kind = 5}).seal())), HasSubstr("layout kind"));
  EXPECT_THAT(why(refusal(foreign({.memory_kind = 6}).seal())), HasSubstr("memory kind"));
  EXPECT_EQ(refusal(foreign({.memory_kind = 256}).seal()).code(), Code::out_of_range);
  EXPECT_THAT(why(refusal(foreign({.outer_dim = 3}).seal())),
              HasSubstr("outer_dim_must_be_1_or_2"));
  EXPECT_EQ(refusal(foreign({.name = std::string(kMaxAgentName + 1, 'a')}).seal()).code(),
            Code::out_of_range);
}

TEST(LayoutCodecTest, a_strided_layout_has_six_axes_and_no_other_has_any) {
  Payload strided = foreign({.layout_kind = 4, .regions = 1});
  EXPECT_THAT(why(refusal(strided.seal())), HasSubstr("a strided layout with 0 axes"));
  for (const std::uint64_t stride : {64, 0, 32, 8, 8}) strided.axis(stride);
  EXPECT_THAT(why(refusal(strided.seal())), HasSubstr("a strided layout with 5 axes"));
  strided.axis(1);
  EXPECT_THAT(why(refusal(strided.seal())), HasSubstr("strides_must_keep_elements_apart"));
  EXPECT_EQ(refusal(strided.axis(1).seal()).code(), Code::corrupt);
  EXPECT_EQ(refusal(foreign({}).axis(1).seal()).code(), Code::corrupt);

  // [outer, token, layer, block] of 8 elements: 2 * 4 * 3 * 2 * 8 elements of 2 bytes.
  Payload right = foreign({.layout_kind = 4, .regions = 0});
  right.region(0, 768);
  for (const std::uint64_t stride : {8, 16, 192, 48, 0, 1}) right.axis(stride);
  const auto read = decode_layout(right.seal());
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(encode(*read).value(), right.seal());
  EXPECT_EQ(read->axes[Axis::outer], (AxisShape{.extent = 2, .stride = 192}));
}

TEST(LayoutCodecTest, an_agent_without_name_or_incarnation_is_refused_on_both_sides) {
  EXPECT_EQ(refusal(foreign({.incarnation = 0}).seal()).code(), Code::invalid_argument);
  EXPECT_EQ(refusal(foreign({.name = ""}).seal()).code(), Code::invalid_argument);
  LayoutDescriptor descriptor = contiguous();
  descriptor.agent.incarnation = 0;
  EXPECT_EQ(encode(descriptor).code(), Code::invalid_argument);
  descriptor = contiguous();
  descriptor.agent.name.clear();
  EXPECT_EQ(encode(descriptor).code(), Code::invalid_argument);
}

TEST(LayoutCodecTest, what_is_not_valid_is_not_sent) {
  LayoutDescriptor descriptor = contiguous();
  descriptor.regions[0].length = 767;
  EXPECT_EQ(encode(descriptor).code(), Code::invalid_argument);
}

TEST(LayoutCodecTest, fields_of_the_future_are_skipped_or_refused_by_number) {
  EXPECT_TRUE(decode_layout(foreign({}).number(77, 1).seal()).ok());
  const Status status = refusal(foreign({}).number(Payload::kRequiredBit | 77, 1).seal());
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_THAT(why(status), HasSubstr("77"));
}

TEST(LayoutCodecTest, a_field_that_is_missing_or_twice_is_refused) {
  EXPECT_EQ(refusal(Payload().number(Payload::kRequiredBit | 1, 2).seal()).code(), Code::corrupt);
  EXPECT_EQ(refusal(foreign({}).number(Payload::kRequiredBit | 1, 2).seal()).code(), Code::corrupt);
}

TEST(LayoutCodecTest, every_cut_and_every_flipped_bit_is_refused) {
  const Bytes whole = encode(separate()).value();
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decode_layout(ConstByteSpan(whole).first(size)).ok()) << size;
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes flipped = whole;
    flipped[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(decode_layout(flipped).ok()) << "bit " << bit;
  }
}

TEST(LayoutCodecTest, a_message_over_the_limit_is_refused_by_its_header) {
  const Bytes huge =
      wire::seal({.type = wire::MessageType::layout, .version = 1}, Bytes(kMaxLayoutBytes + 1));
  EXPECT_EQ(refusal(huge).code(), Code::out_of_range);
  const Bytes other = wire::seal({.type = wire::MessageType::metadata, .version = 1}, Bytes(8));
  EXPECT_EQ(refusal(other).code(), Code::invalid_argument);
}

TEST(LayoutCodecTest, as_many_layers_as_there_may_be_fit) {
  LayoutDescriptor descriptor = separate();
  descriptor.config.num_layers = kMaxRegions;
  descriptor.agent.name = std::string(kMaxAgentName, 'a');
  descriptor.regions.clear();
  for (std::uint64_t i = 0; i < kMaxRegions; ++i)
    descriptor.regions.push_back({(std::uint64_t{1} << 63) + i * 256, (std::uint64_t{1} << 62)});
  const auto bytes = encode(descriptor);
  ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
  EXPECT_TRUE(decode_layout(*bytes).ok());
}

}  // namespace
}  // namespace towpath::layout
