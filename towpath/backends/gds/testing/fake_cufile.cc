// A libcufile.so.0 for tests: the symbols that we look up, over pread(2) and pwrite(2). It moves
// bytes to plain memory and no byte past a CPU: it is no GPUDirect Storage. It proves that the
// table is plumbed right (which function gets which argument, what is registered before it is used
// and given back), and nothing about a GPU. What it finds wrong it refuses as libcufile would, and
// writes down.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <towpath/backends/gds/cufile_abi.h>

using namespace towpath::backends::gds::cufile;  // NOLINT: the whole file speaks of it

namespace {

struct File {
  int fd;  // without O_DIRECT: the fake takes any alignment, as libcufile does
  bool direct;
};
struct Entries {
  std::vector<BatchEvent> ended;
};

/// What a stream has to do when it comes there.
struct Async {
  FileHandle file;
  void* base;
  std::size_t size;
  off_t file_offset, base_offset;
  ssize_t* moved;
  bool write;
};
/// As cuLaunchHostFunc: whose streams they are, the test knows.
using Launch = int (*)(void* stream, void (*function)(void*), void* argument);

struct Fake {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> numbers{{"direct", 1}};
  std::map<std::string, std::pair<int, int>> failures;  // symbol -> answer, calls to skip
  std::map<const void*, std::size_t> buffers;
  std::set<File*> files;
  std::set<StreamHandle> streams;
  bool allow_compat = true;  // the default of the real one
  std::string complaints;
  GpuCounters counters;  // of the only GPU
};

Fake& fake() {
  static auto* const kOne = new Fake;  // never destroyed: a driver outlives what uses it
  return *kOne;
}

int complain(const char* symbol, const char* why, int code) {
  fake().complaints += std::string(symbol) + ": " + why + "; ";
  return code;
}

/// What a call answers without being made. The lock is held.
int before(const char* symbol, bool needs_driver = true) {
  const auto found = fake().failures.find(symbol);
  if (found != fake().failures.end() && found->second.second-- == 0) {
    const int answer = found->second.first;
    fake().failures.erase(found);
    return answer;
  }
  if (needs_driver && fake().numbers["drivers"] == 0 && fake().numbers["started"] == 0)
    return complain(symbol, "the driver is not open", kNotInitialized);
  return 0;
}

#define TOWPATH_FAKE(symbol, ...)                                                       \
  const std::lock_guard lock(fake().mutex);                                             \
  if (const int early = before(symbol __VA_OPT__(, ) __VA_ARGS__); early != 0) return { \
      early, 0                                                                          \
    }

void count(const File& file, bool write) {
  GpuCounters& gpu = fake().counters;
  if (write)
    ++(file.direct ? gpu.p2p_writes : gpu.posix_writes);
  else
    ++(file.direct ? gpu.p2p_reads : gpu.posix_reads);
}

int version() {
  const std::uint64_t chosen = fake().numbers["version"];
  return chosen != 0 ? static_cast<int>(chosen) : kVersion115;
}

template <typename Counters>
void write_counters(void* counters) {
  Counters all;
  all.gpus = 1;
  all.gpu[0] = fake().counters;
  std::memcpy(counters, &all, sizeof all);
}

ssize_t move(const char* symbol, FileHandle handle, const void* base, std::size_t size,
             off_t file_offset, off_t base_offset) {
  const bool write = std::string(symbol) == "cuFileWrite";
  auto* const file = reinterpret_cast<File*>(handle);
  {
    const std::lock_guard lock(fake().mutex);
    if (const int early = before(symbol); early != 0) return early > 0 ? -early : early;
    if (!fake().files.contains(file))
      return -complain(symbol, "no such file", kHandleNotRegistered);
    const auto buffer = fake().buffers.find(base);
    if (buffer != fake().buffers.end() &&
        static_cast<std::size_t>(base_offset) + size > buffer->second)
      return -complain(symbol, "beyond the registered buffer", kPointerRange);
    count(*file, write);
    if (const std::uint64_t longest = fake().numbers["longest"]; longest != 0)
      size = std::min<std::size_t>(size, longest);
  }
  auto* const at = static_cast<char*>(const_cast<void*>(base)) + base_offset;
  return write ? ::pwrite(file->fd, at, size, file_offset)
               : ::pread(file->fd, at, size, file_offset);
}

/// Numbers are taken when the I/O is given, as those of a stream whose numbers are fixed; bytes
/// move in its order.
Answer give(const char* symbol, const Async& io, StreamHandle stream) {
  Launch launch = nullptr;
  {
    TOWPATH_FAKE(symbol);
    if (!fake().streams.contains(stream))
      return {complain(symbol, "the stream is not registered", kInvalidValue), 0};
    launch = reinterpret_cast<Launch>(fake().numbers["launch"]);
    ++fake().numbers["given"];
  }
  const auto perform = [](void* given) {
    const std::unique_ptr<Async> one(static_cast<Async*>(given));
    *one->moved = move(one->write ? "cuFileWrite" : "cuFileRead", one->file, one->base, one->size,
                       one->file_offset, one->base_offset);
  };
  auto one = std::make_unique<Async>(io);
  const int refused = launch(stream, perform, one.get());
  if (refused != 0) return {kCudaFailed, refused};
  (void)one.release();
  return {};
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.
extern "C" {

// For tests ---------------------------------------------------------------------------------------

void towpath_fake_cufile_fail(const char* symbol, int answer, int skip) {
  const std::lock_guard lock(fake().mutex);
  fake().failures[symbol] = {answer, skip};
}
void towpath_fake_cufile_set(const char* what, std::uint64_t value) {
  const std::lock_guard lock(fake().mutex);
  if (std::string(what) != "reset") {
    fake().numbers[what] = value;
    return;
  }
  const std::uint64_t drivers = fake().numbers["drivers"];
  const std::uint64_t launch = fake().numbers["launch"];
  fake().numbers = {{"direct", 1}, {"drivers", drivers}, {"launch", launch}};
  fake().failures.clear();
  fake().complaints.clear();
  fake().allow_compat = true;
}
std::uint64_t towpath_fake_cufile_get(const char* what) {
  const std::lock_guard lock(fake().mutex);
  if (std::string(what) == "files") return fake().files.size();
  if (std::string(what) == "buffers") return fake().buffers.size();
  if (std::string(what) == "streams") return fake().streams.size();
  return fake().numbers[what];
}
const char* towpath_fake_cufile_complaints() { return fake().complaints.c_str(); }

// Driver ------------------------------------------------------------------------------------------

Answer cuFileDriverOpen() {
  TOWPATH_FAKE("cuFileDriverOpen", false);
  if (fake().numbers["started"] != 0) return {kAlreadyOpen, 0};
  ++fake().numbers["drivers"];
  return {};
}
Answer cuFileDriverClose_v2() {
  TOWPATH_FAKE("cuFileDriverClose_v2");
  --fake().numbers["drivers"];
  return {};
}
Answer cuFileDriverGetProperties(Properties* properties) {
  TOWPATH_FAKE("cuFileDriverGetProperties");
  *properties = {.status_flags = kNvmeP2pWorks,
                 .control_flags = (fake().allow_compat ? kCompatAllowed : 0) |
                                  static_cast<unsigned>(fake().numbers["configured"]),
                 .feature_flags = kBatchWorks | kStreamsWork,
                 .max_batch = 128};
  return {};
}
Answer cuFileGetVersion(int* version) {
  TOWPATH_FAKE("cuFileGetVersion", false);
  *version = ::version();
  return {};
}
Answer cuFileSetParameterBool(Switch what, bool value) {
  TOWPATH_FAKE("cuFileSetParameterBool", false);
  if (fake().numbers["started"] != 0) return {kAlreadyOpen, 0};
  if (what > Switch::force_compat && version() < kVersion119) return {kInvalidValue, 0};
  if (what == Switch::allow_compat) fake().allow_compat = value;
  if (what == Switch::posix_alone && !value) fake().numbers["configured"] &= ~kPosixAlone;
  if (what == Switch::fall_back && !value) fake().numbers["configured"] &= ~kFallsBack;
  return {};
}
Answer cuFileSetStatsLevel(int level) { return {level >= 0 && level <= 3 ? 0 : kInvalidValue, 0}; }
Answer cuFileStatsStart() { return {}; }
Answer cuFileGetStatsL3(void* counters) {
  TOWPATH_FAKE("cuFileGetStatsL3");
  version() < kVersion119 ? write_counters<CountersOf115>(counters)
                          : write_counters<CountersOf119>(counters);
  return {};
}

// Files and buffers -------------------------------------------------------------------------------

Answer cuFileHandleRegister(FileHandle* handle, FileDescription* description) {
  TOWPATH_FAKE("cuFileHandleRegister");
  const int flags = ::fcntl(description->fd, F_GETFL);
  if (description->type != 1 || flags < 0)
    return {complain("cuFileHandleRegister", "no descriptor", kInvalidValue), 0};
  const bool direct = fake().numbers["direct"] != 0 && (flags & O_DIRECT) != 0;
  if (!direct && !fake().allow_compat)
    return {(flags & O_DIRECT) != 0 ? kFileNotSupported : kNotDirect, 0};
  const std::string link = "/proc/self/fd/" + std::to_string(description->fd);
  auto* const file = new File{::open(link.c_str(), (flags & O_ACCMODE) | O_CLOEXEC), direct};
  fake().files.insert(file);
  *handle = reinterpret_cast<FileHandle>(file);
  return {};
}
void cuFileHandleDeregister(FileHandle handle) {
  const std::lock_guard lock(fake().mutex);
  auto* const file = reinterpret_cast<File*>(handle);
  if (fake().files.erase(file) == 0) {
    (void)complain("cuFileHandleDeregister", "no such file", 0);
    return;
  }
  ::close(file->fd);
  delete file;
}
Answer cuFileBufRegister(const void* base, std::size_t size, int flags) {
  TOWPATH_FAKE("cuFileBufRegister");
  if (flags != 0) return {complain("cuFileBufRegister", "flags", kInvalidValue), 0};
  if (!fake().buffers.emplace(base, size).second) return {kAlreadyRegistered, 0};
  return {};
}
Answer cuFileBufDeregister(const void* base) {
  TOWPATH_FAKE("cuFileBufDeregister");
  if (fake().buffers.erase(base) == 0)
    return {complain("cuFileBufDeregister", "not registered", kNotRegistered), 0};
  return {};
}

// Bytes -------------------------------------------------------------------------------------------

ssize_t cuFileRead(FileHandle file, void* base, std::size_t size, off_t file_offset,
                   off_t base_offset) {
  return move("cuFileRead", file, base, size, file_offset, base_offset);
}
ssize_t cuFileWrite(FileHandle file, const void* base, std::size_t size, off_t file_offset,
                    off_t base_offset) {
  return move("cuFileWrite", file, base, size, file_offset, base_offset);
}

Answer cuFileBatchIOSetUp(BatchHandle* batch, unsigned entries) {
  TOWPATH_FAKE("cuFileBatchIOSetUp");
  if (entries == 0 || entries > 128)
    return {complain("cuFileBatchIOSetUp", "entries", kInvalidValue), 0};
  *batch = reinterpret_cast<BatchHandle>(new Entries);
  return {};
}
Answer cuFileBatchIOSubmit(BatchHandle batch, unsigned count, BatchEntry* entries, unsigned) {
  bool broken = false;
  {
    TOWPATH_FAKE("cuFileBatchIOSubmit");
    broken = fake().numbers["broken_batches"] != 0;
    ++fake().numbers["batches"];
  }
  auto& ended = reinterpret_cast<Entries*>(batch)->ended;
  for (const BatchEntry& entry : std::vector<BatchEntry>(entries, entries + count)) {
    const bool fails = broken && !ended.empty();
    const ssize_t moved = fails
                              ? -kInternal
                              : move(entry.is_write != 0 ? "cuFileWrite" : "cuFileRead", entry.file,
                                     entry.base, entry.size, entry.file_offset, entry.base_offset);
    ended.push_back(
        {entry.cookie, moved < 0 ? 0x40 : kBatchComplete, static_cast<std::size_t>(moved)});
  }
  return {};
}
/// Half of what has ended at a time, the newest first: answers come in any order.
Answer cuFileBatchIOGetStatus(BatchHandle batch, unsigned, unsigned* count, BatchEvent* events,
                              timespec*) {
  TOWPATH_FAKE("cuFileBatchIOGetStatus");
  auto& ended = reinterpret_cast<Entries*>(batch)->ended;
  *count = std::min<unsigned>(*count, static_cast<unsigned>(ended.size() + 1) / 2);
  for (unsigned i = 0; i < *count; ++i) {
    events[i] = ended.back();
    ended.pop_back();
  }
  return {};
}
Answer cuFileBatchIOCancel(BatchHandle) { return {}; }
void cuFileBatchIODestroy(BatchHandle batch) { delete reinterpret_cast<Entries*>(batch); }

// Streams -----------------------------------------------------------------------------------------

Answer cuFileStreamRegister(StreamHandle stream, unsigned flags) {
  TOWPATH_FAKE("cuFileStreamRegister");
  if (flags != kNumbersAreFixed || !fake().streams.insert(stream).second)
    return {complain("cuFileStreamRegister", "flags, or registered before", kInvalidValue), 0};
  return {};
}
Answer cuFileStreamDeregister(StreamHandle stream) {
  TOWPATH_FAKE("cuFileStreamDeregister");
  if (fake().streams.erase(stream) == 0)
    return {complain("cuFileStreamDeregister", "not registered", kInvalidValue), 0};
  return {};
}
Answer cuFileReadAsync(FileHandle file, void* base, std::size_t* size, off_t* file_offset,
                       off_t* base_offset, ssize_t* moved, StreamHandle stream) {
  return give("cuFileReadAsync", {file, base, *size, *file_offset, *base_offset, moved, false},
              stream);
}
Answer cuFileWriteAsync(FileHandle file, void* base, std::size_t* size, off_t* file_offset,
                        off_t* base_offset, ssize_t* moved, StreamHandle stream) {
  return give("cuFileWriteAsync", {file, base, *size, *file_offset, *base_offset, moved, true},
              stream);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
