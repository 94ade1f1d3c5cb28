#include <algorithm>
#include <utility>

#include <towpath/kv/peers/peer_leases.h>

namespace towpath::kv {
namespace {

/// Lost, forgotten, or followed by another life.
bool is_gone(const agent::Agent& agent, const AgentIdentity& peer) {
  const auto known = agent.peer(peer.name);
  return !known.ok() || known->lost || known->identity != peer;
}

}  // namespace

Result<std::unique_ptr<PeerLeases>> PeerLeases::make(const PeerTierOptions& options, Duration lease,
                                                     PeerTier& tier, TieredCache& cache) {
  auto leases = std::unique_ptr<PeerLeases>(new PeerLeases(options, lease, tier, cache));
  TOWPATH_TRY(leases->granted_from_, options.manager->register_layout(
                                         cache.layout(), {.tier = "leased",
                                                          .first_layer = options.share.first_layer,
                                                          .first_head = options.share.first_head}));
  tier.land_in(leases->granted_from_);
  leases->settle();
  return leases;
}

PeerLeases::PeerLeases(const PeerTierOptions& options, Duration lease, PeerTier& tier,
                       TieredCache& cache)
    : options_(options),
      tier_(tier),
      lessor_({.clock = &options.manager->clock(),
               .block_directory = options.block_directory,
               .not_from = options.tier,
               .lease = lease,
               .is_gone = [&agent = *options.agent](
                              const AgentIdentity& lessee) { return is_gone(agent, lessee); }},
              cache) {}

PeerLeases::~PeerLeases() {
  tier_.land_in({});
  (void)options_.manager->unregister_layout(granted_from_);
}

void PeerLeases::join(std::unique_ptr<rendezvous::Rendezvous> place,
                      CatalogueExchangeOptions options) {
  exchange_ = std::make_unique<CatalogueExchange>(std::move(options), std::move(place), *this,
                                                  options_.manager->clock());
}

Result<Bytes> PeerLeases::catalogue() {
  settle();
  Catalogue all{.name_space = options_.share.name_space,
                .layout = layout(),
                .hashes = journal_.here(),
                .edition = journal_.edition()};
  all.tenants = sort_by_tenant(all.hashes);
  TOWPATH_TRY(all.package, package());
  return encode(all);
}

Result<Bytes> PeerLeases::package() const { return options_.manager->export_package(); }

std::vector<CatalogueChanges> PeerLeases::changes_since(std::uint64_t edition) const {
  std::vector<CatalogueChanges> all = journal_.since(edition);
  for (CatalogueChanges& changes : all) {
    changes.layout = layout();
    changes.tenants = sort_by_tenant(changes.stored);
  }
  return all;
}

/// The tenant of each: they are reported shorter side by side. Nothing where all are nobody's.
std::vector<TenantId> PeerLeases::sort_by_tenant(std::vector<BlockHash>& hashes) const {
  std::vector<std::pair<TenantId, BlockHash>> named;
  named.reserve(hashes.size());
  for (const BlockHash hash : hashes)
    named.emplace_back(options_.block_directory->tenant_of(hash), hash);
  if (std::ranges::all_of(named, [](const auto& one) { return one.first == 0; })) return {};
  std::ranges::stable_sort(named, {}, &std::pair<TenantId, BlockHash>::first);
  std::vector<TenantId> tenants;
  for (std::size_t i = 0; i < named.size(); ++i) {
    tenants.push_back(named[i].first);
    hashes[i] = named[i].second;
  }
  return tenants;
}

/// Whatever happened on the way.
void PeerLeases::settle() {
  std::unordered_set<BlockHash> all;
  for (const BlockEvent& here : options_.block_directory->snapshot())
    if (here.tier != options_.tier) all.insert(here.hash);
  journal_.settle(all);
}

/// Noted is what is so now: of a block that came and went there are other news to come.
void PeerLeases::note_changes(const BlockDirectory::Events& news) {
  if (news.some_were_lost) return settle();
  for (const BlockEvent& event : news.events)
    if (event.tier != options_.tier) journal_.note(event.hash, is_here(event.hash));
}

/// A peer that keeps a block waits to hear that it is here, too: one that is not reported any more,
/// among so many, must be again.
void PeerLeases::name_again(std::span<const BlockHash> kept) {
  for (const BlockHash hash : kept)
    if (!journal_.is_here(hash) && is_here(hash)) journal_.note(hash, true);
}

bool PeerLeases::is_here(BlockHash hash) const {
  const unsigned leased = 1U << options_.tier;
  return (options_.block_directory->tiers_of(hash) & ~leased) != 0;
}

Status PeerLeases::report(const std::string& peer, const PeerMessage& message) {
  TOWPATH_TRY(const Bytes bytes, encode(message));
  return options_.agent->notify(peer, bytes);
}

bool PeerLeases::is_lost(const std::string& peer) const {
  const auto known = options_.agent->peer(peer);
  return !known.ok() || known->lost;
}

bool PeerLeases::has_peer() const {
  return std::ranges::any_of(known().all(), [&](const auto& peer) { return !is_lost(peer.first); });
}

bool PeerLeases::progress() {
  const auto notes = options_.agent->take_notifications();
  for (const agent::Notification& note : notes)
    if (Status heard = hear(note); !heard.ok()) last_failure_ = std::move(heard);
  serve();
  return !notes.empty();
}

void PeerLeases::serve() {
  if (exchange_) exchange_->progress();
  lessor_.end_leases();
  answer_all();
}

Status PeerLeases::hear(const agent::Notification& note) {
  TOWPATH_TRY(const PeerMessage message, decode_peer_message(note.message));
  if (message.word == PeerMessage::Word::ask) lessor_.ask(note.from, message);
  if (message.word == PeerMessage::Word::release) lessor_.release(note.from, message.session);
  if (message.word == PeerMessage::Word::grant) tier_.hear(note.from.name, message);
  if (message.word == PeerMessage::Word::changes) {
    tier_.hear(note.from, message.changes);
    name_again(message.changes.stored);
  }
  if (message.word == PeerMessage::Word::behind && exchange_)
    exchange_->hear_behind(note.from.name, message.changes);
  return {};
}

void PeerLeases::answer_all() {
  for (const BlockLessor::Answer& answer : lessor_.take_answers()) {
    const Status reported = report(answer.to.name, answer.message);
    if (reported.ok()) continue;
    lessor_.release(answer.to, answer.message.session);
    last_failure_ = reported;
  }
}

PeerFigures PeerLeases::figures() const {
  const PeerTier::Figures& tier = tier_.figures();
  PeerFigures all{.peers = tier_.known().size(),
                  .leased = tier.leased,
                  .staged = tier.staged,
                  .not_proven = tier.not_proven,
                  .granted = lessor_.granted_blocks(),
                  .failed_sessions = tier.failed_sessions,
                  .last_failure = tier.last_failure};
  if (all.last_failure.ok()) all.last_failure = last_failure_;
  if (all.last_failure.ok() && exchange_) all.last_failure = exchange_->last_failure();
  return all;
}

}  // namespace towpath::kv
