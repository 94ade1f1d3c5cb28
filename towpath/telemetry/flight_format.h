// The bytes of a flight recorder, as both its writer and its readers know them. Private to them;
// docs/formats/flight.md draws it. Thread: immutable.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <towpath/telemetry/flight_recorder.h>

namespace towpath::telemetry::flight {

inline constexpr std::uint64_t kMagic = 0x5448474c46505754;  // "TWPFLGHT" as little-endian bytes
inline constexpr std::uint64_t kVersion = 2;

/// Words of the header; the first eight never change, the others are counters.
inline constexpr std::size_t kMagicWord = 0;
inline constexpr std::size_t kVersionWord = 1;
inline constexpr std::size_t kCapacityWord = 2;
inline constexpr std::size_t kNamesWord = 3;
inline constexpr std::size_t kProcessWord = 4;
inline constexpr std::size_t kStartedWord = 5;
inline constexpr std::size_t kStartedEpochWord = 6;
inline constexpr std::size_t kMarkedWord = 7;
inline constexpr std::size_t kNextWord = 8;
inline constexpr std::size_t kDroppedWord = 9;
inline constexpr std::size_t kNamesUsedWord = 10;
inline constexpr std::size_t kNamesOffset = 128;

/// A slot's words: sequence, at, what and who, four arguments, check.
using Words = std::array<std::uint64_t, 8>;

constexpr std::uint64_t writing(std::uint64_t ticket) { return 2 * ticket + 1; }
constexpr std::uint64_t whole(std::uint64_t ticket) { return 2 * ticket + 2; }
constexpr bool is_whole(std::uint64_t sequence) { return sequence != 0 && sequence % 2 == 0; }

/// Over the first seven words. Not against malice: against a record that is half of one and half of
/// another, in a copy that was taken while it was written, or on a disk.
constexpr std::uint64_t check_of(const Words& words) noexcept {
  std::uint64_t check = kMagic;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    check = (check ^ words[i]) * 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio: odd, well mixed
    check ^= check >> 29U;
  }
  return check;
}

/// The words of a whole record with this ticket.
constexpr Words words_of(std::uint64_t ticket, const FlightRecord& entry) noexcept {
  Words words{whole(ticket), static_cast<std::uint64_t>(entry.at.nanoseconds),
              entry.what | (static_cast<std::uint64_t>(entry.who) << 32U)};
  for (std::size_t i = 0; i < entry.args.size(); ++i) words[3 + i] = entry.args[i];
  words.back() = check_of(words);
  return words;
}

/// The record that these words say, unless they are not whole.
constexpr std::optional<FlightRecord> believe(const Words& words) noexcept {
  if (!is_whole(words[0]) || words.back() != check_of(words)) return std::nullopt;
  FlightRecord record{.ticket = words[0] / 2 - 1,
                      .at = {static_cast<std::int64_t>(words[1])},
                      .what = static_cast<std::uint32_t>(words[2]),
                      .who = static_cast<std::uint32_t>(words[2] >> 32U)};
  for (std::size_t i = 0; i < record.args.size(); ++i) record.args[i] = words[3 + i];
  return record;
}

}  // namespace towpath::telemetry::flight
