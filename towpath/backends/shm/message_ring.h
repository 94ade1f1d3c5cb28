// RingSender, RingReceiver: small messages from one sender to one receiver through shared memory,
// without the kernel while the receiver is awake.
//
// The ring is a sealed memfd of the sender, named in its hello; a receiver that maps it says so
// (attached), and from then on the sender may use it beside their socket. Each record has the
// number of messages that the socket carried before it, so the two together keep one order.
//
//   header, in lines of 64 bytes:  | attached u64, asleep u64 | head u64 | tail u64 |  then bytes
//   record, at a multiple of 8:    | length u32 | after u32 | message ... | to a multiple of 8 |
//
// Sleeping and waking (Doorbell): the receiver announces that it sleeps and looks at the tail once
// more; the sender moves the tail and looks whether the receiver sleeps. One of the two sees the
// other, and only then the sender pays a system call.
//
// Both sides hold the other for hostile: a receiver copies what it reads once and believes no
// number that leaves the ring; a sender takes a head that cannot be for a full ring. Thread: loop,
// each side. docs/formats/shm.md
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include <sys/types.h>

#include <towpath/backends/shm/host_facts.h>
#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::shm {

inline constexpr std::uint64_t kRingBytes = 16 * 1024;
inline constexpr std::uint64_t kMaxRingMessage = 2 * 1024;  ///< longer ones go by the socket

/// The protocol of sleeping and waking. `Word` is a std::atomic, or a test's word whose operations
/// are steps. The four accesses are sequentially consistent: each side writes its own word, then
/// reads the other's, and one of the two sees the other. (No fences: ThreadSanitizer knows none.)
struct Doorbell {
  /// The receiver may sleep: what comes from now on rings. False: something has come, `tail` is not
  /// as it was `seen`.
  template <typename Word, typename Tail>
  static bool announce_sleep(Word& asleep, const Word& tail, Tail seen) {
    asleep.store(1, std::memory_order_seq_cst);
    return tail.load(std::memory_order_seq_cst) == seen;
  }
  /// The sender moves the tail, and asks then.
  template <typename Word, typename Tail>
  static void publish(Word& tail, Tail value) {
    tail.store(value, std::memory_order_seq_cst);
  }
  /// Whether to ring: true once for each announcement.
  template <typename Word>
  static bool must_ring(Word& asleep) {
    return asleep.load(std::memory_order_seq_cst) != 0 && asleep.exchange(0) != 0;
  }
};

struct RingWords;

class RingSender {
 public:
  /// Errors: exhausted (no descriptor is free, no memory), unsupported.
  static Result<RingSender> create();

  /// For the hello; the descriptor stays open until the receiver has attached.
  FileRef file() const noexcept { return file_; }
  /// Whether the receiver has mapped it.
  bool is_attached() noexcept;
  /// False: the message is too long for it, or there is no room. `after`: how many went by the
  /// socket before.
  bool push(ConstByteSpan message, std::uint32_t after) noexcept;
  /// After a push(): whether the receiver sleeps and must be woken.
  bool must_ring() noexcept;

 private:
  RingSender(sys::Fd fd, FileRef file, sys::Mapping mapping) noexcept
      : fd_(std::move(fd)), file_(file), mapping_(std::move(mapping)) {}
  RingWords& words() const noexcept;

  sys::Fd fd_;
  FileRef file_;
  sys::Mapping mapping_;
  bool is_attached_ = false;
  std::uint64_t tail_ = 0;
  std::uint64_t known_head_ = 0;
};

class RingReceiver {
 public:
  /// `file` is hostile, of process `pid`. Errors: those of open_peer_file(), out_of_range (too
  /// small).
  static Result<RingReceiver> attach(pid_t pid, const FileRef& file);

  struct Record {
    std::uint32_t length = 0;
    std::uint32_t after = 0;
  };
  /// The next record; nothing: there is none. Errors: corrupt.
  Result<std::optional<Record>> peek();
  /// Copies the message of what peek() gave, whose bytes `into` has room for.
  void copy(const Record& record, ByteSpan into) const noexcept;
  /// Gives the room of what peek() gave back.
  void pop(const Record& record) noexcept;

  /// Whether the last peek() found nothing at all, not even what has to wait for its turn.
  bool is_dry() const noexcept { return seen_tail_ == head_; }
  /// Whether something came since the last peek().
  bool has_news() const noexcept;
  /// From now on the sender rings. False: something has come since the last peek().
  bool announce_sleep() noexcept;

 private:
  explicit RingReceiver(sys::Mapping mapping) noexcept : mapping_(std::move(mapping)) {}
  RingWords& words() const noexcept;

  sys::Mapping mapping_;
  std::uint64_t head_ = 0;
  std::uint64_t seen_tail_ = 0;
};

}  // namespace towpath::backends::shm
