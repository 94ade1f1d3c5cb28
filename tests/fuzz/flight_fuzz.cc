// A copy of a flight recorder: what is believed fits into what is there. The header is put in
// front, so that the fuzzer gets behind it; bytes as they are come too.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <towpath/telemetry/flight_format.h>
#include <towpath/telemetry/flight_log.h>
#include <towpath/telemetry/flight_recorder.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using towpath::telemetry::FlightFlow;
using towpath::telemetry::FlightRecorder;
namespace flight = towpath::telemetry::flight;

void look_at(towpath::ConstByteSpan copy) {
  const auto log = towpath::telemetry::read_flight(copy);
  if (!log.ok()) return;
  must(log->records.size() + log->torn <= copy.size() / FlightRecorder::kSlotBytes);
  for (const auto& record : log->records) {
    must(log->name(record.who).size() <= FlightRecorder::kMaxNameBytes);
    (void)log->since_epoch(record.at);
    (void)name_of(FlightFlow::unpacked(record.args[3]).outcome);
  }
}

// The input fills slots and the first names; every second slot gets the check that it needs.
void look_behind_the_header(towpath::ConstByteSpan input) {
  constexpr std::size_t kRecords = 8;
  towpath::Bytes copy(FlightRecorder::bytes_for(kRecords));
  const std::uint64_t header[] = {flight::kMagic, flight::kVersion, kRecords,
                                  FlightRecorder::kNames};
  std::memcpy(copy.data(), header, sizeof header);
  const auto lay = [&](std::size_t offset, std::size_t room) {
    const std::size_t size = input.size() < room ? input.size() : room;
    if (size > 0) std::memcpy(copy.data() + offset, input.data(), size);
    input = input.subspan(size);
  };
  lay(FlightRecorder::kHeaderBytes, kRecords * FlightRecorder::kSlotBytes);
  lay(sizeof header, FlightRecorder::kHeaderBytes - sizeof header);
  for (std::size_t slot = 0; slot < kRecords; slot += 2) {
    std::byte* const place = copy.data() + FlightRecorder::bytes_for(slot);
    flight::Words words;
    std::memcpy(words.data(), place, sizeof words);
    words.back() = flight::check_of(words);
    std::memcpy(place, words.data(), sizeof words);
  }
  look_at(copy);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const towpath::ConstByteSpan input(reinterpret_cast<const std::byte*>(data), size);
  look_at(input);
  look_behind_the_header(input);
  return 0;
}
