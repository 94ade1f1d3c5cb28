#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/peers/catalogue_exchange.h>
#include <towpath/kv/peers/peer_loans.h>

namespace towpath::kv {

CatalogueExchange::CatalogueExchange(CatalogueExchangeOptions options,
                                     std::unique_ptr<rendezvous::Rendezvous> place,
                                     PeerLoans& loans, const Clock& clock)
    : options_(std::move(options)), loans_(loans), clock_(clock), place_(std::move(place)) {
  place_->watch([this](const rendezvous::Change& change) { heard_.push_back(change); });
}

void CatalogueExchange::progress() {
  (void)place_->progress();
  for (const rendezvous::Change& change : std::exchange(heard_, {})) learn(change);
  const Instant now = clock_.now();
  const bool never = told_edition_ == UINT64_MAX;
  const bool is_news = loans_.edition() != told_edition_ && now - told_at_ >= options_.pace;
  if (never || is_news || now - told_at_ >= options_.tell_again) tell();
  if (asked_at_ != Instant{0} && now - asked_at_ < options_.pace) return;
  asked_at_ = now;
  for (const std::string& name : options_.others) ask(name);
}

void CatalogueExchange::tell() {
  told_edition_ = loans_.edition();
  told_at_ = clock_.now();
  const Result<Bytes> catalogue = loans_.catalogue();
  note(catalogue.ok() ? place_->publish(card_name(loans_.name()), *catalogue) : catalogue.status());
}

/// Who is not there is forgotten; who does not answer now is not.
void CatalogueExchange::ask(const std::string& name) {
  if (name == loans_.name() || !asked_.insert(name).second) return;
  const auto answered = [this, name](Result<Bytes> card) {
    asked_.erase(name);
    if (card.ok())
      heard_.push_back({card_name(name), *std::move(card)});
    else if (card.code() == Code::not_found)
      heard_.push_back({card_name(name), std::nullopt});
    else
      note(card.status());
  };
  const auto fetch =
      place_->fetch(card_name(name), run::Deadline::after(clock_, options_.tell_again), answered);
  if (fetch.ok()) return;
  asked_.erase(name);
  note(fetch.status());
}

void CatalogueExchange::learn(const rendezvous::Change& change) {
  const std::string before = card_name("").agent;
  const std::string& told = change.name.agent;
  if (!rendezvous::covers(change.name, {told, kCatalogueLabel}) || !told.starts_with(before))
    return;
  const std::string name = told.substr(before.size());
  if (name == loans_.name()) return;
  if (!change.card) return loans_.forget(name);
  note(loans_.learn(*change.card));
}

rendezvous::CardName CatalogueExchange::card_name(const std::string& name) const {
  return {options_.group.empty() ? name : cat(options_.group, "/", name), kCatalogueLabel};
}

void CatalogueExchange::note(const Status& status) {
  if (!status.ok()) last_failure_ = status;
}

}  // namespace towpath::kv
