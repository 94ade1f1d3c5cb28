#include <algorithm>
#include <cstring>

#include <towpath/core/format.h>
#include <towpath/telemetry/flight_format.h>
#include <towpath/telemetry/flight_log.h>

namespace towpath::telemetry {
namespace {

// Host byte order, as the recorder writes: the magic proves it.
std::uint64_t word_at(ConstByteSpan copy, std::size_t index) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, copy.data() + index * sizeof word, sizeof word);
  return word;
}

Status check_header(ConstByteSpan copy) {
  if (copy.size() < FlightRecorder::bytes_for(1) ||
      word_at(copy, flight::kMagicWord) != flight::kMagic)
    return error(Code::corrupt, cat("no flight recorder in these ", copy.size(), " bytes"),
                 "pass a file that a Towpath process wrote, whole");
  const std::uint64_t version = word_at(copy, flight::kVersionWord);
  if (version != flight::kVersion)
    return error(
        Code::unsupported,
        cat("flight recorder of version ", version, "; this reads version ", flight::kVersion),
        "read it with the release of Towpath that wrote it");
  const std::uint64_t capacity = word_at(copy, flight::kCapacityWord);
  const std::uint64_t room =
      (copy.size() - FlightRecorder::kHeaderBytes) / FlightRecorder::kSlotBytes;
  if (capacity == 0 || capacity > room ||
      word_at(copy, flight::kNamesWord) != FlightRecorder::kNames)
    return error(
        Code::corrupt,
        cat("flight recorder claims ", capacity, " records and ", word_at(copy, flight::kNamesWord),
            " names; ", room, " and ", FlightRecorder::kNames, " fit into ", copy.size(), " bytes"),
        "the file was cut off or damaged: look for a whole one");
  return {};
}

std::vector<std::string> names_in(ConstByteSpan copy) {
  const std::uint64_t used =
      std::min<std::uint64_t>(word_at(copy, flight::kNamesUsedWord), FlightRecorder::kNames);
  std::vector<std::string> names(used);
  for (std::size_t i = 0; i < used; ++i) {
    const ConstByteSpan place = copy.subspan(flight::kNamesOffset + i * 64, 64);
    const std::uint64_t length =
        std::min<std::uint64_t>(word_at(place, 0), FlightRecorder::kMaxNameBytes);
    names[i].assign(reinterpret_cast<const char*>(place.data()) + 8, length);
  }
  return names;
}

void read_records(ConstByteSpan slots, FlightLog& log) {
  for (std::uint64_t index = 0; index < log.capacity; ++index) {
    flight::Words words;
    std::memcpy(words.data(), slots.data() + index * FlightRecorder::kSlotBytes, sizeof words);
    if (words == flight::Words{}) continue;  // never used
    const auto record = flight::believe(words);
    if (record && record->ticket % log.capacity == index)
      log.records.push_back(*record);
    else
      ++log.torn;
  }
  std::ranges::sort(log.records, {}, &FlightRecord::ticket);
}

}  // namespace

std::string_view FlightLog::name(std::uint64_t number) const noexcept {
  if (number == 0 || number > names.size()) return {};
  return names[number - 1];
}

Duration FlightLog::since_epoch(Instant at) const noexcept {
  // Through unsigned numbers: what stands in a damaged header may not overflow.
  return Duration(
      static_cast<std::int64_t>(static_cast<std::uint64_t>(started_since_epoch.count()) +
                                static_cast<std::uint64_t>(at.nanoseconds) -
                                static_cast<std::uint64_t>(started.nanoseconds)));
}

Result<FlightLog> read_flight(ConstByteSpan copy) {
  TOWPATH_TRY(check_header(copy));
  FlightLog log{.process = word_at(copy, flight::kProcessWord),
                .started = {static_cast<std::int64_t>(word_at(copy, flight::kStartedWord))},
                .started_since_epoch =
                    Duration(static_cast<std::int64_t>(word_at(copy, flight::kStartedEpochWord))),
                .capacity = word_at(copy, flight::kCapacityWord),
                .recorded = word_at(copy, flight::kNextWord),
                .dropped = word_at(copy, flight::kDroppedWord),
                .names = names_in(copy)};
  read_records(copy.subspan(FlightRecorder::kHeaderBytes), log);
  return log;
}

}  // namespace towpath::telemetry
