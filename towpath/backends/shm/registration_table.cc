#include <array>
#include <atomic>

#include <towpath/backends/shm/registration_table.h>
#include <towpath/core/format.h>
#include <towpath/sys/memfd.h>

namespace towpath::backends::shm {
namespace {

constexpr std::uint64_t kWordsSize = RegistrationTable::kSlots * sizeof(std::uint32_t);
constexpr std::uint64_t kNumbers = 5;                            // of RegisteredBytes
constexpr std::uint64_t kReadOnlyBit = std::uint64_t{1} << 63U;  // of the length, which is less
constexpr std::uint64_t kSize =
    kWordsSize + RegistrationTable::kSlots * kNumbers * sizeof(std::uint64_t);

std::atomic_ref<std::uint32_t> word(const sys::Mapping& mapping, std::uint32_t index) {
  static_assert(std::atomic_ref<std::uint32_t>::is_always_lock_free, "shared between processes");
  return std::atomic_ref(reinterpret_cast<std::uint32_t*>(mapping.data())[index]);
}

std::atomic_ref<std::uint64_t> number_at(const sys::Mapping& mapping, std::uint32_t index,
                                         std::uint64_t which) {
  static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free, "shared between processes");
  auto* const all = reinterpret_cast<std::uint64_t*>(mapping.data() + kWordsSize);
  return std::atomic_ref(all[index * kNumbers + which]);
}

using Numbers = std::array<std::uint64_t, kNumbers>;

// Release pairs with the acquires in registered(): a peer that sees one of them sees that what was
// in the slot before does not stand.
void put_numbers(const sys::Mapping& mapping, std::uint32_t index, const RegisteredBytes& what) {
  const Numbers numbers{what.address, what.length | (what.is_read_only ? kReadOnlyBit : 0),
                        what.source[0], what.source[1], what.offset};
  for (std::uint64_t i = 0; i < kNumbers; ++i)
    number_at(mapping, index, i).store(numbers[i], std::memory_order_release);
}

}  // namespace

Result<RegistrationTable> RegistrationTable::create(const RegisteredBytes& backend) {
  TOWPATH_TRY(sys::Fd fd, sys::create_sealed_memfd(kName, kSize));
  TOWPATH_TRY(const FileRef file, file_ref(fd.get()));
  TOWPATH_TRY(sys::Mapping mapping,
              sys::Mapping::of_file({.fd = fd.get(), .size_bytes = kSize, .writable = true}));
  put_numbers(mapping, kBackend.index, backend);
  // Release pairs with the acquire in PeerRegistrationTable::stands, here and below.
  word(mapping, kBackend.index).store(kBackend.generation, std::memory_order_release);
  return RegistrationTable(std::move(fd), file, std::move(mapping));
}

RegistrationTable::~RegistrationTable() {
  if (!mapping_) return;
  for (std::uint32_t index = 0; index < unused_; ++index)
    word(mapping_, index).store(0, std::memory_order_release);
}

Result<Slot> RegistrationTable::take(const RegisteredBytes& what) {
  Slot slot;
  if (!free_.empty()) {
    slot.index = free_.back();
    free_.pop_back();
  } else if (unused_ < kSlots) {
    // So that give_back cannot fail; doubled, or each registration would move the list.
    if (free_.capacity() <= unused_) free_.reserve(2 * (std::size_t{unused_} + 1));
    slot.index = unused_++;
  } else {
    return error(Code::exhausted, cat(kSlots - 1, " regions are registered"),
                 "register larger regions, or deregister some");
  }
  put_numbers(mapping_, slot.index, what);
  if (++generation_ == 0) ++generation_;
  slot.generation = generation_;
  word(mapping_, slot.index).store(slot.generation, std::memory_order_release);
  return slot;
}

void RegistrationTable::revoke(Slot slot) noexcept {
  // Sequentially consistent, as the load in stands(): see the head of piece_table.h.
  word(mapping_, slot.index).store(0);
}

void RegistrationTable::give_back(Slot slot) noexcept {
  revoke(slot);
  free_.push_back(slot.index);
}

Result<PeerRegistrationTable> PeerRegistrationTable::map(int fd) {
  TOWPATH_TRY(sys::check_sealed(fd, kSize));
  TOWPATH_TRY(sys::Mapping mapping,
              sys::Mapping::of_file(
                  {.fd = fd, .size_bytes = kSize, .writable = false, .inherited = false}));
  return PeerRegistrationTable(std::move(mapping));
}

bool PeerRegistrationTable::stands(Slot slot) const noexcept {
  if (slot.index >= RegistrationTable::kSlots || slot.generation == 0) return false;
  // Sequentially consistent, as the store in revoke(). Acquire pairs with the releases of the
  // owner: what it did before is seen.
  return word(mapping_, slot.index).load() == slot.generation;
}

RegisteredBytes PeerRegistrationTable::registered(Slot slot) const noexcept {
  // Else these may be the numbers of what the slot had before. Acquire, in stands(), pairs with the
  // release in take(): its numbers are seen, or later ones.
  if (!stands(slot)) return {};
  Numbers numbers{};
  for (std::uint64_t i = 0; i < kNumbers; ++i)
    numbers[i] = number_at(mapping_, slot.index, i).load(std::memory_order_acquire);
  return {.address = numbers[0],
          .length = numbers[1] & ~kReadOnlyBit,
          .source = {numbers[2], numbers[3]},
          .offset = numbers[4],
          .is_read_only = (numbers[1] & kReadOnlyBit) != 0};
}

}  // namespace towpath::backends::shm
