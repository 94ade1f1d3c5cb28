// BlobStore: named blobs in a folder, a file each: what a program wants back as it was, or not at
// all. The state of a llama.cpp sequence is one.
//
//   save()     writes beside, syncs, renames, syncs the folder: a crash leaves the old blob or the
//              new one
//   restore()  gives the bytes that were saved, proven by their digest; or an error, and zeros
//
// A blob may say what it is of (`context`: model, parameters); restoring it for something else is
// refused. Several processes may use one folder; the last save of a name wins. The format:
// docs/formats/kv_blob.md. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/kv/digest.h>
#include <towpath/sys/file.h>

namespace towpath::kv {

inline constexpr std::uint64_t kMaxBlobContext = 1024;

struct BlobName {
  std::string name;     ///< any bytes, not empty; written as path_safe() at most 200
  std::string context;  ///< empty: of nothing in particular
};

struct BlobInfo {
  BlobName blob;
  std::uint64_t length = 0;
  Digest digest;
};

class BlobStore {
 public:
  /// Makes the folder when it is not there; `files` outlives the store. Errors: those of making it.
  static Result<BlobStore> open(sys::FileSystem& files, std::string directory);

  /// It survives what comes after it returned. Errors: invalid_argument (the name or context),
  /// exhausted, denied, io_error; the blob of that name is then as it was, or, when its folder
  /// could not be synced, the new one.
  Status save(const BlobName& blob, ConstByteSpan bytes);

  /// What the file says of itself: its header is proven, its bytes are not. Errors: not_found;
  /// corrupt (a header that is damaged or another's, a file that ends early or late); unsupported
  /// (of a newer release).
  Result<BlobInfo> find(const std::string& name) const;
  /// Fills `into`, which is as long as the blob; a failure leaves it all zeros. Errors: as find();
  /// corrupt (the bytes are not those that were saved); invalid_argument (another length, another
  /// context); io_error.
  Status restore(const BlobName& blob, ByteSpan into) const;
  /// Reads it all and looks, a piece at a time. Errors: as restore().
  Status verify(const std::string& name) const;
  /// Errors: not_found.
  Status remove(const std::string& name);

  struct Entry {
    std::string file;  ///< within the folder
    BlobInfo info;
    Status status;  ///< why `info` says nothing
  };
  /// By file name. Files of other kinds are left out; what a crash left unfinished is reported as
  /// corrupt.
  Result<std::vector<Entry>> list() const;

 private:
  BlobStore(sys::FileSystem& files, std::string directory)
      : files_(&files), directory_(std::move(directory)) {}

  std::string path_of(const std::string& name) const;
  struct OpenBlob;
  Result<OpenBlob> open_blob(const std::string& path) const;
  Status check(const OpenBlob& blob, ByteSpan piece, bool keep) const;
  Status write(sys::File& file, const BlobName& blob, ConstByteSpan bytes) const;

  sys::FileSystem* files_;
  std::string directory_;
};

}  // namespace towpath::kv
