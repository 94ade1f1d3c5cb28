#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <towpath/agent/card_table.h>
#include <towpath/core/checked.h>
#include <towpath/core/text.h>

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

bool same_shape(const TableWriter::Keys& a, const TableWriter::Keys& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.size() == other.second.size();
  });
}

// ---- Writing

void put_number(Bytes& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7U) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

void put_sized(Bytes& out, ConstByteSpan bytes) {
  put_number(out, bytes.size());
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// Eight bytes, fewer at the end.
std::uint64_t word_at(ConstByteSpan bytes, std::size_t begin) noexcept {
  std::uint64_t word = 0;
  if (begin + sizeof word <= bytes.size())
    std::memcpy(&word, &bytes[begin], sizeof word);
  else
    std::memcpy(&word, &bytes[begin], bytes.size() - begin);
  return word;
}

/// A bit for each byte that differs, lowest first; then those bytes. Eight at once: most are equal.
void put_difference(Bytes& out, ConstByteSpan now, ConstByteSpan before) {
  static_assert(std::endian::native == std::endian::little, "the first byte is the lowest");
  const std::size_t map = out.size();
  out.resize(map + (now.size() + 7) / 8);
  for (std::size_t begin = 0; begin < now.size(); begin += 8) {
    std::uint64_t difference = word_at(now, begin) ^ word_at(before, begin);
    unsigned bits = 0;
    while (difference != 0) {
      const auto byte = static_cast<unsigned>(std::countr_zero(difference)) / 8;
      bits |= 1U << byte;
      out.push_back(now[begin + byte]);
      difference &= ~(std::uint64_t{0xFF} << (8 * byte));
    }
    out[map + begin / 8] = static_cast<std::byte>(bits);
  }
}

void put_place(Bytes& out, const RegionDescriptor& now, const RegionDescriptor& before,
               bool new_keys) {
  const bool new_kind = now.kind != before.kind;
  const bool new_device = now.device_id != before.device_id;
  const bool new_length = now.length != before.length;
  out.push_back(static_cast<std::byte>(
      (new_kind ? kSaysKind : 0) | (new_device ? kSaysDevice : 0) | (new_length ? kSaysLength : 0) |
      (now.key.empty() ? 0 : kHasObjectKey) | (new_keys ? kSaysKeys : 0)));
  put_number(out, folded(now.address - before.address));
  if (new_kind) put_number(out, static_cast<std::uint64_t>(now.kind));
  if (new_device) put_number(out, now.device_id);
  if (new_length) put_number(out, now.length);
  if (!now.key.empty()) put_sized(out, as_bytes(now.key));
}

}  // namespace

TableWriter::TableWriter(std::size_t rows) {
  constexpr std::size_t kUsualRow = 48;
  bytes_.reserve(kUsualRow * rows);
}

Status TableWriter::check(const RegionDescriptor& region, const Keys& keys) const {
  const bool fits = rows_ < kMaxCardRegions && region.key.size() <= kMaxObjectKey &&
                    keys.size() <= kMaxCardBackends &&
                    std::ranges::all_of(keys, [](const auto& key) {
                      return key.first < kMaxCardBackends && key.second.size() <= kMaxRegionKey;
                    });
  if (fits) return {};
  return error(Code::out_of_range, cat("card: ", to_string(region), " is region ", rows_,
                                       ", or has more or longer keys than a card takes"));
}

void TableWriter::add(const RegionDescriptor& region, const Keys& keys) {
  if (!failure_.ok()) return;
  failure_ = check(region, keys);
  if (!failure_.ok()) return;
  const bool new_keys = !same_shape(keys, keys_before_);
  put_place(bytes_, region, before_, new_keys);
  if (new_keys) put_number(bytes_, keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!new_keys) {
      put_difference(bytes_, keys[i].second, keys_before_[i].second);
      continue;
    }
    put_number(bytes_, keys[i].first);
    put_sized(bytes_, keys[i].second);
  }
  before_.kind = region.kind;
  before_.address = region.address;
  before_.length = region.length;
  before_.device_id = region.device_id;
  keys_before_ = keys;
  ++rows_;
}

Result<Bytes> TableWriter::finish() && {
  TOWPATH_TRY(failure_);
  return std::move(bytes_);
}

namespace {

// ---- Reading

class Reader {
 public:
  explicit Reader(ConstByteSpan bytes) : bytes_(bytes) {}
  bool at_end() const noexcept { return at_ == bytes_.size(); }

  Result<ConstByteSpan> take(std::uint64_t size) {
    if (size > bytes_.size() - at_) return broken("it ends early");
    const ConstByteSpan taken = bytes_.subspan(at_, size);
    at_ += size;
    return taken;
  }
  /// Seven bits in each byte, lowest first, in the shortest form.
  Result<std::uint64_t> take_number() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<std::uint64_t>(bytes_[at_++]);
      number |= (byte & 0x7f) << shift;
      if (shift == 63 && byte > 1) break;
      if (byte >= 0x80) continue;
      if (byte == 0 && shift > 0) break;
      return number;
    }
    return broken("no number");
  }
  Status take_difference(Bytes& key) {
    TOWPATH_TRY(const ConstByteSpan map, take((key.size() + 7) / 8));
    for (std::size_t word = 0; word < map.size(); ++word) {
      for (auto bits = static_cast<unsigned>(map[word]); bits != 0; bits &= bits - 1) {
        const std::size_t index = word * 8 + static_cast<std::size_t>(std::countr_zero(bits));
        if (index >= key.size()) return broken("a difference behind the end of a key");
        TOWPATH_TRY(const ConstByteSpan byte, take(1));
        key[index] = byte.front();
      }
    }
    return {};
  }
  Status broken(std::string_view what) const {
    return error(Code::corrupt, cat("card: the regions are broken at byte ", at_, ": ", what));
  }

 private:
  ConstByteSpan bytes_;
  std::size_t at_ = 0;
};

/// Reads rows, each from the one before.
class Rows {
 public:
  Rows(ConstByteSpan table, std::size_t backends) : in_(table), backends_(backends) {}
  bool at_end() const noexcept { return in_.at_end(); }

  /// The next row; valid until the one after it.
  Result<const Card::Region*> next() {
    TOWPATH_TRY(const ConstByteSpan head, in_.take(1));
    const auto said = static_cast<std::uint8_t>(head.front());
    if (said > kAllSaid) return in_.broken("a row says what is not known here");
    TOWPATH_TRY(take_place(said));
    TOWPATH_TRY((said & kSaysKeys) != 0 ? take_keys() : take_differences());
    return &row_;
  }

 private:
  Status take_place(std::uint8_t said) {
    RegionDescriptor& region = row_.region;
    TOWPATH_TRY(const std::uint64_t distance, in_.take_number());
    region.address += unfolded(distance);
    if ((said & kSaysKind) != 0) {
      TOWPATH_TRY(const std::uint64_t number, in_.take_number());
      const auto kind = memory_kind_from_number(number);
      if (!kind) return in_.broken("not a kind of memory");
      region.kind = *kind;
    }
    if ((said & kSaysDevice) != 0) {
      TOWPATH_TRY(region.device_id, in_.take_number());
    }
    if ((said & kSaysLength) != 0) {
      TOWPATH_TRY(region.length, in_.take_number());
    }
    if (region.length == 0) return in_.broken("an empty region");
    if (!checked_add(region.address, region.length))
      return in_.broken("a region that wraps around");
    region.key.clear();
    if ((said & kHasObjectKey) == 0) return {};
    TOWPATH_TRY(const ConstByteSpan key, take_sized(kMaxObjectKey));
    region.key = as_text(key);
    return {};
  }

  Status take_keys() {
    row_.keys.clear();
    TOWPATH_TRY(const std::uint64_t count, in_.take_number());
    if (count > kMaxCardBackends) return too_much("keys of a region", count);
    for (std::uint64_t i = 0; i < count; ++i) {
      TOWPATH_TRY(const std::uint64_t backend, in_.take_number());
      if (backend >= backends_) return in_.broken("a key of no backend of this card");
      TOWPATH_TRY(const ConstByteSpan key, take_sized(kMaxRegionKey));
      row_.keys.emplace_back(static_cast<std::uint32_t>(backend), Bytes(key.begin(), key.end()));
      key_bytes_ += key.size();
    }
    return check_sum();
  }

  Status take_differences() {
    for (auto& [backend, key] : row_.keys) {
      TOWPATH_TRY(in_.take_difference(key));
      key_bytes_ += key.size();
    }
    return check_sum();
  }

  Result<ConstByteSpan> take_sized(std::uint64_t most) {
    TOWPATH_TRY(const std::uint64_t size, in_.take_number());
    if (size > most) return too_much("bytes of a key", size);
    return in_.take(size);
  }

  // A bit stands for a byte: a small table must not become gigabytes.
  Status check_sum() const {
    return key_bytes_ > kMaxCardBytes ? too_much("bytes of keys", key_bytes_) : Status();
  }
  static Status too_much(std::string_view what, std::uint64_t amount) {
    return error(Code::out_of_range, cat("card: too many ", what, ": ", amount));
  }

  Reader in_;
  const std::size_t backends_;
  Card::Region row_;
  std::uint64_t key_bytes_ = 0;
};

}  // namespace

Status decode_table(ConstByteSpan table, std::size_t backends, std::vector<Card::Region>& into) {
  Rows rows(table, backends);
  while (!rows.at_end()) {
    TOWPATH_TRY(const Card::Region* row, rows.next());
    if (into.size() == kMaxCardRegions)
      return error(Code::out_of_range, cat("card: more than ", kMaxCardRegions, " regions"));
    into.push_back(*row);
  }
  return {};
}

}  // namespace towpath::agent
