// Blocks to put into stores, and stores to put them into. For tests only. Thread: one.
#pragma once

#include <gtest/gtest.h>

#include <towpath/core/testing/random_bytes.h>
#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/disk/segment.h>
#include <towpath/sys/memory_file_system.h>

namespace towpath::kv::testing {

inline constexpr const char* kDirectory = "/kv";
inline constexpr std::uint64_t kSegmentBytes = 4'000'000;  ///< unless a test says otherwise

/// Bytes that only this block has; lengths differ. As they are recorded in tests/versions.
inline Bytes bytes_of_block(BlockHash hash) {
  Bytes bytes(3000 + hash % 7 * 1000);
  std::uint64_t state = hash * 0x9e3779b97f4a7c15ULL + 1;
  for (std::byte *at = bytes.data(), *const end = at + bytes.size(); at != end; ++at) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    *at = static_cast<std::byte>(state >> 56U);
  }
  return bytes;
}

inline Digest digest_of_block(BlockHash hash) {
  return digest_of(bytes_of_block(hash), 5,
                   hash % 2 == 0 ? DigestAlgorithm::xxh3_64 : DigestAlgorithm::crc32c);
}

inline Status put_block(BlockStore& store, BlockHash hash) {
  return store.put(hash, digest_of_block(hash), bytes_of_block(hash));
}

/// Ok only when the store gives exactly the block's bytes. What is wrong fails the test.
inline Status get_block(BlockStore& store, BlockHash hash) {
  const auto found = store.find(hash);
  if (!found) return error(Code::not_found, "a miss");
  Bytes bytes(found->length);
  TOWPATH_TRY(store.get(hash, bytes));
  EXPECT_TRUE(are_same_bytes(bytes, bytes_of_block(hash))) << "a wrong block was served: " << hash;
  return {};
}

inline std::unique_ptr<BlockStore> open_store(sys::FileSystem& files,
                                              BlockStoreOptions options = {
                                                  .segment_bytes = kSegmentBytes}) {
  static std::uint64_t incarnation = 0;
  if (options.directory.empty()) options.directory = kDirectory;
  options.incarnation = ++incarnation;
  auto store = BlockStore::open(files, options);
  EXPECT_TRUE(store.ok()) << store.status().to_string();
  return store.ok() ? *std::move(store) : nullptr;
}

/// Of stores in memory.
class StoreFixture : public ::testing::Test {
 protected:
  void put(BlockStore& store, BlockHash first, BlockHash last) {
    for (BlockHash hash = first; hash <= last; ++hash)
      ASSERT_TRUE(put_block(store, hash).ok()) << hash;
  }
  void expect_all(BlockStore& store, BlockHash first, BlockHash last) {
    for (BlockHash hash = first; hash <= last; ++hash) {
      const Status got = get_block(store, hash);
      EXPECT_TRUE(got.ok()) << hash << ": " << got.to_string();
    }
  }
  std::string path_of(std::uint64_t segment) const {
    return cat(kDirectory, "/", Segment::file_name(segment));
  }
  /// Changes one byte of a file, behind the store's back.
  void spoil(const std::string& path, std::uint64_t offset) {
    auto file = files_.open(path, {.writable = true});
    ASSERT_TRUE(file.ok());
    Bytes byte(1);
    ASSERT_TRUE((*file)->read_at(byte, offset).ok());
    byte[0] ^= std::byte{1};
    ASSERT_TRUE((*file)->write_at(byte, offset).ok());
  }

  sys::MemoryFileSystem files_;
};

}  // namespace towpath::kv::testing
