#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <variant>

#include <xxhash.h>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/kv/crc32c.h>
#include <towpath/kv/digest.h>
#include <towpath/kv/xxh3.h>

namespace towpath::kv {

std::string_view name_of(DigestAlgorithm algorithm) noexcept {
  switch (algorithm) {
    case DigestAlgorithm::xxh3_64: return "xxh3_64";
    case DigestAlgorithm::crc32c: return "crc32c";
  }
  return "unknown";
}

Result<DigestAlgorithm> digest_named(std::string_view name) {
  for (const auto algorithm : {DigestAlgorithm::xxh3_64, DigestAlgorithm::crc32c})
    if (name == name_of(algorithm)) return algorithm;
  return error(Code::invalid_argument, cat("no digest is called '", printable(name), "'"),
               "use xxh3_64 or crc32c");
}

std::string to_string(const Digest& digest) {
  return cat(name_of(digest.algorithm), ":", hex(digest.value), " salt ", hex(digest.salt));
}

namespace {

/// libxxhash's own, for processors that Xxh3 is not for.
class OtherXxh3 {
 public:
  explicit OtherXxh3(std::uint64_t seed) : seed_(seed), state_(XXH3_createState()) {
    TOWPATH_CHECK(state_ != nullptr, "no memory for a digest");
    XXH3_64bits_reset_withSeed(state_.get(), seed_);
  }
  void add(ConstByteSpan bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
  /// Each piece while the caches have it.
  void copy(ByteSpan to, ConstByteSpan from) {
    constexpr std::size_t kCached = std::size_t{16} << 10U;
    for (std::size_t at = 0; at < from.size(); at += kCached) {
      const std::size_t length = std::min(kCached, from.size() - at);
      std::memcpy(&to[at], &from[at], length);
      add(to.subspan(at, length));
    }
  }
  std::uint64_t finish() {
    const std::uint64_t value = XXH3_64bits_digest(state_.get());
    XXH3_64bits_reset_withSeed(state_.get(), seed_);
    return value;
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  const std::uint64_t seed_;
  const std::unique_ptr<XXH3_state_t, Free> state_;
};

class Crc32c {
 public:
  explicit Crc32c(std::uint64_t salt) {
    std::array<std::byte, 8> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(salt >> 8 * i);
    begin_ = crc_ = crc32c(0, bytes);
  }
  void add(ConstByteSpan bytes) { crc_ = crc32c(crc_, bytes); }
  void copy(ByteSpan to, ConstByteSpan from) { crc_ = copy_and_crc32c(crc_, to, from); }
  std::uint64_t finish() { return std::exchange(crc_, begin_); }

 private:
  std::uint32_t begin_ = 0;
  std::uint32_t crc_ = 0;
};

using Sum = std::variant<Xxh3, OtherXxh3, Crc32c>;

Sum sum_of(std::uint64_t salt, DigestAlgorithm algorithm) {
  if (algorithm == DigestAlgorithm::crc32c) return Sum(std::in_place_type<Crc32c>, salt);
  if (Xxh3::is_possible()) return Sum(std::in_place_type<Xxh3>, salt);
  return Sum(std::in_place_type<OtherXxh3>, salt);
}

void add_to(Sum& sum, ConstByteSpan bytes) {
  std::visit([&](auto& of) { of.add(bytes); }, sum);
}

void copy_through(Sum& sum, ByteSpan to, ConstByteSpan from) {
  TOWPATH_CHECK(to.size() == from.size(), "a copy into another length");
  std::visit([&](auto& of) { of.copy(to, from); }, sum);
}

std::uint64_t finish(Sum& sum) {
  return std::visit([](auto& of) { return of.finish(); }, sum);
}

}  // namespace

struct Digester::State {
  const std::uint64_t salt;
  const DigestAlgorithm algorithm;
  Sum sum = sum_of(salt, algorithm);
};

Digester::Digester(std::uint64_t salt, DigestAlgorithm algorithm)
    : state_(new State{salt, algorithm}) {}

Digester::~Digester() = default;

void Digester::add(ConstByteSpan bytes) { add_to(state_->sum, bytes); }

void Digester::copy(ByteSpan to, ConstByteSpan from) { copy_through(state_->sum, to, from); }

Digest Digester::finish() { return {state_->algorithm, state_->salt, kv::finish(state_->sum)}; }

Digest digest_of(ConstByteSpan bytes, std::uint64_t salt, DigestAlgorithm algorithm) {
  Sum sum = sum_of(salt, algorithm);
  add_to(sum, bytes);
  return {algorithm, salt, finish(sum)};
}

Digest copy_and_digest(ByteSpan to, ConstByteSpan from, std::uint64_t salt,
                       DigestAlgorithm algorithm) {
  Sum sum = sum_of(salt, algorithm);
  copy_through(sum, to, from);
  return {algorithm, salt, finish(sum)};
}

Result<Digest> digest_block(Digester& digester, const layout::PhysicalLayout& layout,
                            std::uint64_t block) {
  for (std::uint64_t layer = 0; layer < layout.config().num_layers; ++layer) {
    for (std::uint64_t outer = 0; outer < layout.config().outer_dim; ++outer) {
      auto page = layout.bytes({block, layer, outer});
      if (!page.ok()) {
        (void)digester.finish();
        return page.status();
      }
      digester.add(*page);
    }
  }
  return digester.finish();
}

}  // namespace towpath::kv
