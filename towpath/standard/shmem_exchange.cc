#include <algorithm>
#include <optional>

#include <towpath/core/text.h>
#include <towpath/rendezvous/fetch_until.h>
#include <towpath/rendezvous/meeting_point.h>
#include <towpath/run/poller.h>
#include <towpath/standard/shmem_exchange.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/text_file.h>
#include <towpath/wire/little_endian.h>

namespace towpath::standard {
namespace {

using rendezvous::CardName;
using rendezvous::Rendezvous;

constexpr Duration kPause = std::chrono::milliseconds(5);
constexpr const char* kEverybody = "pes";  // PE 0's card of what all said

CardName name_of_pe(int pe, std::string_view label = {}) { return {cat("pe ", pe), label}; }

Result<rendezvous::MeetingPointOptions> meeting_options(std::string_view place) {
  constexpr std::string_view kTokenFile = "?token-file=";
  rendezvous::MeetingPointOptions options;
  const std::size_t end = std::min(place.find(kTokenFile), place.size());
  TOWPATH_TRY(options.address, net::parse_address(place.substr(0, end)));
  if (end == place.size()) return options;
  TOWPATH_TRY(const std::string secret,
              sys::read_text_file(std::string(place.substr(end + kTokenFile.size()))));
  TOWPATH_TRY(options.token, net::Token::make(sys::trimmed(secret)));
  return options;
}

Bytes join(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) {
    wire::append(all, static_cast<std::uint64_t>(part.size()));
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Result<std::vector<Bytes>> split(ConstByteSpan all, int pes) {
  std::vector<Bytes> parts;
  while (all.size() >= sizeof(std::uint64_t)) {
    const auto size = wire::load<std::uint64_t>(all);
    all = all.subspan(sizeof(std::uint64_t));
    if (size > all.size()) break;
    parts.emplace_back(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size));
    all = all.subspan(size);
  }
  if (all.empty() && parts.size() == static_cast<std::size_t>(pes)) return parts;
  return error(Code::invalid_argument,
               cat("PE 0 met ", parts.size(), " PEs, and this one knows of ", pes),
               "tell all PEs the same number");
}

/// Whether somebody answers that the card is there.
bool is_there(Rendezvous& place, const CardName& name, run::Deadline deadline,
              run::Poller& poller) {
  std::optional<bool> found;
  const auto asked =
      place.fetch(name, deadline, [&](const Result<Bytes>& card) { found = card.ok(); });
  while (asked.ok() && !found) {
    (void)poller.wait(kPause);
    place.progress();
  }
  return found.value_or(false);
}

}  // namespace

// PE 0 collects what all say and publishes it as one card. A PE takes its own card along when it
// goes, and one of them may host the place: so PE 0 stays until all have heard, and the others
// until PE 0 has gone.
Result<std::vector<Bytes>> ShmemExchange::all(ConstByteSpan mine) {
  const sys::SystemClock clock;
  const run::Deadline deadline = run::Deadline::after(clock, meeting_.patience);
  TOWPATH_TRY(rendezvous::MeetingPointOptions options, meeting_options(meeting_.place));
  TOWPATH_TRY(const auto place, rendezvous::MeetingPoint::open(std::move(options), clock));
  if (meeting_.my_pe == 0) {
    TOWPATH_TRY(std::vector<Bytes> told, collect(*place, {}, deadline));
    told.front().assign(mine.begin(), mine.end());
    TOWPATH_TRY(place->publish(kEverybody, join(told)));
    TOWPATH_TRY(collect(*place, "has heard", deadline));
    return told;
  }
  TOWPATH_TRY(place->publish(name_of_pe(meeting_.my_pe), mine));
  auto everybody = rendezvous::fetch_until(*place, kEverybody, deadline, clock);
  if (!everybody.ok())
    return error(everybody.code(), cat("not all ", meeting_.pes, " PEs came to the meeting"),
                 "PE 0 says which did not; start all of them, with the same place to meet")
        .because(everybody.status());
  TOWPATH_TRY(place->publish(name_of_pe(meeting_.my_pe, "has heard"), {}));
  TOWPATH_TRY(run::Poller poller, run::Poller::open());
  TOWPATH_TRY(poller.add(place->wait_fd(), 0));
  while (is_there(*place, kEverybody, deadline, poller)) (void)poller.wait(kPause);
  return split(*everybody, meeting_.pes);
}

Result<std::vector<Bytes>> ShmemExchange::collect(Rendezvous& place, std::string_view label,
                                                  run::Deadline deadline) const {
  std::vector<Bytes> told(1);
  for (int pe = 1; pe < meeting_.pes; ++pe) {
    auto card = rendezvous::fetch_until(place, name_of_pe(pe, label), deadline, sys::SystemClock());
    if (!card.ok())
      return error(card.code(), cat("PE ", pe, " of ", meeting_.pes, " is not at the meeting"),
                   "start all PEs, with the same place to meet and the same number of them")
          .because(card.status());
    told.push_back(*std::move(card));
  }
  return told;
}

}  // namespace towpath::standard
