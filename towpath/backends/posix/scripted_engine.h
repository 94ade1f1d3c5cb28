// ScriptedEngine: an engine that a test drives. Its files are byte strings; I/Os wait until the
// test says how each ends: whole, short, late, out of order, with an error. For tests only. Thread:
// loop.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <towpath/backends/posix/memories.h>

namespace towpath::backends::posix {

class ScriptedEngine final : public sys::FileEngine {
 public:
  std::string_view name() const override { return "scripted"; }
  std::string describe() const override { return "scripted"; }
  Result<int> add_file(int) override { return error(Code::unsupported, "no table"); }
  void remove_file(int) override {}
  Result<int> add_buffer(ByteSpan) override { return error(Code::unsupported, "no table"); }
  void remove_buffer(int) override {}
  std::int32_t read_cached(const sys::FileIo& io) override {
    ++cached_asked;
    return cached_answer > 0 ? move(io, static_cast<std::uint64_t>(cached_answer)) : cached_answer;
  }
  void submit(const sys::FileIo& io) override {
    waiting.push_back(io);
    most_waiting = std::max(most_waiting, waiting.size());
  }
  bool flush() override {
    ++flushes;
    return !flush_fails;
  }
  void cancel(std::uint64_t id) override { cancelled.push_back(id); }
  std::size_t reap(std::span<sys::IoDone> into) override {
    if (automatic) end_all();
    const std::size_t count = std::min(into.size(), done.size());
    std::copy_n(done.begin(), count, into.begin());
    done.erase(done.begin(), done.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  int wait_fd() const override { return -1; }
  void clear_wait_fd() override { ++clears; }
  bool raise_wait_fd() override { return true; }

  /// Ends I/O `index` after `most` bytes, or with what the kernel would do before.
  void end(std::size_t index, std::uint64_t most = UINT64_MAX) {
    const sys::FileIo io = take(index);
    done.push_back({io.id, move(io, most)});
  }
  /// Ends it with an error, or any number that a kernel might give.
  void answer(std::size_t index, std::int32_t result) { done.push_back({take(index).id, result}); }
  void end_all() {
    while (!waiting.empty()) bad_range(waiting[0]) ? answer(0, -bad_errno) : end(0, at_most);
  }

  std::deque<sys::FileIo> waiting;
  std::vector<sys::IoDone> done;
  std::vector<std::uint64_t> cancelled;
  std::int32_t cached_answer = -EAGAIN;  ///< of read_cached(); above 0: bytes at most
  std::size_t cached_asked = 0;
  bool automatic = false;              ///< every reap ends all that waits
  std::uint64_t at_most = UINT64_MAX;  ///< bytes per I/O, when automatic
  /// I/Os that touch these bytes of a file fail.
  std::uint64_t bad_from = 0;
  std::uint64_t bad_to = 0;
  int bad_errno = EIO;
  bool flush_fails = false;
  std::size_t flushes = 0;
  std::size_t clears = 0;
  std::size_t most_waiting = 0;

 private:
  /// As the kernel does, but at most so many bytes.
  static std::int32_t move(const sys::FileIo& io, std::uint64_t most) {
    std::uint64_t moved = 0;
    for (const sys::IoPart& part : io.parts) {
      const std::uint64_t wanted = std::min<std::uint64_t>(part.size_bytes, most - moved);
      const auto at = static_cast<off_t>(io.offset + moved);
      const ssize_t got = io.kind == sys::FileIo::Kind::write
                              ? ::pwrite(io.file.fd, part.data, wanted, at)
                              : ::pread(io.file.fd, part.data, wanted, at);
      if (got > 0) moved += static_cast<std::uint64_t>(got);
      if (got < static_cast<ssize_t>(part.size_bytes)) break;
    }
    return static_cast<std::int32_t>(moved);
  }
  sys::FileIo take(std::size_t index) {
    const sys::FileIo io = waiting.at(index);
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(index));
    return io;
  }
  bool bad_range(const sys::FileIo& io) const {
    std::uint64_t length = 0;
    for (const sys::IoPart& part : io.parts) length += part.size_bytes;
    return io.offset < bad_to && io.offset + length > bad_from;
  }
};

/// A file in memory as a registered region. `alignment` above 1: it emulates an O_DIRECT file.
inline std::unique_ptr<DiskMemory> make_disk(std::uint64_t size_bytes, std::uint64_t alignment = 1,
                                             bool has_twin = true) {
  OpenFile::Parts parts;
  parts.name = "'scripted'";
  parts.main.reset(::memfd_create("scripted", MFD_CLOEXEC));
  if (::ftruncate(parts.main.get(), static_cast<off_t>(size_bytes)) != 0) std::abort();
  parts.alignment = alignment;
  if (alignment > 1 && has_twin) parts.twin = std::move(*parts.main.duplicate());
  auto record = std::make_shared<DiskRecord>();
  record->file = std::make_shared<OpenFile>(std::move(parts));
  record->region.kind = MemoryKind::disk;
  record->region.length = size_bytes;
  return std::make_unique<DiskMemory>(nullptr, std::move(record), DiskMemory::Role::registration);
}

inline std::unique_ptr<LocalMemory> make_local() {
  return std::make_unique<LocalMemory>(MemoryKind::system, nullptr);
}

}  // namespace towpath::backends::posix
