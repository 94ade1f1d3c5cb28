// CatalogueExchange: reports at a rendezvous what is here, and learns what others report there.
//
// The whole is reported there when somebody was met that may not know it yet, and now and then
// again, for those who were not listening: the same bytes, while changes say the rest, since it may
// list a million blocks. A peer that has been met gets what has changed, and now and then that
// nothing has; one that finds that some of it is missing says so, and gets that again, or the whole
// where it is too much. Where a place notifies nobody of changes (a scope; guests of a rendezvous
// host), others whose catalogue is wanted are asked for by their names, again and again; those that
// report their changes are not.
// Thread: loop, the leases'.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <towpath/core/clock.h>
#include <towpath/kv/peers/known_peers.h>
#include <towpath/rendezvous/rendezvous.h>

namespace towpath::kv {

class PeerLeases;
struct CatalogueChanges;

/// Under which a catalogue is published.
inline constexpr const char* kCatalogueLabel = "kv-blocks";

struct CatalogueExchangeOptions {
  std::vector<std::string> others;  ///< agents to ask for
  /// Catalogues are published as those of GROUP/NAME, for places where others have such names, too;
  /// empty: of NAME.
  std::string group;
  /// Between two rounds in which something is reported, and two questions to one of the others.
  Duration pace = std::chrono::milliseconds(200);
  std::optional<Duration> report_pace{};  ///< of the former alone; nothing: as `pace`
  /// The whole; and asks for those of others that have not been heard of for twice as long.
  Duration report_again = std::chrono::seconds(10);
  /// Sooner, where one of the others is missing (the place may have begun anew, and know nobody),
  /// or is behind by more than changes say.
  Duration report_to_missing = std::chrono::seconds(1);
  /// A whole is as old as this at most, and every peer is asked for its own as often: what was
  /// struck off by one side alone, and of what no change speaks, comes back.
  Duration refresh = std::chrono::minutes(1);
};

class CatalogueExchange {
 public:
  /// The leases and the clock outlive it.
  CatalogueExchange(CatalogueExchangeOptions options, std::unique_ptr<rendezvous::Rendezvous> place,
                    PeerLeases& leases, const Clock& clock);

  void progress();
  /// A peer lacks what came after `known.from`; it is reported in the next round.
  void hear_behind(const std::string& peer, const CatalogueChanges& known);
  /// Why the last one that went wrong did: of reporting, asking or learning. One of the others that
  /// is not there is a failure after `report_again`: all may still be starting before.
  const Status& last_failure() const { return last_failure_; }

 private:
  bool has_to_report(Instant now) const;
  bool has_to_report_all(Instant now) const;
  bool is_missed(Instant now) const;
  void report(Instant now);
  void report_all(Instant now);
  bool has_to_encode(Instant now) const;
  Status encode_whole(Instant now);
  void report_changes(const std::string& peer, std::uint64_t from);
  void ask_all(Instant now);
  bool is_silent(const KnownPeers::Peer& peer, Instant now) const;
  void ask(const std::string& name);
  void learn(const rendezvous::Change& change);
  void note(const Status& status);
  rendezvous::MetadataName metadata_name(const std::string& name) const;

  const CatalogueExchangeOptions options_;
  PeerLeases& leases_;
  const Clock& clock_;
  const Instant began_ = clock_.now();
  std::uint64_t reported_edition_ = 0;           // to those who have been met
  std::uint64_t reported_met_ = 0;               // how many had been, when all was reported
  Bytes whole_;                                  // as it was encoded last
  Bytes whole_package_;                          // that is in it; empty: there is none
  std::uint64_t whole_edition_ = 0;              // the same
  std::optional<Instant> encoded_at_;            // the same
  std::map<std::string, std::uint64_t> behind_;  // who said so, and since when
  std::optional<Instant> refreshed_at_;          // when all were asked
  std::optional<Instant> reported_at_;
  std::optional<Instant> reported_all_at_;
  std::optional<Instant> asked_at_;
  std::optional<Instant> asked_all_at_;    // also whose catalogue is not wanted
  std::set<std::string> asked_;            // not answered yet
  bool is_one_missing_ = false;            // of those that were asked for
  std::vector<rendezvous::Change> heard_;  // and not learned yet
  Status last_failure_;
  std::unique_ptr<rendezvous::Rendezvous> place_;  // dies first: it calls back
};

}  // namespace towpath::kv
