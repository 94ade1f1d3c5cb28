#include <bit>
#include <cstring>
#include <string>

#include <xxhash.h>

#include <towpath/core/bytes.h>
#include <towpath/kv/blocks/sequence_hash.h>
#include <towpath/net/digest.h>
#include <towpath/wire/little_endian.h>

namespace towpath::kv {

static_assert(std::endian::native == std::endian::little,
              "tokens are hashed as they lie in memory");

BlockHash root_of(const SequenceRoot& root) {
  return XXH3_64bits_withSeed(root.name_space.data(), root.name_space.size(), root.salt);
}

// Of no length that whole tokens have, and no two rooms become one.
BlockHash root_of_room(BlockHash root, std::string_view room) {
  std::string apart(room);
  apart.push_back('\1');
  while (apart.size() % sizeof(TokenId) != 1) apart.push_back('\0');
  return root_of({root, apart});
}

TenantId tenant_of(std::string_view salt) {
  if (salt.empty()) return 0;
  // Of a digest that cannot be turned round: catalogues have it, and the salt is its holder's.
  const net::Digest digest = net::sha256(as_bytes(salt));
  const auto tenant = wire::load<TenantId>(digest);
  return tenant == 0 ? 1 : tenant;
}

BlockHash extend(BlockHash parent, std::span<const TokenId> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent);
}

std::vector<CachedBlock> with_parents(std::span<const BlockHash> sequence) {
  std::vector<CachedBlock> blocks;
  blocks.reserve(sequence.size());
  for (const BlockHash hash : sequence)
    blocks.push_back({hash, blocks.empty() ? std::nullopt : std::optional(blocks.back().hash)});
  return blocks;
}

Result<std::vector<BlockHash>> sequence_hashes(const SequenceRoot& root,
                                               std::span<const TokenId> tokens,
                                               std::uint64_t tokens_per_block) {
  if (tokens_per_block == 0)
    return error(Code::invalid_argument, "blocks of no tokens", "use 16, 64 or 512 tokens");
  std::vector<BlockHash> hashes;
  hashes.reserve(tokens.size() / tokens_per_block);
  BlockHash parent = root_of(root);
  for (; tokens.size() >= tokens_per_block; tokens = tokens.subspan(tokens_per_block)) {
    parent = extend(parent, tokens.first(tokens_per_block));
    hashes.push_back(parent);
  }
  return hashes;
}

}  // namespace towpath::kv
