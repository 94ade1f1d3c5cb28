#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/peers/catalogue_exchange.h>
#include <towpath/kv/peers/peer_leases.h>

namespace towpath::kv {
namespace {

bool is_due(const std::optional<Instant>& before, Duration pause, Instant now) {
  return !before || now - *before >= pause;
}

bool hears_changes(const std::pair<const std::string, KnownPeers::Peer>& known) {
  return known.second.edition.has_value();
}

}  // namespace

CatalogueExchange::CatalogueExchange(CatalogueExchangeOptions options,
                                     std::unique_ptr<rendezvous::Rendezvous> place,
                                     PeerLeases& leases, const Clock& clock)
    : options_(std::move(options)), leases_(leases), clock_(clock), place_(std::move(place)) {
  place_->watch([this](const rendezvous::Change& change) { heard_.push_back(change); });
}

void CatalogueExchange::progress() {
  (void)place_->progress();
  for (const rendezvous::Change& change : std::exchange(heard_, {})) learn(change);
  const Instant now = clock_.now();
  if (has_to_report(now)) report(now);
  if (is_due(asked_at_, options_.pace, now)) ask_all(now);
}

// Telling ----------------------------------------------------------------------------------------

bool CatalogueExchange::has_to_report(Instant now) const {
  const bool is_news = leases_.journal().edition() != reported_edition_ ||
                       leases_.known().met() != reported_met_ || !behind_.empty() || is_missed(now);
  return is_due(reported_at_,
                is_news ? options_.report_pace.value_or(options_.pace) : options_.report_again,
                now);
}

/// Somebody may find nothing at the place, or needs the whole from there. Those that are behind say
/// so again until they have it.
bool CatalogueExchange::is_missed(Instant now) const {
  const auto is_covered = [&](const auto& peer) { return leases_.journal().covers(peer.second); };
  return (is_one_missing_ || !std::ranges::all_of(behind_, is_covered)) &&
         is_due(reported_all_at_, options_.report_to_missing, now);
}

/// Changes alone will not do.
bool CatalogueExchange::has_to_report_all(Instant now) const {
  return is_due(reported_all_at_, options_.report_again, now) || is_missed(now) ||
         leases_.known().met() != reported_met_ || !leases_.journal().covers(reported_edition_) ||
         !std::ranges::all_of(leases_.known().all(), hears_changes);
}

void CatalogueExchange::report(Instant now) {
  reported_at_ = now;
  if (has_to_report_all(now)) report_all(now);
  const auto behind = std::exchange(behind_, {});
  for (const auto& [name, peer] : leases_.known().all()) {
    const auto lacks = behind.find(name);
    if (peer.edition && !leases_.is_lost(name))
      report_changes(name, lacks == behind.end() ? reported_edition_ : lacks->second);
  }
  reported_edition_ = leases_.journal().edition();
}

void CatalogueExchange::report_all(Instant now) {
  reported_all_at_ = now;
  is_one_missing_ = false;
  const Status made = has_to_encode(now) ? encode_whole(now) : Status();
  reported_met_ = leases_.known().met();
  note(made.ok() ? place_->publish(metadata_name(leases_.name()), whole_) : made);
}

/// Changes say what the last whole lacks, but not to those that were just met (they may not know us
/// yet), to those that hear no changes, and to one that is lost, which takes only what it has not
/// seen for a sign of life.
bool CatalogueExchange::has_to_encode(Instant now) const {
  const CatalogueJournal& journal = leases_.journal();
  const Result<Bytes> package = leases_.package();
  if (!package.ok() || *package != whole_package_ || !journal.covers(whole_edition_)) return true;
  if (whole_edition_ == journal.edition()) return false;
  if (is_due(encoded_at_, options_.refresh, now)) return true;
  const auto is_lost = [this](const auto& known) { return leases_.is_lost(known.first); };
  const auto& all = leases_.known().all();
  return leases_.known().met() != reported_met_ || !std::ranges::all_of(all, hears_changes) ||
         std::ranges::any_of(all, is_lost);
}

/// Has the package last: without it the next round encodes again.
Status CatalogueExchange::encode_whole(Instant now) {
  encoded_at_ = now;
  whole_package_.clear();
  TOWPATH_TRY(whole_, leases_.catalogue());
  whole_edition_ = leases_.journal().edition();
  TOWPATH_TRY(whole_package_, leases_.package());
  return {};
}

void CatalogueExchange::report_changes(const std::string& peer, std::uint64_t from) {
  for (CatalogueChanges& changes : leases_.changes_since(from)) {
    note(leases_.report(peer, {.word = PeerMessage::Word::changes, .changes = std::move(changes)}));
  }
}

void CatalogueExchange::hear_behind(const std::string& peer, const CatalogueChanges& known) {
  if (leases_.known().find(peer) == nullptr) return;
  behind_[peer] = known.layout == leases_.layout() ? known.from : UINT64_MAX;
}

// Asking -----------------------------------------------------------------------------------------

void CatalogueExchange::ask_all(Instant now) {
  asked_at_ = now;
  note(place_->standing().trouble);
  for (const auto& [name, peer] : leases_.known().all())
    if (peer.is_behind())
      note(leases_.report(name, {.word = PeerMessage::Word::behind,
                                 .changes = {.layout = peer.layout.id, .from = *peer.edition}}));
  const bool asks_for_all = is_due(asked_all_at_, options_.report_again, now);
  if (asks_for_all) asked_all_at_ = now;
  const bool refreshes = is_due(refreshed_at_, options_.refresh, now);
  if (refreshes) refreshed_at_ = now;
  for (const std::string& name : options_.others) {
    const KnownPeers::Peer* const peer = leases_.known().find(name);
    const bool is_wanted =
        peer == nullptr || !peer->edition || peer->is_behind() || leases_.is_lost(name);
    if (is_wanted || refreshes || (asks_for_all && is_silent(*peer, now))) ask(name);
  }
}

/// What it says about its changes comes once in report_again, and may take a while. A peer that has
/// forgotten us says nothing.
bool CatalogueExchange::is_silent(const KnownPeers::Peer& peer, Instant now) const {
  return is_due(peer.heard_at, 2 * options_.report_again, now);
}

/// Who is not there is forgotten; who does not answer now is not.
void CatalogueExchange::ask(const std::string& name) {
  if (name == leases_.name() || !asked_.insert(name).second) return;
  const auto answered = [this, name](Result<Bytes> metadata) {
    asked_.erase(name);
    is_one_missing_ = is_one_missing_ || !metadata.ok();
    if (metadata.code() != Code::not_found || is_due(began_, options_.report_again, clock_.now()))
      note(metadata.status());
    if (metadata.ok())
      heard_.push_back({metadata_name(name), *std::move(metadata)});
    else if (metadata.code() == Code::not_found)
      heard_.push_back({metadata_name(name), std::nullopt});
  };
  const auto fetch = place_->fetch(metadata_name(name),
                                   run::Deadline::after(clock_, options_.report_again), answered);
  if (fetch.ok()) return;
  asked_.erase(name);
  note(fetch.status());
}

void CatalogueExchange::learn(const rendezvous::Change& change) {
  const std::string before = metadata_name("").agent;
  const std::string& reported = change.name.agent;
  if (!rendezvous::covers(change.name, {reported, kCatalogueLabel}) ||
      !reported.starts_with(before))
    return;
  const std::string name = reported.substr(before.size());
  if (name == leases_.name()) return;
  if (!change.metadata) return leases_.forget(name);
  note(leases_.learn(*change.metadata, name));
}

rendezvous::MetadataName CatalogueExchange::metadata_name(const std::string& name) const {
  return {options_.group.empty() ? name : cat(options_.group, "/", name), kCatalogueLabel};
}

void CatalogueExchange::note(const Status& status) {
  if (!status.ok()) last_failure_ = status;
}

}  // namespace towpath::kv
