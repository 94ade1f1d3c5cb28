// Arrivals: brings members of other hosts to the barriers of this one.
//
// On each host a gathering counts all members of its team: neighbours arrive by themselves, those
// of other hosts are brought here by what they sent. A member that is a round ahead (everybody has
// reached its host already, but not this one) waits until the round here is over.
// Thread: one at a time; other PEs of the host use the barriers meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include <towpath/shmem/messages/frames.h>

namespace towpath::shmem {

class Arrivals {
 public:
  explicit Arrivals(const JobView& job) : job_(job) {}

  void take(std::uint32_t from, ArrivalFrame arrival);
  /// Brings those whose round has come; whether some still wait.
  bool settle();

 private:
  struct Guest {
    std::uint32_t from;
    ArrivalFrame arrival;
  };
  struct Seat {
    std::uint32_t slot, member;
    friend auto operator<=>(const Seat&, const Seat&) = default;
  };

  bool seat(const Guest& guest);

  const JobView& job_;
  std::deque<Guest> waiting_;
  std::map<Seat, std::uint32_t> last_round_;  // of the gathering, in which a member was brought
};

}  // namespace towpath::shmem
