// The little of libcufile's interface that we call, in our own words: numbers, structs and the
// types of functions. No header of CUDA is needed to build.
//
// The names before each group are NVIDIA's. Sizes and places within structs are asserted here
// against those of cuFile 1.13 to 1.20 (CUDA 12.8 and 13). Only files of this folder, and the fake
// library of the tests, include this.
// Thread: immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>

#include <sys/types.h>

namespace towpath::backends::gds::cufile {

// CUfileError_t: passed by value. `cuda` says more when `code` is kCudaFailed.
struct Answer {  // without initializers: clang takes only such structs for ones that C can return
  int code;
  int cuda;
};
static_assert(sizeof(Answer) == 8);

// CUfileOpError: those that we distinguish. 0 is success; 5021 and 5032 do not exist.
inline constexpr int kFirstError = 5000;
inline constexpr int kNotInitialized = 5001;
inline constexpr int kVersionMismatch = 5004;
inline constexpr int kPlatformNotSupported = 5007;
inline constexpr int kFileNotSupported = 5008;
inline constexpr int kDeviceNotSupported = 5009;
inline constexpr int kDriverFailed = 5010;
inline constexpr int kCudaFailed = 5011;
inline constexpr int kPointerInvalid = 5012;
inline constexpr int kMemoryTypeInvalid = 5013;
inline constexpr int kPointerRange = 5014;
inline constexpr int kContextMismatch = 5015;
inline constexpr int kInvalidFileType = 5018;
inline constexpr int kInvalidOpenFlag = 5019;
inline constexpr int kNotDirect = 5020;
inline constexpr int kInvalidValue = 5022;
inline constexpr int kAlreadyRegistered = 5023;
inline constexpr int kNotRegistered = 5024;
inline constexpr int kPermissionDenied = 5025;
inline constexpr int kAlreadyOpen = 5026;
inline constexpr int kHandleNotRegistered = 5027;
inline constexpr int kHandleAlreadyRegistered = 5028;
inline constexpr int kInternal = 5030;
inline constexpr int kSetupFailed = 5033;
inline constexpr int kDisabled = 5034;
inline constexpr int kBatchFailed = 5035;
inline constexpr int kPinningFailed = 5036;
inline constexpr int kBatchFull = 5037;

// CUfileDrvProps_t; sizes in KiB.
struct Properties {
  unsigned driver_major = 0;  // of nvidia-fs; 0 without
  unsigned driver_minor = 0;
  std::size_t poll_threshold = 0;
  std::size_t max_direct_io = 0;
  unsigned status_flags = 0;
  unsigned control_flags = 0;
  unsigned feature_flags = 0;
  unsigned max_device_cache = 0;
  unsigned per_buffer_cache = 0;
  unsigned max_pinned = 0;
  unsigned max_batch = 0;  // entries
  unsigned max_batch_timeout = 0;
};
static_assert(sizeof(Properties) == 56 && offsetof(Properties, max_direct_io) == 16 &&
              offsetof(Properties, control_flags) == 28 &&
              offsetof(Properties, feature_flags) == 32 && offsetof(Properties, max_batch) == 48);
inline constexpr unsigned kNvmeWorks = 1U << 4U;      // status: CU_FILE_NVME_SUPPORTED
inline constexpr unsigned kNvmeP2pWorks = 1U << 11U;  // status: CU_FILE_NVME_P2P_SUPPORTED
inline constexpr unsigned kCompatAllowed = 1U << 1U;  // control: CU_FILE_ALLOW_COMPAT_MODE
inline constexpr unsigned kPosixAlone = 1U << 2U;     // control: CU_FILE_POSIX_IO_MODE
inline constexpr unsigned kFallsBack = 1U << 4U;      // control: CU_FILE_FALLBACK_IO_MODE
inline constexpr unsigned kBatchWorks = 1U << 1U;     // features: CU_FILE_BATCH_IO_SUPPORTED
inline constexpr unsigned kStreamsWork = 1U << 2U;    // features: CU_FILE_STREAMS_SUPPORTED

// CUFileBoolConfigParameter_t; the last two since 1.19, their modes since 1.17
enum class Switch : int { allow_compat = 1, force_compat = 2, posix_alone = 12, fall_back = 13 };

// CUfileDescr_t
struct FileDescription {
  int type = 1;  // CU_FILE_HANDLE_TYPE_OPAQUE_FD
  union {
    int fd;
    void* other = nullptr;
  };
  const void* operations = nullptr;  // of file systems in user space
};
static_assert(sizeof(FileDescription) == 24 && offsetof(FileDescription, fd) == 8 &&
              offsetof(FileDescription, operations) == 16);
struct FileTag;
using FileHandle = FileTag*;  // CUfileHandle_t

// CUfileIOParams_t
struct BatchEntry {
  int mode = 1;  // CUFILE_BATCH
  void* base = nullptr;
  off_t file_offset = 0;
  off_t base_offset = 0;
  std::size_t size = 0;
  FileHandle file = nullptr;
  int is_write = 0;  // CUFILE_READ, CUFILE_WRITE
  void* cookie = nullptr;
};
static_assert(sizeof(BatchEntry) == 64 && offsetof(BatchEntry, base) == 8 &&
              offsetof(BatchEntry, size) == 32 && offsetof(BatchEntry, file) == 40 &&
              offsetof(BatchEntry, cookie) == 56);
// CUfileIOEvents_t
struct BatchEvent {
  void* cookie = nullptr;
  int status = 0;
  std::size_t moved = 0;  // a negative error in disguise, when it failed
};
static_assert(sizeof(BatchEvent) == 24 && offsetof(BatchEvent, moved) == 16);
inline constexpr int kBatchComplete = 0x10;  // CUFILE_COMPLETE
struct BatchTag;
using BatchHandle = BatchTag*;  // CUfileBatchHandle_t

// CUstream, and what of an I/O in its order is known when it is given: the library reads the
// numbers behind the pointers then, and writes only how much was moved, when the stream has come
// there. A pointer and numbers of 8 bytes are all that passes; that sizes hold, is asserted here.
static_assert(sizeof(std::size_t) == 8 && sizeof(off_t) == 8 && sizeof(ssize_t) == 8);
using StreamHandle = void*;
// CU_FILE_STREAM_FIXED_BUF_OFFSET, ..._FIXED_FILE_OFFSET, ..._FIXED_FILE_SIZE
inline constexpr unsigned kNumbersAreFixed = 1U | 2U | 4U;

// CUfilePerGpuStats_t, CUfileStatsLevel3_t
struct GpuCounters {
  char uuid[16] = {};
  std::uint64_t read_bytes = 0, read_rate = 0, read_use = 0, read_time = 0;
  std::uint64_t reads = 0, p2p_reads = 0, nvfs_reads = 0, posix_reads = 0, unaligned_reads = 0;
  std::uint64_t dynamic_reads = 0, sparse_regions = 0, inline_regions = 0, failed_reads = 0;
  std::uint64_t write_bytes = 0, write_rate = 0, write_use = 0, write_time = 0;
  std::uint64_t writes = 0, p2p_writes = 0, nvfs_writes = 0, posix_writes = 0;
  std::uint64_t unaligned_writes = 0, dynamic_writes = 0, failed_writes = 0;
  std::uint64_t maps = 0, maps_ok = 0, maps_failed = 0, maps_freed = 0, registered_bytes = 0;
};
static_assert(sizeof(GpuCounters) == 248 && offsetof(GpuCounters, p2p_reads) == 56 &&
              offsetof(GpuCounters, p2p_writes) == 160);
inline constexpr std::size_t kMaxGpus = 16;
// What stands before the GPUs' grew under the same name, by the counters of readv and writev. A
// library of a version that is not known here might write more than any of these holds.
template <std::size_t N>
struct Counters {
  std::uint64_t basic[N] = {};
  std::uint64_t histograms[64] = {};
  std::uint32_t gpus = 0;
  GpuCounters gpu[kMaxGpus];
};
using CountersOf115 = Counters<64>;  // and of 1.16 to 1.18
using CountersOf119 = Counters<78>;  // and of 1.20
static_assert(sizeof(CountersOf115) == 5000 && offsetof(CountersOf115, gpu) == 1032);
static_assert(sizeof(CountersOf119) == 5112 && offsetof(CountersOf119, gpu) == 1144);
// As cuFileGetVersion says them: 1000 times the major number, and 10 times the minor one.
inline constexpr int kVersion115 = 1150;
inline constexpr int kVersion119 = 1190;
inline constexpr int kVersion121 = 1210;  // the first whose counters are not known
inline constexpr int kCountPerGpu = 3;    // the level that fills Counters

// X(member, symbol, result, parameters): what every libcufile has that we can use.
#define TOWPATH_CUFILE_FUNCTIONS(X)                                                              \
  X(driver_open, cuFileDriverOpen, Answer, ())                                                   \
  X(properties, cuFileDriverGetProperties, Answer, (Properties * properties))                    \
  X(register_file, cuFileHandleRegister, Answer, (FileHandle * handle, FileDescription * file))  \
  X(deregister_file, cuFileHandleDeregister, void, (FileHandle handle))                          \
  X(register_buffer, cuFileBufRegister, Answer, (const void* base, std::size_t size, int flags)) \
  X(deregister_buffer, cuFileBufDeregister, Answer, (const void* base))                          \
  X(read, cuFileRead, ssize_t,                                                                   \
    (FileHandle file, void* base, std::size_t size, off_t file_offset, off_t base_offset))       \
  X(write, cuFileWrite, ssize_t,                                                                 \
    (FileHandle file, const void* base, std::size_t size, off_t file_offset, off_t base_offset))

// What older ones lack. NVIDIA's header turns cuFileDriverClose into its second version.
#define TOWPATH_CUFILE_OPTIONAL_FUNCTIONS(X)                                                  \
  X(driver_close, cuFileDriverClose_v2, Answer, ())                                           \
  X(version, cuFileGetVersion, Answer, (int* version))                                        \
  X(set_switch, cuFileSetParameterBool, Answer, (Switch what, bool value))                    \
  X(batch_set_up, cuFileBatchIOSetUp, Answer, (BatchHandle * batch, unsigned entries))        \
  X(batch_submit, cuFileBatchIOSubmit, Answer,                                                \
    (BatchHandle batch, unsigned count, BatchEntry* entries, unsigned flags))                 \
  X(batch_status, cuFileBatchIOGetStatus, Answer,                                             \
    (BatchHandle batch, unsigned least, unsigned* count, BatchEvent* events, timespec* most)) \
  X(batch_cancel, cuFileBatchIOCancel, Answer, (BatchHandle batch))                           \
  X(batch_destroy, cuFileBatchIODestroy, void, (BatchHandle batch))                           \
  X(stream_register, cuFileStreamRegister, Answer, (StreamHandle stream, unsigned flags))     \
  X(stream_deregister, cuFileStreamDeregister, Answer, (StreamHandle stream))                 \
  X(stream_read, cuFileReadAsync, Answer,                                                     \
    (FileHandle file, void* base, std::size_t* size, off_t* file_offset, off_t* base_offset,  \
     ssize_t* moved, StreamHandle stream))                                                    \
  X(stream_write, cuFileWriteAsync, Answer,                                                   \
    (FileHandle file, void* base, std::size_t* size, off_t* file_offset, off_t* base_offset,  \
     ssize_t* moved, StreamHandle stream))                                                    \
  X(set_stats_level, cuFileSetStatsLevel, Answer, (int level))                                \
  X(start_stats, cuFileStatsStart, Answer, ())                                                \
  X(stats, cuFileGetStatsL3, Answer, (void* counters))

/// The functions, found in a library.
struct Functions {
#define TOWPATH_CUFILE_MEMBER(member, symbol, result, parameters) \
  result(*member) parameters = nullptr;
  TOWPATH_CUFILE_FUNCTIONS(TOWPATH_CUFILE_MEMBER)
  TOWPATH_CUFILE_OPTIONAL_FUNCTIONS(TOWPATH_CUFILE_MEMBER)
#undef TOWPATH_CUFILE_MEMBER
};

}  // namespace towpath::backends::gds::cufile
