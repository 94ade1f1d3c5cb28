#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include <towpath/core/format.h>
#include <towpath/telemetry/flight_format.h>
#include <towpath/telemetry/flight_recorder.h>

namespace towpath::telemetry {

using flight::is_whole;
using flight::writing;

namespace {

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8, "needed between processes");

Result<std::size_t> records_in(ByteSpan memory) {
  if (address_of(memory.data()) % FlightRecorder::kSlotBytes != 0)
    return error(Code::invalid_argument,
                 cat("flight recorder memory at ", hex(address_of(memory.data())),
                     " is not aligned to 64 bytes"),
                 "pass memory from a page or an aligned allocation");
  if (memory.size() < FlightRecorder::bytes_for(1))
    return error(Code::invalid_argument, cat(memory.size(), " bytes hold no flight record"),
                 cat("pass at least ", FlightRecorder::bytes_for(1), " bytes"));
  return (memory.size() - FlightRecorder::kHeaderBytes) / FlightRecorder::kSlotBytes;
}

}  // namespace

struct alignas(64) FlightRecorder::Header {
  std::array<Word, 16> words;

  Word& operator[](std::size_t word) noexcept { return words[word]; }
};

/// The length is stored last: a name without one is not there yet.
struct alignas(64) FlightRecorder::Name {
  Word length;
  std::array<Word, kMaxNameBytes / 8> text;
};

struct alignas(64) FlightRecorder::Slot {
  std::array<Word, 8> words;

  std::optional<FlightRecord> read() const noexcept;
};

FlightRecorder::FlightRecorder(Header* header, std::size_t capacity, const Clock& clock) noexcept
    : header_(header),
      names_(reinterpret_cast<Name*>(header + 1)),
      slots_(reinterpret_cast<Slot*>(names_ + kNames)),
      capacity_(capacity),
      clock_(&clock) {
  static_assert(sizeof(Header) == flight::kNamesOffset && sizeof(Slot) == kSlotBytes);
  static_assert(sizeof(Header) + kNames * sizeof(Name) == kHeaderBytes);
}

Result<FlightRecorder> FlightRecorder::format(ByteSpan memory, const Clock& clock,
                                              const FlightOwner& owner) {
  TOWPATH_TRY(const std::size_t capacity, records_in(memory));
  const FlightRecorder made(new (memory.data()) Header{}, capacity, clock);
  for (std::size_t index = 0; index < kNames; ++index) new (made.names_ + index) Name{};
  for (std::size_t index = 0; index < capacity; ++index) new (made.slots_ + index) Slot{};
  Header& header = *made.header_;
  const auto set = [&](std::size_t word, std::uint64_t value) {
    header[word].store(value, std::memory_order_relaxed);
  };
  set(flight::kVersionWord, flight::kVersion);
  set(flight::kCapacityWord, capacity);
  set(flight::kNamesWord, kNames);
  set(flight::kProcessWord, owner.process);
  set(flight::kStartedWord, static_cast<std::uint64_t>(clock.now().nanoseconds));
  set(flight::kStartedEpochWord, static_cast<std::uint64_t>(clock.since_epoch().count()));
  set(flight::kMarkedWord, owner.marked ? 1 : 0);
  // Release: pairs with the acquire in attach(), which then sees an empty ring behind the magic.
  header[flight::kMagicWord].store(flight::kMagic, std::memory_order_release);
  return made;
}

Result<FlightRecorder> FlightRecorder::attach(ByteSpan memory, const Clock& clock) {
  TOWPATH_TRY(const std::size_t room, records_in(memory));
  Header& header = *reinterpret_cast<Header*>(memory.data());
  // Acquire: pairs with the release in format().
  const std::uint64_t magic = header[flight::kMagicWord].load(std::memory_order_acquire);
  const std::uint64_t version = header[flight::kVersionWord].load(std::memory_order_relaxed);
  const std::uint64_t capacity = header[flight::kCapacityWord].load(std::memory_order_relaxed);
  if (magic != flight::kMagic)
    return error(Code::corrupt, cat("no flight recorder here: it begins with ", hex(magic)),
                 "format() the memory first");
  if (version != flight::kVersion)
    return error(
        Code::unsupported,
        cat("flight recorder of version ", version, "; this is version ", flight::kVersion),
        "use the same release of Towpath on both sides");
  if (capacity == 0 || capacity > room)
    return error(Code::corrupt,
                 cat("flight recorder claims ", capacity, " records; ", room, " fit into ",
                     memory.size(), " bytes"),
                 "map the whole ring");
  return FlightRecorder(&header, static_cast<std::size_t>(capacity), clock);
}

std::uint64_t FlightRecorder::record(std::uint32_t what, const FlightRecord::Args& args,
                                     std::uint32_t who) noexcept {
  return record_at({.at = clock_->now(), .what = what, .who = who, .args = args});
}

std::uint64_t FlightRecorder::record_at(const FlightRecord& entry) noexcept {
  // Relaxed, without a partner: the ticket only picks the slot; the slot's sequence orders.
  const std::uint64_t ticket =
      (*header_)[flight::kNextWord].fetch_add(1, std::memory_order_relaxed);
  Slot& slot = slots_[ticket % capacity_];
  Word& sequence = slot.words[0];
  // Acquire: pairs with the last writer's release of a whole record, so two never mix.
  std::uint64_t seen = sequence.load(std::memory_order_relaxed);
  const bool free = (seen == 0 || is_whole(seen)) && seen < writing(ticket);
  if (!free || !sequence.compare_exchange_strong(seen, writing(ticket), std::memory_order_acquire,
                                                 std::memory_order_relaxed)) {
    (*header_)[flight::kDroppedWord].fetch_add(1, std::memory_order_relaxed);
    return ticket;
  }
  const flight::Words words = flight::words_of(ticket, entry);
  // Release on every word: pairs with the acquires in Slot::read(). A reader that sees one of these
  // words then also sees that the sequence has moved on, and disbelieves the record.
  for (std::size_t i = 1; i < words.size(); ++i)
    slot.words[i].store(words[i], std::memory_order_release);
  // Release: pairs with the first acquire in Slot::read() and the claim of the next round.
  sequence.store(words[0], std::memory_order_release);
  return ticket;
}

std::uint32_t FlightRecorder::add_name(std::string_view name) noexcept {
  // Relaxed, without a partner: it only picks the place; the length publishes.
  const std::uint64_t index =
      (*header_)[flight::kNamesUsedWord].fetch_add(1, std::memory_order_relaxed);
  if (index >= kNames) return 0;
  const std::string_view kept = name.substr(0, kMaxNameBytes);
  std::array<std::uint64_t, kMaxNameBytes / 8> text{};
  std::memcpy(text.data(), kept.data(), kept.size());
  Name& place = names_[index];
  for (std::size_t i = 0; i < text.size(); ++i)
    place.text[i].store(text[i], std::memory_order_relaxed);
  // Release: whoever reads the length from shared memory sees the text. Readers of a copy of the
  // memory need no partner.
  place.length.store(kept.size(), std::memory_order_release);
  return static_cast<std::uint32_t>(index + 1);
}

std::optional<FlightRecord> FlightRecorder::Slot::read() const noexcept {
  flight::Words now;
  // Acquire, in order: the first pairs with the release of the whole record, the others with the
  // releases in record_at().
  for (std::size_t i = 0; i < now.size(); ++i) now[i] = words[i].load(std::memory_order_acquire);
  // Relaxed: the acquires above keep this load behind them.
  if (words[0].load(std::memory_order_relaxed) != now[0]) return std::nullopt;
  return flight::believe(now);
}

std::vector<FlightRecord> FlightRecorder::dump() const {
  std::vector<FlightRecord> records;
  records.reserve(capacity_);
  for (std::size_t index = 0; index < capacity_; ++index) {
    if (auto record = slots_[index].read()) records.push_back(*record);
  }
  std::ranges::sort(records, {}, &FlightRecord::ticket);
  return records;
}

std::uint64_t FlightRecorder::dropped() const noexcept {
  return (*header_)[flight::kDroppedWord].load(std::memory_order_relaxed);
}

}  // namespace towpath::telemetry
