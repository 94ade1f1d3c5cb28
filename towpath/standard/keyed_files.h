// KeyedFiles: a KeyedStore in a directory, by names of any length: what an engine's storage plug-in
// (LMCache's L2, SGLang's HiCache) wants of a disk.
//
//   TOWPATH_TRY(auto kept, standard::KeyedFiles::open({.directory = "/nvme/kv",
//                                                      .disk_bytes = 64 * kGiB}));
//   kept->store().submit(kv::KeyedStore::Operation::put,
//                        {{standard::key_of("model@0@1f3a"), bytes}});
//
// Thread: any.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/kv/keyed/keyed_store.h>
#include <towpath/sys/file.h>

namespace towpath::standard {

struct KeyedFilesOptions {
  /// Made when it is not there; or a drive, or a file that is used as one (kv/disk/drive_files.h).
  /// One process's at a time.
  std::string directory;
  std::uint64_t disk_bytes = 16 * kGiB;
  /// Past the page cache (O_DIRECT), where the directory can, and for blocks that begin and end at
  /// multiples of 4,096 bytes.
  bool direct = false;
};

/// The first 128 bits of the name's SHA-256, in little-endian order. It rests on disk: never change
/// it.
kv::BlockKey key_of(std::string_view name);

class KeyedFiles {
 public:
  /// Errors: invalid_argument (options), unavailable (another process has the directory open, and
  /// is named), denied (it can only be read), exhausted, and those of making it.
  static Result<std::unique_ptr<KeyedFiles>> open(const KeyedFilesOptions& options);

  kv::KeyedStore& store() noexcept { return *store_; }
  /// Why all goes through the page cache although that was not wanted; else empty.
  const std::string& direct_refusal() const noexcept { return direct_refusal_; }
  std::uint64_t blocks_at_opening() const noexcept { return blocks_at_opening_; }

 private:
  KeyedFiles() = default;

  std::shared_ptr<sys::FileSystem> files_;  // outlives the store
  std::string direct_refusal_;
  std::uint64_t blocks_at_opening_ = 0;
  std::unique_ptr<kv::KeyedStore> store_;
};

}  // namespace towpath::standard
