#include <array>

#include <xxhash.h>
#if defined(TOWPATH_XXHASH_DISPATCH)
// From here on XXH3's names are those of functions that choose by the processor; the plain ones are
// built for any, and several times as slow.
#include <xxh_x86dispatch.h>
#endif

#include <towpath/core/check.h>
#include <towpath/core/text.h>
#include <towpath/kv/crc32c.h>
#include <towpath/kv/digest.h>

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

struct Digester::State {
  XXH3_state_t* xxh3 = XXH3_createState();
  std::uint32_t crc = 0;
  ~State() { XXH3_freeState(xxh3); }
};

Digester::Digester(std::uint64_t salt, DigestAlgorithm algorithm)
    : algorithm_(algorithm), salt_(salt), state_(std::make_unique<State>()) {
  TOWPATH_CHECK(state_->xxh3 != nullptr, "no memory for a digest");
  begin();
}

Digester::~Digester() = default;

void Digester::begin() {
  if (algorithm_ == DigestAlgorithm::xxh3_64) {
    XXH3_64bits_reset_withSeed(state_->xxh3, salt_);
    return;
  }
  std::array<std::byte, 8> salt{};
  for (std::size_t i = 0; i < salt.size(); ++i) salt[i] = static_cast<std::byte>(salt_ >> 8 * i);
  state_->crc = crc32c(0, salt);
}

void Digester::add(ConstByteSpan bytes) {
  if (algorithm_ == DigestAlgorithm::xxh3_64)
    XXH3_64bits_update(state_->xxh3, bytes.data(), bytes.size());
  else
    state_->crc = crc32c(state_->crc, bytes);
}

Digest Digester::finish() {
  const bool is_xxh3 = algorithm_ == DigestAlgorithm::xxh3_64;
  const Digest digest{algorithm_, salt_, is_xxh3 ? XXH3_64bits_digest(state_->xxh3) : state_->crc};
  begin();
  return digest;
}

Digest digest_of(ConstByteSpan bytes, std::uint64_t salt, DigestAlgorithm algorithm) {
  Digester digester(salt, algorithm);
  digester.add(bytes);
  return digester.finish();
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
