#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <towpath/agent/metadata_table.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath::agent {
namespace {

// What a row says of itself; what it does not say is as in the row before.
constexpr std::uint8_t kSaysKind = 1;
constexpr std::uint8_t kSaysDevice = 2;
constexpr std::uint8_t kSaysLength = 4;
constexpr std::uint8_t kHasObjectKey = 8;  // else it has none, whatever stands in the row before
constexpr std::uint8_t kSaysKeys = 16;     // which backends, how long, and all of their bytes
constexpr std::uint8_t kAllSaid = 31;

// Distances go either way: the sign is the lowest bit, so that small ones are short.
std::uint64_t folded(std::uint64_t distance) {
  return (distance << 1U) ^ (distance >> 63U != 0 ? UINT64_MAX : 0);
}
std::uint64_t unfolded(std::uint64_t number) {
  return (number >> 1U) ^ ((number & 1U) != 0 ? UINT64_MAX : 0);
}

/// Of a number of 64 bits.
constexpr std::size_t kLongestNumber = 10;

bool same_shape(const TableRow& a, const TableRow& b) {
  return std::ranges::equal(a.keys, b.keys, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.size() == other.second.size();
  });
}

// ---- Writing: where there is room, behind what is written; returned is the end.

std::byte* put_number(std::byte* out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) *out++ = static_cast<std::byte>(value | 0x80);
  *out++ = static_cast<std::byte>(value);
  return out;
}

std::byte* put_sized(std::byte* out, ConstByteSpan bytes) {
  return copy_bytes(bytes, put_number(out, bytes.size()));
}

/// A bit for each byte that is not 0, lowest first.
unsigned bytes_set(std::uint64_t word) noexcept {
  constexpr std::uint64_t kLow = 0x7f7f'7f7f'7f7f'7f7f;
  constexpr std::uint64_t kGather = 0x0102'0408'1020'4080;  // bit 8i to bit 56 + i
  const std::uint64_t tops = (((word & kLow) + kLow) | word) & ~kLow;
  return static_cast<unsigned>((tops >> 7U) * kGather >> 56U);
}

constexpr unsigned kWholeWord = 0xFF;  // all differ, as those of checksums mostly do

/// Up to eight bytes; what is not there is 0.
std::uint64_t word_of(const std::byte* bytes, std::size_t size) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, size);
  return word;
}

/// A bit for each byte of a word that differs, lowest first, to `map`; then those bytes.
std::byte* put_word(std::byte* out, std::byte& map, std::uint64_t now, std::uint64_t before) {
  static_assert(std::endian::native == std::endian::little, "the first byte is the lowest");
  unsigned bits = now == before ? 0 : bytes_set(now ^ before);
  map = static_cast<std::byte>(bits);
  if (bits == kWholeWord) {
    std::memcpy(out, &now, sizeof now);
    return out + sizeof now;
  }
  for (; bits != 0; bits &= bits - 1)
    *out++ = static_cast<std::byte>(now >> 8U * static_cast<unsigned>(std::countr_zero(bits)));
  return out;
}

/// The maps of all words, then the bytes that differ. Eight at once: most are equal.
std::byte* put_difference(std::byte* out, ConstByteSpan now, ConstByteSpan before) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  std::byte* map = out;
  out += (now.size() + kWord - 1) / kWord;
  for (std::size_t at = 0; at < now.size(); at += kWord) {
    const std::size_t left = now.size() - at;
    const bool is_whole = left >= kWord;  // and then a move each, not a call
    const std::uint64_t word = is_whole ? word_of(&now[at], kWord) : word_of(&now[at], left);
    const std::uint64_t was = is_whole ? word_of(&before[at], kWord) : word_of(&before[at], left);
    out = put_word(out, *map++, word, was);
  }
  return out;
}

std::byte* put_place(std::byte* out, const RegionDescriptor& now, const RegionDescriptor& before,
                     bool new_keys) {
  const bool new_kind = now.kind != before.kind;
  const bool new_device = now.device_id != before.device_id;
  const bool new_length = now.length != before.length;
  *out++ = static_cast<std::byte>(
      (new_kind ? kSaysKind : 0) | (new_device ? kSaysDevice : 0) | (new_length ? kSaysLength : 0) |
      (now.key.empty() ? 0 : kHasObjectKey) | (new_keys ? kSaysKeys : 0));
  out = put_number(out, folded(now.address - before.address));
  if (new_kind) out = put_number(out, static_cast<std::uint64_t>(now.kind));
  if (new_device) out = put_number(out, now.device_id);
  if (new_length) out = put_number(out, now.length);
  return now.key.empty() ? out : put_sized(out, as_bytes(now.key));
}

/// How long a row can be.
std::size_t bound_of(const TableRow& row) {
  std::size_t bound = 1 + 6 * kLongestNumber + row.region->key.size();
  for (const auto& key : row.keys) bound += 2 * kLongestNumber + 2 * key.second.size();
  return bound;
}

}  // namespace

TableWriter::TableWriter(std::size_t rows) {
  constexpr std::size_t kUsualRow = 48;
  bytes_.reserve(kUsualRow * rows);
}

std::byte* TableWriter::room(std::size_t size) {
  if (bytes_.size() - size_ < size) bytes_.resize(std::max(2 * bytes_.size(), size_ + size));
  return bytes_.data() + size_;
}

void TableWriter::add(const TableRow& row, const TableRow& before) {
  static const RegionDescriptor kNothing;
  const RegionDescriptor& last = before.region != nullptr ? *before.region : kNothing;
  const bool new_keys = !same_shape(row, before);
  std::byte* out = put_place(room(bound_of(row)), *row.region, last, new_keys);
  if (new_keys) out = put_number(out, row.keys.size());
  for (std::size_t i = 0; i < row.keys.size(); ++i) {
    const auto& [backend, key] = row.keys[i];
    out = new_keys ? put_sized(put_number(out, backend), key)
                   : put_difference(out, key, before.keys[i].second);
  }
  size_ = static_cast<std::size_t>(out - bytes_.data());
}

void TableWriter::add_written(ConstByteSpan row) {
  std::memcpy(room(row.size()), row.data(), row.size());
  size_ += row.size();
}

Bytes TableWriter::finish() && {
  bytes_.resize(size_);
  return std::move(bytes_);
}

Status check_row(const TableRow& row) {
  const bool fits = row.region->key.size() <= kMaxObjectKey &&
                    row.keys.size() <= kMaxMetadataBackends &&
                    std::ranges::all_of(row.keys, [](const auto& key) {
                      return key.first < kMaxMetadataBackends && key.second.size() <= kMaxRegionKey;
                    });
  if (fits) return {};
  return error(Code::out_of_range, cat("metadata: ", to_string(*row.region),
                                       " has more or longer keys than metadata takes"));
}

Status check_rows(std::size_t count) {
  if (count <= kMaxMetadataRegions) return {};
  return error(Code::out_of_range,
               cat("metadata: ", count, " regions; metadata takes ", kMaxMetadataRegions));
}

// ---- Reading

namespace {

Status too_much(std::string_view what, std::uint64_t amount) {
  return error(Code::out_of_range, cat("metadata: too many ", what, ": ", amount));
}

}  // namespace

std::size_t TableReader::rows_to_expect() const noexcept {
  const auto read = static_cast<std::size_t>(at_ - begin_);
  if (read == 0) return 0;
  const std::size_t rows = (read + left()) / (read / rows_ + 1) + 1;
  return std::min<std::size_t>(rows + rows / 8, kMaxMetadataRegions);
}

Status TableReader::broken(std::string_view what) const {
  return error(Code::corrupt,
               cat("metadata: the regions are broken at byte ", at_ - begin_, ": ", what));
}

/// Seven bits in each byte, lowest first, in the shortest form.
bool TableReader::take_number(std::uint64_t& number) noexcept {
  number = 0;
  for (unsigned shift = 0; shift < 64 && at_ != end_; shift += 7) {
    const auto byte = static_cast<std::uint64_t>(*at_++);
    number |= (byte & 0x7f) << shift;
    if (shift == 63 && byte > 1) return false;
    if (byte < 0x80) return byte != 0 || shift == 0;
  }
  return false;
}

Result<ConstByteSpan> TableReader::take_sized(std::uint64_t most) {
  std::uint64_t size = 0;
  if (!take_number(size)) return broken("no number");
  if (size > most) return too_much("bytes of a key", size);
  if (size > left()) return broken("it ends early");
  at_ += size;
  return ConstByteSpan(at_ - size, size);
}

Result<const AgentMetadata::Region*> TableReader::next() {
  if (++rows_ > kMaxMetadataRegions) return too_much("regions", rows_);
  if (at_end()) return broken("it ends early");
  const auto said = static_cast<std::uint8_t>(*at_++);
  if (said > kAllSaid) return broken("a row says what is not known here");
  TOWPATH_TRY(take_place(said));
  TOWPATH_TRY((said & kSaysKeys) != 0 ? take_keys() : take_differences());
  return &row_;
}

Status TableReader::take_place(std::uint8_t said) {
  RegionDescriptor& region = row_.region;
  std::uint64_t distance = 0;
  std::uint64_t kind = static_cast<std::uint64_t>(region.kind);
  const bool numbers = take_number(distance) && ((said & kSaysKind) == 0 || take_number(kind)) &&
                       ((said & kSaysDevice) == 0 || take_number(region.device_id)) &&
                       ((said & kSaysLength) == 0 || take_number(region.length));
  if (!numbers) return broken("no number");
  const auto known = memory_kind_from_number(kind);
  if (!known) return broken("not a kind of memory");
  region.kind = *known;
  region.address += unfolded(distance);
  if (region.length == 0) return broken("an empty region");
  if (!checked_add(region.address, region.length)) return broken("a region that wraps around");
  region.key.clear();
  if ((said & kHasObjectKey) == 0) return {};
  TOWPATH_TRY(const ConstByteSpan key, take_sized(kMaxObjectKey));
  region.key = as_text(key);
  return {};
}

Status TableReader::take_keys() {
  row_.keys.clear();
  std::uint64_t count = 0;
  if (!take_number(count)) return broken("no number");
  if (count > kMaxMetadataBackends) return too_much("keys of a region", count);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t backend = 0;
    if (!take_number(backend)) return broken("no number");
    if (backend >= backends_) return broken("a key of no backend of this metadata");
    TOWPATH_TRY(const ConstByteSpan key, take_sized(kMaxRegionKey));
    row_.keys.emplace_back(static_cast<std::uint32_t>(backend), Bytes(key.begin(), key.end()));
    key_bytes_ += key.size();
  }
  return check_sum();
}

Status TableReader::take_differences() {
  for (auto& [backend, key] : row_.keys) {
    TOWPATH_TRY(take_difference(key));
    key_bytes_ += key.size();
  }
  return check_sum();
}

Status TableReader::take_difference(Bytes& key) {
  const std::size_t words = (key.size() + 7) / 8;
  if (words > left()) return broken("it ends early");
  const std::byte* const map = at_;
  at_ += words;
  for (std::size_t word = 0; word < words; ++word) {
    auto bits = static_cast<unsigned>(map[word]);
    if (bits == 0) continue;
    std::byte* const bytes = key.data() + word * 8;
    if (const std::size_t here = key.size() - word * 8; here < 8 && bits >> here != 0)
      return broken("a difference behind the end of a key");
    // Counted only near the end: it is a call, where processors of ten years ago are to be served.
    if (left() < 8 && static_cast<std::size_t>(std::popcount(bits)) > left())
      return broken("it ends early");
    if (bits == kWholeWord) {
      std::memcpy(bytes, at_, 8);
      at_ += 8;
      continue;
    }
    for (; bits != 0; bits &= bits - 1) bytes[std::countr_zero(bits)] = *at_++;
  }
  return {};
}

// A bit stands for a byte: a small table must not become gigabytes.
Status TableReader::check_sum() const {
  return key_bytes_ > kMaxMetadataBytes ? too_much("bytes of keys", key_bytes_) : Status();
}

}  // namespace towpath::agent
