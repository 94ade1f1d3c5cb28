// What NVSHMEM's host library looks like from outside: structures and functions that are opened at
// run time, written from facts and asserted. Private to this folder. Thread: immutable.
//
// Only what the library really exports: nvshmem_init, nvshmem_finalize and the like are functions
// of its header since version 3. Two functions with `hostlib` in their names do the work.
#pragma once

#include <cstddef>
#include <cstdint>

namespace towpath::shmem::nvshmem {

/// A structure says its size and version in one number.
constexpr int versioned(int version, std::size_t size) {
  return version * 65'536 + static_cast<int>(size);
}

struct UidArgs {
  int version = 0;
  const void* id = nullptr;  // borrowed until the initialisation is over
  int rank = 0;
  int ranks = 0;
};
struct InitArgs {
  int version = 0;
  UidArgs uid;
  int device = -1;
  char reserved[92] = {};
};
struct InitAttributes {
  int version = 0;
  void* mpi_comm = nullptr;
  InitArgs args;
};
static_assert(sizeof(UidArgs) == 24 && sizeof(InitArgs) == 128 && sizeof(InitAttributes) == 144);
static_assert(offsetof(InitAttributes, args) == 16 && offsetof(InitArgs, uid) == 8);

inline constexpr unsigned kInitWithUniqueId = 8;
inline constexpr int kUidArgsVersion = versioned(1, sizeof(UidArgs));
inline constexpr int kInitArgsVersion = versioned(2, sizeof(InitArgs));
inline constexpr int kInitAttributesVersion = versioned(2, sizeof(InitAttributes));

/// Of nvshmemx_init_status(): usable from here on. Less is "only bootstrapped", after success.
inline constexpr int kUsable = 2;
inline constexpr int kMajor = 3;

struct Functions {
  int (*init)(unsigned flags, InitAttributes* attributes) = nullptr;
  void (*finalize)() = nullptr;
  int (*status)() = nullptr;
  int (*get_id)(void* id) = nullptr;
  void (*version)(int* major, int* minor, int* patch) = nullptr;
  int (*my_pe)() = nullptr;
  int (*n_pes)() = nullptr;
  void* (*allocate)(std::size_t size) = nullptr;
  void (*free)(void* at) = nullptr;
  void (*put)(void* to, const void* from, std::size_t bytes, int pe) = nullptr;
  void (*get)(void* to, const void* from, std::size_t bytes, int pe) = nullptr;
  void (*quiet)() = nullptr;
  void (*fence)() = nullptr;
  void (*barrier)() = nullptr;
  void (*sync)() = nullptr;
  int (*split)(std::int32_t parent, int start, int stride, int size, const void* config, long mask,
               std::int32_t* made) = nullptr;
  void (*destroy)(std::int32_t team) = nullptr;
  int (*team_my_pe)(std::int32_t team) = nullptr;
  int (*team_n_pes)(std::int32_t team) = nullptr;
  int (*translate)(std::int32_t team, int pe, std::int32_t other) = nullptr;
  // What follows may be missing.
  void* (*pointer)(const void* at, int pe) = nullptr;
  void (*put_on_stream)(void* to, const void* from, std::size_t bytes, int pe,
                        void* stream) = nullptr;
  void (*get_on_stream)(void* to, const void* from, std::size_t bytes, int pe,
                        void* stream) = nullptr;
  void (*barrier_on_stream)(void* stream) = nullptr;
};

}  // namespace towpath::shmem::nvshmem
