// Account: of the mistakes that were injected at random (chance.h), how many of each kind were
// made, were found, and went before anybody could meet them. Prefill reports it with each "ready",
// so that what it made is known though it die, and with its summary. Thread: none of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tools/replay/faults.h"
#include "tools/replay/message.h"
#include "tools/replay/mistake.h"

namespace towpath::tools::replay {

/// Of one kind.
struct Tally {
  std::uint64_t made =
      0;  ///< blocks that are wrong, requests that are not reported, tasks that fail
  std::uint64_t gone = 0;  ///< before anybody could meet them
  std::uint64_t found = 0;

  friend bool operator==(const Tally&, const Tally&) = default;
};

/// Its name in a "ready" and in a summary.
inline constexpr const char* kMistakes = "mistakes";

class Account {
 public:
  Tally& of(Mistake mistake) { return tallies_[static_cast<std::size_t>(mistake)]; }
  const Tally& of(Mistake mistake) const { return tallies_[static_cast<std::size_t>(mistake)]; }
  bool is_empty() const { return tallies_ == decltype(tallies_)(); }

  void add(const Account& other);

  // ---- what decode knows of a prefill, in case it dies ----
  /// A word that came with a "ready": of mistakes that decode meets those that came with it, of
  /// mistakes that prefill meets all so far. Words may be heard in any order.
  void hear(const Account& word);
  /// Nobody examined the answer that came with `word`: its mistakes are gone.
  void miss(const Account& word);
  /// The prefill is dead: what it had found are faults, as its summary would have said, and what it
  /// had yet to meet went with it.
  void bury(const std::string& name, Faults& faults);

  void put(Message& message, const std::string& name) const;
  static Account from(const Message& message, const std::string& name);

 private:
  std::array<Tally, kMistakeKinds> tallies_{};  // by Mistake
};

/// Takes what was made on purpose out of the faults; what was not found, or found more often than
/// it was made, is a fault of its own.
void settle(Account& mistakes, Faults& faults);

}  // namespace towpath::tools::replay
