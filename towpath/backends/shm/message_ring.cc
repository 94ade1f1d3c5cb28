#include <algorithm>
#include <cstring>

#include <towpath/backends/shm/message_ring.h>
#include <towpath/backends/shm/peer_file.h>
#include <towpath/core/format.h>
#include <towpath/sys/memfd.h>

namespace towpath::backends::shm {

using RingWord = std::atomic<std::uint64_t>;
static_assert(RingWord::is_always_lock_free && sizeof(RingWord) == 8, "shared between processes");

struct RingWords {
  alignas(64) RingWord attached;  ///< written by the receiver, as the next two
  RingWord asleep;                ///< and by the sender, when it rings
  alignas(64) RingWord head;
  alignas(64) RingWord tail;  ///< written by the sender
};
static_assert(sizeof(RingWords) == 192, "docs/formats/shm.md");

namespace {

constexpr std::uint64_t kRingSize = sizeof(RingWords) + kRingBytes;
constexpr std::uint64_t kRecordHeader = sizeof(RingReceiver::Record);
static_assert(kRecordHeader == 8 && kRingBytes % 8 == 0, "docs/formats/shm.md");

std::uint64_t room_of(std::uint64_t length) { return kRecordHeader + (length + 7) / 8 * 8; }

std::byte* bytes_of(const sys::Mapping& mapping) { return mapping.data() + sizeof(RingWords); }

/// What lies behind the end lies at the begin.
void copy_in(const sys::Mapping& ring, std::uint64_t at, ConstByteSpan from) {
  if (from.empty()) return;  // it may have no address, which memcpy() does not take
  const std::uint64_t begin = at % kRingBytes;
  const std::uint64_t first = std::min<std::uint64_t>(from.size(), kRingBytes - begin);
  std::memcpy(bytes_of(ring) + begin, from.data(), first);
  if (first < from.size()) std::memcpy(bytes_of(ring), from.data() + first, from.size() - first);
}
void copy_out(const sys::Mapping& ring, std::uint64_t at, ByteSpan into) {
  if (into.empty()) return;
  const std::uint64_t begin = at % kRingBytes;
  const std::uint64_t first = std::min<std::uint64_t>(into.size(), kRingBytes - begin);
  std::memcpy(into.data(), bytes_of(ring) + begin, first);
  if (first < into.size()) std::memcpy(into.data() + first, bytes_of(ring), into.size() - first);
}

}  // namespace

// ---- The sender

Result<RingSender> RingSender::create() {
  TOWPATH_TRY(sys::Fd fd, sys::create_sealed_memfd("towpath-shm-ring", kRingSize));
  TOWPATH_TRY(const FileRef file, file_ref(fd.get()));
  TOWPATH_TRY(sys::Mapping mapping,
              sys::Mapping::of_file({.fd = fd.get(), .size_bytes = kRingSize, .inherited = false}));
  return RingSender(std::move(fd), file, std::move(mapping));
}

RingWords& RingSender::words() const noexcept {
  return *reinterpret_cast<RingWords*>(mapping_.data());
}

bool RingSender::is_attached() noexcept {
  // Acquire: pairs with the release in attach(), after which nobody opens the file any more.
  if (is_attached_ || words().attached.load(std::memory_order_acquire) == 0) return is_attached_;
  fd_.reset();
  return is_attached_ = true;
}

bool RingSender::push(ConstByteSpan message, std::uint32_t after) noexcept {
  const std::uint64_t room = room_of(message.size());
  if (message.size() > kMaxRingMessage) return false;
  if (room > kRingBytes - (tail_ - known_head_)) {
    // Acquire: pairs with the release in pop(): what was read may be written over.
    const std::uint64_t head = words().head.load(std::memory_order_acquire);
    const std::uint64_t used = tail_ - head;
    if (used > kRingBytes || room > kRingBytes - used) return false;
    known_head_ = head;
  }
  const RingReceiver::Record record{.length = static_cast<std::uint32_t>(message.size()),
                                    .after = after};
  copy_in(mapping_, tail_, std::as_bytes(std::span(&record, 1)));
  copy_in(mapping_, tail_ + kRecordHeader, message);
  tail_ += room;
  Doorbell::publish(words().tail, tail_);  // hence release: pairs with the acquires of the tail
  return true;
}

bool RingSender::must_ring() noexcept { return Doorbell::must_ring(words().asleep); }

// ---- The receiver

Result<RingReceiver> RingReceiver::attach(pid_t pid, const FileRef& file) {
  TOWPATH_TRY(const sys::Fd fd, open_peer_file({.pid = pid, .file = file, .writable = true}));
  TOWPATH_TRY(sys::check_sealed(fd.get(), kRingSize));
  TOWPATH_TRY(sys::Mapping mapping,
              sys::Mapping::of_file({.fd = fd.get(), .size_bytes = kRingSize, .inherited = false}));
  RingReceiver receiver(std::move(mapping));
  receiver.words().attached.store(1, std::memory_order_release);  // pairs with is_attached()
  return receiver;
}

RingWords& RingReceiver::words() const noexcept {
  return *reinterpret_cast<RingWords*>(mapping_.data());
}

Result<std::optional<RingReceiver::Record>> RingReceiver::peek() {
  seen_tail_ = words().tail.load(std::memory_order_acquire);  // pairs with publish()
  const std::uint64_t there = seen_tail_ - head_;
  if (there == 0) return std::optional<Record>();
  Record record{};
  if (there > kRingBytes || there < kRecordHeader)
    return error(Code::corrupt, cat("a ring of ", kRingBytes, " bytes with ", there, " in it"));
  copy_out(mapping_, head_, std::as_writable_bytes(std::span(&record, 1)));
  if (record.length > kMaxRingMessage || room_of(record.length) > there)
    return error(Code::corrupt,
                 cat("a record of ", record.length, " bytes, where ", there, " are"));
  return std::optional(record);
}

void RingReceiver::copy(const Record& record, ByteSpan into) const noexcept {
  copy_out(mapping_, head_ + kRecordHeader, into.first(record.length));
}

void RingReceiver::pop(const Record& record) noexcept {
  head_ += room_of(record.length);
  words().head.store(head_, std::memory_order_release);  // pairs with the acquire in push()
}

bool RingReceiver::has_news() const noexcept {
  return words().tail.load(std::memory_order_acquire) != seen_tail_;
}

bool RingReceiver::announce_sleep() noexcept {
  return Doorbell::announce_sleep(words().asleep, words().tail, seen_tail_);
}

}  // namespace towpath::backends::shm
