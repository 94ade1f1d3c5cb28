// A store's directory has one process at a time: whoever has the lock of the file `lock` in it. The
// file says who that is; it stays when the holder dies, and its lock does not.
// Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <towpath/sys/file.h>

namespace towpath::kv {

struct StoreHolder {
  std::string directory;
  std::uint64_t incarnation = 0;
};

/// Held while the file lives. Null: there is nothing to lock in a directory that cannot be written
/// to. Errors: unavailable (with the holder's own words), those of the file system.
Result<std::unique_ptr<sys::File>> lock_store(sys::FileSystem& files, const StoreHolder& holder);

}  // namespace towpath::kv
