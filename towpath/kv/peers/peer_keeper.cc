#include <algorithm>
#include <utility>

#include <towpath/core/text.h>
#include <towpath/kv/layout_package.h>
#include <towpath/kv/peers/peer_keeper.h>
#include <towpath/layout/builder.h>

namespace towpath::kv {
namespace {

constexpr Duration kNap = std::chrono::milliseconds(1);
constexpr Duration kAskAgain = std::chrono::milliseconds(100);  // and then twice as late each time

layout::IndexRange heads_of(const layout::LayoutConfig& config, std::uint64_t first) {
  return {first, config.num_heads.value_or(1)};
}

}  // namespace

Result<std::unique_ptr<PeerKeeper>> PeerKeeper::make(PeerKeeperOptions options,
                                                     std::unique_ptr<BlockKeeper> own) {
  if (options.agent == nullptr || options.manager == nullptr || own == nullptr ||
      options.staged_blocks == 0 || options.staged_blocks > kMaxBlocksAsked)
    return error(Code::invalid_argument,
                 "a keeper with peers needs an agent, its manager and a keeper under it",
                 cat("fill in PeerKeeperOptions; at most ", kMaxBlocksAsked, " blocks are staged"));
  auto keeper = std::unique_ptr<PeerKeeper>(new PeerKeeper(std::move(options), std::move(own)));
  TOWPATH_TRY(keeper->lent_from_,
              keeper->options_.manager->register_layout(
                  keeper->memory(), {.tier = "lent",
                                     .first_layer = keeper->options_.first_layer,
                                     .first_head = keeper->options_.first_head}));
  return keeper;
}

PeerKeeper::~PeerKeeper() {
  exchange_.reset();  // it may yet hear of somebody
  while (!peers_.empty()) forget(std::string(peers_.begin()->first));
  (void)options_.manager->unregister_layout(lent_from_);
}

// What peers know of each other ------------------------------------------------------------------

Result<Bytes> PeerKeeper::catalogue() {
  Catalogue all{.name_space = options_.name_space, .layout = lent_from_.id};
  TOWPATH_TRY(all.package, options_.manager->export_package());
  std::ranges::copy_if(held_, std::back_inserter(all.hashes),
                       [&](BlockHash hash) { return own_->has(hash); });
  return encode(all);
}

void PeerKeeper::join(std::unique_ptr<rendezvous::Rendezvous> place,
                      CatalogueExchangeOptions options) {
  exchange_ = std::make_unique<CatalogueExchange>(std::move(options), std::move(place), *this,
                                                  options_.manager->clock());
}

bool PeerKeeper::fits(const Peer& peer, std::uint64_t first_layer) const {
  const layout::LayoutConfig& ours = memory().config();
  const layout::LayoutConfig& theirs = peer.config;
  const auto head_dim = [](const layout::LayoutConfig& config) {
    return config.inner_dim / config.num_heads.value_or(1);
  };
  return first_layer == options_.first_layer && theirs.num_layers == ours.num_layers &&
         theirs.outer_dim == ours.outer_dim && theirs.page_size == ours.page_size &&
         theirs.dtype_width_bytes == ours.dtype_width_bytes && head_dim(theirs) == head_dim(ours) &&
         overlaps(peer);
}

bool PeerKeeper::overlaps(const Peer& peer) const {
  const layout::IndexRange ours = heads_of(memory().config(), options_.first_head);
  return common(ours, heads_of(peer.config, peer.first_head)).count > 0;
}

/// A peer as it tells itself, if this keeper has a use for its blocks.
Result<PeerKeeper::Peer> PeerKeeper::open(const Catalogue& all, const OpenPackage& package) const {
  const auto entry = std::ranges::find(package.layouts, all.layout, &OpenPackage::Entry::id);
  Peer peer;
  if (entry != package.layouts.end()) {
    peer.config = entry->layout.config();
    peer.first_head = entry->first_head;
  }
  if (entry == package.layouts.end() || all.name_space != options_.name_space ||
      !fits(peer, entry->first_layer))
    return error(
        Code::invalid_argument,
        cat("the blocks of ", to_string(package.agent), ", name space '", printable(all.name_space),
            "', are of another cache than those here, '", printable(options_.name_space), "'"),
        "borrow from those who serve the same model, in blocks of as many tokens");
  peer.layout = {package.agent.incarnation, all.layout};
  peer.hashes = {all.hashes.begin(), all.hashes.end()};
  return peer;
}

Status PeerKeeper::learn(ConstByteSpan bytes) {
  TOWPATH_TRY(const Catalogue all, decode_catalogue(bytes));
  TOWPATH_TRY(const OpenPackage package, open_package(all.package));
  const std::string& name = package.agent.name;
  const Digest digest = digest_of(bytes, 0);
  const auto met = peers_.find(name);
  if (met != peers_.end() && met->second.catalogue == digest) return {};
  TOWPATH_TRY(Peer peer, open(all, package));
  peer.catalogue = digest;
  const bool is_known = met != peers_.end();
  TOWPATH_TRY((is_known ? options_.manager->refresh(all.package)
                        : options_.manager->import_package(all.package)));
  Peer& known = peers_[name];
  if (known.layout.owner != peer.layout.owner) ++edition_;
  tell_all(known);
  tell_all(peer);
  if (known.staging && known.config == peer.config && known.first_head == peer.first_head) {
    peer.staging = std::move(known.staging);
    peer.staged = known.staged;
  } else if (known.staging) {
    (void)options_.manager->unregister_layout(known.staged);
  }
  known = std::move(peer);
  return {};
}

void PeerKeeper::forget(const std::string& name) {
  const auto known = peers_.find(name);
  if (known == peers_.end()) return;
  tell_all(known->second);
  if (known->second.staging) (void)options_.manager->unregister_layout(known->second.staged);
  peers_.erase(known);
  (void)options_.manager->unload(name);
}

void PeerKeeper::tell_all(const Peer& peer) {
  changed_.insert(changed_.end(), peer.hashes.begin(), peer.hashes.end());
}

/// Which peers, by their heads, have all of ours of it together; none: they do not.
std::vector<std::string> PeerKeeper::owners_of(BlockHash hash) const {
  const layout::IndexRange ours = heads_of(memory().config(), options_.first_head);
  std::vector<std::string> owners;
  for (std::uint64_t covered = ours.first; covered < ours.first + ours.count;) {
    const auto next = std::ranges::find_if(peers_, [&](const auto& entry) {
      const auto theirs = heads_of(entry.second.config, entry.second.first_head);
      return entry.second.hashes.contains(hash) && theirs.first <= covered &&
             theirs.first + theirs.count > covered;
    });
    if (next == peers_.end()) return {};
    owners.push_back(next->first);
    covered = next->second.first_head + heads_of(next->second.config, 0).count;
  }
  return owners;
}

BlockKeeper::News PeerKeeper::take_news() {
  News news = own_->take_news();
  if (news.is_anew || !news.stored.empty() || !news.lost.empty()) ++edition_;
  if (news.is_anew) {
    held_.clear();
    for (const auto& [name, peer] : peers_) tell_all(peer);
  }
  held_.insert(news.stored.begin(), news.stored.end());
  for (const BlockHash hash : news.lost) held_.erase(hash);
  for (const BlockHash hash : std::exchange(changed_, {}))
    (has(hash) ? news.stored : news.lost).push_back(hash);
  std::erase_if(news.lost, [&](BlockHash hash) { return has(hash); });
  return news;
}

PeerKeeper::Figures PeerKeeper::figures() const {
  Figures all = figures_;
  all.lent = lender_.lent_blocks();
  all.peers = peers_.size();
  if (all.last_failure.ok() && exchange_) all.last_failure = exchange_->last_failure();
  return all;
}

// Sessions ---------------------------------------------------------------------------------------

bool PeerKeeper::progress() {
  if (exchange_) exchange_->progress();
  serve();
  return own_->progress();
}

void PeerKeeper::serve() {
  (void)options_.manager->progress();
  lender_.end_leases();
  for (const agent::Notification& note : options_.agent->take_notifications()) {
    const Result<PeerMessage> message = decode_peer_message(note.message);
    if (!message.ok()) {
      figures_.last_failure = message.status();
      continue;
    }
    if (message->word == PeerMessage::Word::release) lender_.release(note.from, message->session);
    if (message->word == PeerMessage::Word::lend && asked_.contains(message->session))
      asked_[message->session] = message->lent;
    if (message->word != PeerMessage::Word::ask) continue;
    const Result<Bytes> answer = encode(lender_.lend(note.from, *message));
    const Status told =
        answer.ok() ? options_.agent->notify(note.from.name, *answer) : answer.status();
    if (told.ok()) continue;
    lender_.release(note.from, message->session);
    figures_.last_failure = told;
  }
}

bool PeerKeeper::wait_until(const std::function<bool()>& done) {
  const Clock& clock = options_.manager->clock();
  const Instant end = clock.now() + options_.patience;
  while (!done() && clock.now() < end) {
    serve();
    if (exchange_) exchange_->serve();
    if (options_.meanwhile) options_.meanwhile();
    if (!done()) options_.manager->wait_for_work(kNap);
  }
  return done();
}

Result<std::vector<LentBlock>> PeerKeeper::ask(const std::string& name,
                                               std::span<const BlockHash> hashes) {
  const std::uint64_t session = next_session_++;
  TOWPATH_TRY(const Bytes message, encode(PeerMessage{.word = PeerMessage::Word::ask,
                                                      .session = session,
                                                      .hashes = {hashes.begin(), hashes.end()}}));
  asked_[session];
  const Status sent = options_.agent->notify(name, message);
  const auto is_lost = [&] {
    const auto peer = options_.agent->peer(name);
    return !peer.ok() || peer->lost;
  };
  const Clock& clock = options_.manager->clock();
  Duration pause = kAskAgain;
  Instant next = clock.now() + pause;
  const auto is_over = [&] {
    if (asked_[session] || is_lost()) return true;
    if (clock.now() >= next) {  // it may not have known us yet, and then could not answer
      (void)options_.agent->notify(name, message);
      next = clock.now() + (pause *= 2);
    }
    return false;
  };
  if (sent.ok()) (void)wait_until(is_over);
  const auto answer = asked_.extract(session).mapped();
  TOWPATH_TRY(sent);
  if (answer) return *answer;
  return error(is_lost() ? Code::peer_lost : Code::timed_out,
               cat("peer '", printable(name), "' was asked for ", hashes.size(),
                   " blocks and has not answered"),
               "see whether it lives, and drives its keeper");
}

Status PeerKeeper::copy(const CopyRequest& request) {
  TOWPATH_TRY(TransferJob job, options_.manager->copy(request));
  if (!wait_until([&] { return job.ended(); })) job.cancel();
  while (!job.ended()) (void)job.wait();  // until it is quiet
  return job.status();
}

Status PeerKeeper::make_staging(Peer& peer) {
  if (peer.staging) return {};
  layout::LayoutConfig config = peer.config;
  config.num_blocks = options_.staged_blocks;
  config.alignment = 1;
  config.format = layout::BlockFormat::nhd;
  TOWPATH_TRY(peer.staging,
              layout::build_layout({.registrar = &options_.manager->registrar(),
                                    .config = config,
                                    .kind = layout::LayoutKind::fully_contiguous,
                                    .memory = memory::Allocation{.kind = MemoryKind::system}}));
  TOWPATH_TRY(peer.staged,
              options_.manager->register_layout(*peer.staging, {.tier = "borrowed",
                                                                .first_layer = options_.first_layer,
                                                                .first_head = peer.first_head}));
  return {};
}

/// Into the peer's staging, block i of what was lent to slot i; those that prove.
Result<PeerKeeper::Staged> PeerKeeper::fetch(Peer& peer, const std::vector<LentBlock>& lent) {
  TOWPATH_TRY(make_staging(peer));
  std::vector<layout::BlockPair> pairs;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(lent.size(), options_.staged_blocks); ++i)
    pairs.push_back({lent[i].slot, i});
  TOWPATH_TRY(
      copy({.source = peer.layout, .target = peer.staged, .blocks = layout::ranges_of(pairs)}));
  Staged staged;
  for (std::uint64_t i = 0; i < pairs.size(); ++i) {
    const Digest& wanted = lent[i].digest;
    Digester digester(wanted.salt, wanted.algorithm);
    TOWPATH_TRY(const Digest found, digest_block(digester, *peer.staging, i));
    if (found == wanted && wanted.salt == lent[i].hash)
      staged[lent[i].hash] = i;
    else
      ++figures_.not_proven;
  }
  return staged;
}

/// A session with one peer. What it does not give is not looked for there again.
PeerKeeper::Staged PeerKeeper::stage(const std::string& name, Peer& peer,
                                     std::span<const BlockHash> hashes) {
  const Result<std::vector<LentBlock>> lent = ask(name, hashes);
  Result<Staged> staged = lent.ok() ? fetch(peer, *lent) : Result<Staged>(lent.status());
  if (lent.ok()) {
    const auto bye =
        encode(PeerMessage{.word = PeerMessage::Word::release, .session = next_session_ - 1});
    if (bye.ok()) (void)options_.agent->notify(name, *bye);
  }
  if (!staged.ok()) {
    ++figures_.failed_sessions;
    figures_.last_failure = staged.status();
    tell_all(peer);
    peer.hashes.clear();
    return {};
  }
  for (const BlockHash hash : hashes)
    if (!staged->contains(hash) && peer.hashes.erase(hash) > 0) changed_.push_back(hash);
  return *std::move(staged);
}

/// From the parts of it that were staged into a slot of ours.
Status PeerKeeper::take_over(BlockHash hash, const std::vector<std::string>& owners,
                             const std::map<std::string, Staged>& parts) {
  TOWPATH_TRY(std::vector<PartialBlock> slot, own_->room(1));
  for (const std::string& owner : owners) {
    const auto part = parts.at(owner).find(hash);
    if (part == parts.at(owner).end())
      return error(Code::not_found,
                   cat("block ", hex(hash), " did not come from peer '", printable(owner), "'"));
    TOWPATH_TRY(copy({.source = peers_.at(owner).staged,
                      .target = lent_from_,
                      .blocks = {{part->second, slot.front().slot(), 1}},
                      .between_shards = true}));
  }
  TOWPATH_TRY(own_->keep(std::move(slot.front()), hash));
  ++figures_.borrowed;
  return {};
}

void PeerKeeper::borrow(std::span<const BlockHash> hashes) {
  std::map<BlockHash, std::vector<std::string>> owners;
  std::map<std::string, std::vector<BlockHash>> asked;
  for (const BlockHash hash : hashes) {
    const std::vector<std::string> from = owners_of(hash);
    if (from.empty()) continue;  // who had it failed since
    for (const std::string& owner : from) asked[owner].push_back(hash);
    owners[hash] = from;
  }
  std::map<std::string, Staged> parts;
  for (const auto& [owner, there] : asked) parts[owner] = stage(owner, peers_.at(owner), there);
  for (const auto& [hash, from] : owners)
    if (const Status taken = take_over(hash, from, parts);
        !taken.ok() && taken.code() != Code::not_found)  // why it did not come is told already
      figures_.last_failure = taken;
}

void PeerKeeper::prepare(std::span<const BlockHash> hashes) {
  std::vector<BlockHash> missing;
  for (const BlockHash hash : hashes)
    if (!own_->has(hash) && can_borrow(hash)) missing.push_back(hash);
  for (std::size_t i = 0; i < missing.size(); i += options_.staged_blocks)
    borrow(std::span(missing).subspan(
        i, std::min<std::size_t>(options_.staged_blocks, missing.size() - i)));
}

Result<BlockRef> PeerKeeper::hold(BlockHash hash) {
  Result<BlockRef> here = own_->hold(hash);
  const bool is_gone = here.code() == Code::not_found || here.code() == Code::corrupt;
  if (!is_gone || !can_borrow(hash)) return here;
  borrow({&hash, 1});
  return own_->hold(hash);
}

}  // namespace towpath::kv
