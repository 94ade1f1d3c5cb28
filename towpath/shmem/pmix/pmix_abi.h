// What PMIx's client library looks like from outside (the standard's version 4): structures and
// functions that are opened at run time, written from facts and asserted. Private to this folder.
// Thread: immutable.
#pragma once

#include <cstddef>
#include <cstdint>

namespace towpath::shmem::pmix {

struct Process {
  char job[256] = {};
  std::uint32_t rank = 0;
};
static_assert(sizeof(Process) == 260);
inline constexpr std::uint32_t kAnyRank = UINT32_MAX - 1;  // of what is the job's

struct Value {
  std::uint16_t type = 0;
  union Data {
    bool flag;
    std::uint32_t number;
    struct {
      char* bytes;
      std::size_t size;
    } object;
    std::byte room[24];
  } data = {.room = {}};
};
static_assert(sizeof(Value) == 32 && offsetof(Value, data) == 8);
inline constexpr std::uint16_t kBool = 1, kUint32 = 14, kByteObject = 27;

struct Info {
  char key[512] = {};
  std::uint32_t flags = 0;
  Value value;
};
static_assert(sizeof(Info) == 552 && offsetof(Info, value) == 520);

inline constexpr std::uint8_t kGlobal = 3;  // who may get a value: everybody

/// 0 is success.
struct Functions {
  int (*init)(Process* self, Info* infos, std::size_t count) = nullptr;
  int (*finalize)(const Info* infos, std::size_t count) = nullptr;
  int (*put)(std::uint8_t scope, const char* key, Value* value) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const Process* who, std::size_t count, const Info* infos,
               std::size_t info_count) = nullptr;
  int (*get)(const Process* whose, const char* key, const Info* infos, std::size_t count,
             Value** value) = nullptr;
  void (*forget)(Value* value) = nullptr;  // what it points to
  const char* (*words_for)(int status) = nullptr;
};

}  // namespace towpath::shmem::pmix
