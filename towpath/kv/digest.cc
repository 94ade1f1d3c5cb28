#include <xxhash.h>

#include <towpath/core/check.h>
#include <towpath/core/text.h>
#include <towpath/kv/digest.h>

namespace towpath::kv {

std::string to_string(const Digest& digest) {
  return cat("xxh3_64:", hex(digest.value), " salt ", hex(digest.salt));
}

struct Digester::State {
  XXH3_state_t* xxh3 = XXH3_createState();
  ~State() { XXH3_freeState(xxh3); }
};

Digester::Digester(std::uint64_t salt, DigestAlgorithm algorithm)
    : algorithm_(algorithm), salt_(salt), state_(std::make_unique<State>()) {
  TOWPATH_CHECK(state_->xxh3 != nullptr, "no memory for a digest");
  XXH3_64bits_reset_withSeed(state_->xxh3, salt_);
}

Digester::~Digester() = default;

void Digester::add(ConstByteSpan bytes) {
  XXH3_64bits_update(state_->xxh3, bytes.data(), bytes.size());
}

Digest Digester::finish() {
  const Digest digest{algorithm_, salt_, XXH3_64bits_digest(state_->xxh3)};
  XXH3_64bits_reset_withSeed(state_->xxh3, salt_);
  return digest;
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
