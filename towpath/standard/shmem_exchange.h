// What PEs of several hosts tell each other at the beginning, at a rendezvous.
// Thread: one at a time.
#pragma once

#include <string>

#include <towpath/rendezvous/rendezvous.h>
#include <towpath/run/deadline.h>
#include <towpath/shmem/exchange.h>

namespace towpath::standard {

struct ShmemMeeting {
  /// "tcp://host:port?token-file=PATH", of one job at a time; the host is that of one of the PEs.
  /// Also "unix:...", for PEs that are started separately on one host.
  std::string place;
  int my_pe = 0;
  int pes = 1;
  Duration patience = std::chrono::seconds(60);
};

class ShmemExchange final : public shmem::Exchange {
 public:
  explicit ShmemExchange(ShmemMeeting meeting) : meeting_(std::move(meeting)) {}
  /// Errors: timed_out (which PE has not come), and those of the address, the token and
  /// MeetingPoint::open().
  Result<std::vector<Bytes>> all(ConstByteSpan mine) override;

 private:
  /// The cards of all PEs but 0.
  Result<std::vector<Bytes>> collect(rendezvous::Rendezvous& place, std::string_view label,
                                     run::Deadline deadline) const;

  const ShmemMeeting meeting_;
};

}  // namespace towpath::standard
