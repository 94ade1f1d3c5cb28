#include <algorithm>
#include <unordered_map>
#include <utility>

#include <towpath/blockcopy/layout_package.h>
#include <towpath/core/format.h>
#include <towpath/kv/peers/known_peers.h>

namespace towpath::kv {
namespace {

/// So many times the heads that are kept here, no rank of the same model has: what a peer reports
/// decides the memory that its blocks are staged in.
constexpr std::uint64_t kMostTimesOurHeads = 256;

/// Whether blocks of the one, cut by heads, are blocks of the other.
bool fit(const CacheShare& ours, const CacheShare& theirs) {
  const auto head_dim = [](const CacheShare& share) {
    return share.config.inner_dim / share.heads().count;
  };
  return theirs.name_space == ours.name_space && theirs.first_layer == ours.first_layer &&
         theirs.config.num_layers == ours.config.num_layers &&
         theirs.config.outer_dim == ours.config.outer_dim &&
         theirs.config.page_size == ours.config.page_size &&
         theirs.config.dtype_width_bytes == ours.config.dtype_width_bytes &&
         head_dim(theirs) == head_dim(ours) && common(ours.heads(), theirs.heads()).count > 0;
}

/// Of one life; layouts' numbers grow in it.
bool is_older(const KnownPeers::Peer& than, const Catalogue& catalogue, const AgentIdentity& of) {
  if (of.incarnation != than.layout.owner) return false;
  if (catalogue.layout != than.layout.id) return catalogue.layout < than.layout.id;
  return catalogue.edition.value_or(0) < than.edition.value_or(0);
}

}  // namespace

Result<CacheShare> share_of(const Catalogue& catalogue, const blockcopy::OpenPackage& package) {
  const auto entry =
      std::ranges::find(package.layouts, catalogue.layout, &blockcopy::OpenPackage::Entry::id);
  if (entry == package.layouts.end())
    return error(Code::invalid_argument,
                 cat(to_string(package.agent), " grants from layout ", catalogue.layout,
                     ", and reports ", package.layouts.size(), " others"),
                 "both sides must be of one release");
  return CacheShare{catalogue.name_space, entry->layout.config(), entry->first_layer,
                    entry->first_head};
}

Status check_reporter(const blockcopy::OpenPackage& package, std::string_view reporter) {
  if (package.agent.name == reporter) return {};
  return error(Code::invalid_argument,
               cat("the catalogue of '", printable(reporter), "' is that of agent '",
                   printable(package.agent.name), "'"),
               "a peer reports itself alone");
}

KnownPeers::~KnownPeers() {
  while (!peers_.empty()) forget(std::string(peers_.begin()->first));
}

/// A peer as it tells itself, if there is a use for its blocks here.
Result<KnownPeers::Peer> KnownPeers::open(const Catalogue& all,
                                          const blockcopy::OpenPackage& package) const {
  Peer peer;
  TOWPATH_TRY(peer.share, share_of(all, package));
  if (!fit(ours_, peer.share))
    return error(
        Code::invalid_argument,
        cat("the blocks of ", to_string(package.agent), ", name space '", printable(all.name_space),
            "', are of another cache than those here, '", printable(ours_.name_space), "'"),
        "lease from those who serve the same model, in blocks of as many tokens");
  if (const std::uint64_t theirs = peer.share.heads().count, ours = ours_.heads().count;
      theirs / kMostTimesOurHeads > ours)
    return error(Code::invalid_argument,
                 cat("the blocks of ", to_string(package.agent), " have ", theirs, " heads; of ",
                     ours, " that are kept here at most ", kMostTimesOurHeads, " times as many"),
                 "see what that peer was configured with");
  peer.layout = {package.agent.incarnation, all.layout};
  peer.hashes = {all.hashes.begin(), all.hashes.end()};
  peer.edition = all.edition;
  return peer;
}

Status KnownPeers::learn(ConstByteSpan bytes, std::optional<std::string_view> reporter) {
  TOWPATH_TRY(const Catalogue all, decode_catalogue(bytes));
  TOWPATH_TRY(const blockcopy::OpenPackage package, blockcopy::open_package(all.package));
  const std::string& name = package.agent.name;
  if (reporter) TOWPATH_TRY(check_reporter(package, *reporter));
  const Digest digest = digest_of(bytes, 0);
  const auto met = peers_.find(name);
  const bool is_known = met != peers_.end();
  if (is_known && met->second.catalogue == digest && !met->second.is_behind()) return {};
  if (is_known && is_older(met->second, all, package.agent)) return {};
  TOWPATH_TRY(Peer peer, open(all, package));
  peer.catalogue = digest;
  if (is_known && met->second.layout == peer.layout) {
    peer.newest = met->second.newest;
    peer.heard_at = met->second.heard_at;
  }
  TOWPATH_TRY((is_known ? manager_.refresh(all.package) : manager_.import_package(all.package)));
  Peer& known = peers_[name];
  if (known.layout.owner != peer.layout.owner) ++met_;
  const Peer before = std::exchange(known, std::move(peer));
  report_changes(before, known, all);
  return {};
}

/// What one of them has and the other has not; of unlike shares, all that either has.
void KnownPeers::report_changes(const Peer& before, const Peer& now, const Catalogue& said) {
  std::unordered_map<BlockHash, TenantId> tenants;
  for (std::size_t i = 0; i < said.tenants.size(); ++i)
    if (said.tenants[i] != 0) tenants.emplace(said.hashes[i], said.tenants[i]);
  const auto tenant_of = [&](BlockHash hash) {
    const auto named = tenants.find(hash);
    return named == tenants.end() ? TenantId{0} : named->second;
  };
  const bool are_alike = before.share.heads() == now.share.heads();
  const auto report_those_of = [&](const Peer& has, const Peer& may_lack) {
    for (const BlockHash hash : has.hashes)
      if (!are_alike || !may_lack.hashes.contains(hash)) report(hash, tenant_of(hash));
  };
  report_those_of(before, now);
  report_those_of(now, before);
}

void KnownPeers::hear(const AgentIdentity& from, const CatalogueChanges& changes) {
  const auto known = peers_.find(from.name);
  if (known == peers_.end() || known->second.layout.owner != from.incarnation) return;
  Peer& peer = known->second;
  const bool is_same = changes.layout == peer.layout.id;
  if (!peer.edition || changes.layout < peer.layout.id) return;
  if (is_same && changes.to <= peer.failed_at) return;
  peer.heard_at = manager_.clock().now();
  peer.newest = std::max(peer.newest, is_same ? changes.to : UINT64_MAX);
  if (is_same && changes.from <= *peer.edition && changes.to > *peer.edition) apply(peer, changes);
}

void KnownPeers::apply(Peer& peer, const CatalogueChanges& changes) {
  for (const BlockHash hash : changes.lost)
    if (peer.hashes.erase(hash) > 0) report(hash);
  for (std::size_t i = 0; i < changes.stored.size(); ++i)
    if (peer.hashes.size() < kMaxHashesListed && peer.hashes.insert(changes.stored[i]).second)
      report(changes.stored[i], changes.tenants.empty() ? 0 : changes.tenants[i]);
  peer.edition = changes.to;
}

void KnownPeers::forget(const std::string& name) {
  if (!peers_.contains(name)) return;
  lose_all(name);
  peers_.erase(name);
  (void)manager_.unload(name);
}

void KnownPeers::lose(const std::string& name, BlockHash hash) {
  const auto known = peers_.find(name);
  if (known != peers_.end() && known->second.hashes.erase(hash) > 0) report(hash);
}

void KnownPeers::lose_all(const std::string& name) {
  const auto known = peers_.find(name);
  if (known == peers_.end()) return;
  Peer& peer = known->second;
  peer.newest = 0;
  peer.heard_at.reset();
  if (peer.edition) peer.failed_at = std::max(peer.failed_at, std::exchange(*peer.edition, 0));
  for (const BlockHash hash : std::exchange(peer.hashes, {})) report(hash);
}

const KnownPeers::Peer* KnownPeers::find(const std::string& name) const {
  const auto known = peers_.find(name);
  return known == peers_.end() ? nullptr : &known->second;
}

std::vector<std::string> KnownPeers::owners_of(BlockHash hash, const Names& without) const {
  const layout::IndexRange ours = ours_.heads();
  const std::uint64_t past = ours.first + ours.count;
  std::vector<std::string> owners;
  for (std::uint64_t covered = ours.first; covered < past;) {
    auto next = peers_.end();  // that reaches furthest: each part costs a lease
    std::uint64_t reached = covered;
    std::uint64_t heads = 0;  // of what it gives: as few as will do, since a block is pulled whole
    for (auto peer = peers_.begin(); peer != peers_.end(); ++peer) {
      const layout::IndexRange theirs = peer->second.share.heads();
      const std::uint64_t end = std::min(theirs.first + theirs.count, past);
      const bool is_better = end > reached || (end == reached && theirs.count < heads);
      if (theirs.first > covered || !is_better || !peer->second.hashes.contains(hash) ||
          without.contains(peer->first))
        continue;
      next = peer;
      reached = end;
      heads = theirs.count;
    }
    if (next == peers_.end()) return {};
    owners.push_back(next->first);
    covered = reached;
  }
  return owners;
}

void KnownPeers::report(BlockHash hash, TenantId tenant) {
  if (owners_of(hash).empty())
    (void)block_directory_.remove(hash, tier_);
  else
    (void)block_directory_.add(hash, tier_, {}, tenant);
}

}  // namespace towpath::kv
