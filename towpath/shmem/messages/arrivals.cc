#include <algorithm>

#include <towpath/shmem/fence.h>
#include <towpath/shmem/messages/arrivals.h>

namespace towpath::shmem {

void Arrivals::take(std::uint32_t from, ArrivalFrame arrival) {
  waiting_.push_back({.from = from, .arrival = std::move(arrival)});
  settle();
}

bool Arrivals::settle() {
  // In order: a guest that cannot be seated yet is before later ones of the same member.
  std::erase_if(waiting_, [this](const Guest& guest) { return seat(guest); });
  return !waiting_.empty();
}

bool Arrivals::seat(const Guest& guest) {
  const ArrivalNews& news = guest.arrival.news;
  Barrier& barrier = job_.team(news.slot).barrier;
  const std::uint32_t round = barrier.round();
  const auto [last, is_first] = last_round_.try_emplace({news.slot, news.member}, round);
  if (!is_first && last->second == round) return false;
  last->second = round;
  MemberLine& line = job_.line(news.slot, news.member, news.round % 2);
  line.call = news.call;
  line.note = news.note;
  line.arrived.store(round + 1, std::memory_order_release);
  if (guest.arrival.reports_released) {
    PeRecord& record = job_.pe(guest.from);
    auto& bits = record.released[news.round % 2];
    std::ranges::fill(bits, 0);
    for (const ReleasedWord& word : guest.arrival.released) bits[word.index] = word.bits;
    record.released_any[news.round % 2].store(guest.arrival.released.empty() ? 0 : 1,
                                              std::memory_order_relaxed);
  }
  thread_fence(std::memory_order_release);  // pairs with gather()
  barrier.arrive(digest_of(news.call), news.members);
  return true;
}

}  // namespace towpath::shmem
