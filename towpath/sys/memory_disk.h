// What is behind a MemoryFileSystem and its open files. Only for the memory_*.cc files.
// Thread: under MemoryDisk::mutex.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/sys/memory_file_system.h>

namespace towpath::sys::internal {

/// A file's bytes, with or without names.
struct Content {
  static constexpr std::size_t kPage = 4096;

  Bytes live;
  Bytes saved;                    ///< what a crash leaves
  std::set<std::size_t> changed;  ///< pages that may differ: a large file is saved by these alone
  std::set<std::size_t> lost;     ///< pages that only `live` has, until they are written again
  std::weak_ptr<void> lock;       ///< lives as long as the open file that has it
  std::uint64_t failed_write_backs = 0;

  bool is_saved(std::size_t page) const;
  /// The pages that these bytes lie in.
  void note_change(std::uint64_t begin, std::uint64_t end);
  /// All but what is lost.
  void save();
  /// What is not saved, and begins before `end`, is lost; the others are saved.
  void lose(std::uint64_t end);
  /// What is lost of these bytes is as it was saved.
  void drop_lost(const FdRange& range);
  /// As it was saved; nothing is lost.
  void go_back();
  void resize(std::uint64_t size_bytes);
};

struct MemoryDisk {
  struct Pending {
    FileFault fault;
    std::uint64_t seen = 0;
  };

  mutable std::mutex mutex;
  std::map<std::string, std::shared_ptr<Content>> names;
  std::map<std::string, std::shared_ptr<Content>> saved_names;
  std::set<std::string> directories{".", "/", "/tmp"};
  std::map<std::string, std::shared_ptr<Content>> directory_locks;  ///< of those that were opened
  std::vector<Pending> faults;
  std::map<FileOp, std::uint64_t> calls;
  std::uint64_t capacity = UINT64_MAX;
  std::uint64_t crashes = 0;
  std::uint64_t temporaries = 0;

  /// Counts a call; the fault that strikes it, if one does.
  std::optional<FileFault> strike(FileOp op, const std::string& path);
  /// For calls on which only `fail` makes sense.
  Status failure(FileOp op, const std::string& path, std::string_view verb);
  std::uint64_t used() const;
  /// How long `content` may become.
  std::uint64_t room_for(const Content& content) const;
};

struct MemoryFileParts {
  std::shared_ptr<MemoryDisk> disk;
  std::shared_ptr<Content> content;
  std::string path;
  bool writable = false;
  std::string direct_refusal;
};

/// Called with the disk locked.
std::unique_ptr<File> make_memory_file(MemoryFileParts parts);

}  // namespace towpath::sys::internal
