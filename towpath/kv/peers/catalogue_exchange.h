// CatalogueExchange: tells at a rendezvous what is here, and learns what others tell there.
//
// Told is what is here when that has changed, when somebody was met who may not know it yet, and
// now and then again, for those who were not listening. Where a place tells nobody of changes (a
// scope; guests of a meeting point), others are asked for by their names, again and again.
// Thread: loop, the loans'.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/rendezvous/rendezvous.h>

namespace towpath::kv {

class PeerLoans;

/// Under which a catalogue is published.
inline constexpr const char* kCatalogueLabel = "kv-blocks";

struct CatalogueExchangeOptions {
  std::vector<std::string> others;  ///< agents to ask for
  /// Catalogues are published as those of GROUP/NAME, for places where others have such names, too;
  /// empty: of NAME.
  std::string group;
  /// Between two catalogues that are told, and two questions to one of the others.
  Duration pace = std::chrono::milliseconds(200);
  Duration tell_again = std::chrono::seconds(10);  ///< what has not changed
};

class CatalogueExchange {
 public:
  /// The loans and the clock outlive it.
  CatalogueExchange(CatalogueExchangeOptions options, std::unique_ptr<rendezvous::Rendezvous> place,
                    PeerLoans& loans, const Clock& clock);

  void progress();
  /// Why the last one that went wrong did: of telling, asking or learning.
  const Status& last_failure() const { return last_failure_; }

 private:
  void tell();
  void ask(const std::string& name);
  void learn(const rendezvous::Change& change);
  void note(const Status& status);
  rendezvous::CardName card_name(const std::string& name) const;

  const CatalogueExchangeOptions options_;
  PeerLoans& loans_;
  const Clock& clock_;
  std::uint64_t told_edition_ = UINT64_MAX;
  Instant told_at_{0};
  Instant asked_at_{0};
  std::set<std::string> asked_;            // not answered yet
  std::vector<rendezvous::Change> heard_;  // and not learned yet
  Status last_failure_;
  std::unique_ptr<rendezvous::Rendezvous> place_;  // dies first: it calls back
};

}  // namespace towpath::kv
