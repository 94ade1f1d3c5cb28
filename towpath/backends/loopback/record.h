// Record: a registration that agents of one process share, so that none touches freed memory.
//
// The owner makes it and closes it; whoever imported it enters before it touches the bytes and
// leaves afterwards, once per slice. close() waits for those who are inside: a slice, some tens of
// microseconds.
//
//   state_:  [ closed | 31 bits: how many are inside ]
//
// Invariant: after close() returned, nobody is inside and nobody gets in.
// Thread: any. Never close a record from inside it.
#pragma once

#include <atomic>
#include <cstdint>

#include <towpath/backend/memory_table.h>

namespace towpath::backends::loopback {

class Record : public backend::RegisteredRegion {
 public:
  using RegisteredRegion::RegisteredRegion;

  /// False: it was taken back; do not leave() then.
  bool enter() noexcept;
  void leave() noexcept;
  /// Idempotent.
  void close() noexcept;

  /// Inside for a scope, if it could be entered.
  class Use {
   public:
    explicit Use(Record& record) noexcept : record_(record.enter() ? &record : nullptr) {}
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (record_ != nullptr) record_->leave();
    }
    explicit operator bool() const noexcept { return record_ != nullptr; }

   private:
    Record* record_;
  };

 private:
  static constexpr std::uint32_t kClosed = 1u << 31;

  std::atomic<std::uint32_t> state_{0};
};

}  // namespace towpath::backends::loopback
