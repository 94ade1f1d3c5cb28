#include <algorithm>
#include <cstring>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/peers/peer_tier.h>
#include <towpath/kv/tiers/block_bytes.h>
#include <towpath/layout/builder.h>

namespace towpath::kv {
namespace {

constexpr Duration kAskAgain = std::chrono::milliseconds(100);  // and then twice as late each time

// Blocks are proven while the caches have them, and the ones behind them are on their way: few, and
// enough that the way is never empty.
constexpr std::uint64_t kChunkBytes = 512 * kKiB;
constexpr std::size_t kMostChunks = 3;

// A staging has memory for as many blocks as a session is about where the peer's have up to so many
// times our heads, and for fewer where they have more.
constexpr std::uint64_t kWholeSessionsUpTo = 16;

/// What two shares of a block have in common. Rows in canonical order: [head, dim].
void copy_heads(ConstByteSpan from, layout::IndexRange theirs, ByteSpan to, layout::IndexRange ours,
                std::uint64_t head_bytes) {
  const layout::IndexRange both = common(ours, theirs);
  const std::uint64_t rows = to.size() / (ours.count * head_bytes);
  for (std::uint64_t row = 0; row < rows; ++row)
    std::memcpy(&to[(row * ours.count + both.first - ours.first) * head_bytes],
                &from[(row * theirs.count + both.first - theirs.first) * head_bytes],
                both.count * head_bytes);
}

}  // namespace

Result<std::unique_ptr<PeerTier>> PeerTier::make(PeerTierOptions options) {
  if (options.agent == nullptr || options.manager == nullptr ||
      options.block_directory == nullptr || options.tier == 0 || options.staged_blocks == 0 ||
      options.staged_blocks > kMaxBlocksAsked)
    return error(Code::invalid_argument,
                 "a tier of peers needs an agent, its manager, a BlockDirectory and a number",
                 cat("fill in PeerTierOptions; at most ", kMaxBlocksAsked, " blocks are staged"));
  TOWPATH_TRY(options.share.config.block_bytes());
  return std::unique_ptr<PeerTier>(new PeerTier(std::move(options)));
}

PeerTier::PeerTier(PeerTierOptions options)
    : options_(std::move(options)),
      block_bytes_(options_.share.config.block_bytes().value()),
      known_(options_.share, *options_.manager, *options_.block_directory, options_.tier) {}

PeerTier::~PeerTier() {
  for (auto& [name, link] : links_) {
    if (!link.sessions.empty()) fail(name, link, error(Code::cancelled, "the tier is closed"));
    for (blockcopy::TransferJob& copy : link.leaving.copies)
      while (!copy.ended()) (void)copy.wait();
    for (const auto& want : link.leaving.wants) end(*want, error(Code::cancelled, "closed"));
    drop_staging(link);
  }
}

// Tasks ------------------------------------------------------------------------------------------

void PeerTier::begin(TierTask& task) {
  const Status nobody = error(Code::not_found, cat("no peer has block ", hex(task.hash)));
  if (task.kind == TierTask::Kind::put)
    return task.end(error(Code::denied, "peers' blocks can only be read"));
  if (task.kind == TierTask::Kind::look)
    return task.end(known_.owners_of(task.hash).empty() ? nobody : Status());
  if (task.bytes.size() != block_bytes_)
    return task.end(error(
        Code::invalid_argument,
        cat("block ", hex(task.hash), " of ", task.bytes.size(), " bytes, not of ", block_bytes_)));
  place(task, nobody);
}

/// Among those who have it, and have not said that there is `no_room` now; `why` where nobody has.
void PeerTier::place(TierTask& task, const Status& why, KnownPeers::Names no_room) {
  const std::vector<std::string> owners = known_.owners_of(task.hash, no_room);
  if (owners.empty()) {
    if (no_room.empty() || known_.owners_of(task.hash).empty()) return task.end(why);
    return task.end(error(Code::exhausted,
                          cat("peer '", printable(*no_room.begin()), "' has no room now for block ",
                              hex(task.hash), ", and nobody else has it"),
                          "ask again when others are done"));
  }
  const auto want =
      std::make_shared<Want>(Want{&task, owners.size(), owners.size() > 1, std::move(no_room)});
  for (const std::string& owner : owners) links_[owner].waiting.push_back(want);
}

void PeerTier::end(Want& want, Status how) {
  if (want.task != nullptr) std::exchange(want.task, nullptr)->end(std::move(how));
}

/// A peer does not have it after all, or cannot grant it now: another may.
void PeerTier::miss(Want& want, const Status& why) {
  if (want.is_unwanted) return end(want, error(Code::cancelled, "nobody wants it any more"));
  if (want.task != nullptr) place(*std::exchange(want.task, nullptr), why, want.no_room);
}

/// What is on its way ends when it has come, or cannot come any more.
void PeerTier::cancel(TierTask& task) {
  const auto give_up = [&](const Wants& wants, bool is_on_its_way) {
    for (const auto& want : wants) {
      if (want->task != &task) continue;
      want->is_unwanted = true;
      if (!is_on_its_way) miss(*want, {});
    }
  };
  for (auto& [name, link] : links_) {
    give_up(link.waiting, false);
    for (const Session& session : link.sessions) give_up(session.wants, session.copy.has_value());
    give_up(link.leaving.wants, true);
  }
}

Status PeerTier::remove(BlockHash hash) {
  std::vector<std::string> owners = known_.owners_of(hash);
  if (owners.empty()) return error(Code::not_found, cat("no peer has block ", hex(hash)));
  for (; !owners.empty(); owners = known_.owners_of(hash))
    for (const std::string& owner : owners) known_.lose(owner, hash);
  return {};
}

void PeerTier::forget(const std::string& name) {
  known_.lose_all(name);
  if (const auto link = links_.find(name); link != links_.end() && !link->second.sessions.empty())
    fail(name, link->second, error(Code::peer_lost, cat("peer '", printable(name), "' has left")));
  known_.forget(name);
}

// Sessions ---------------------------------------------------------------------------------------

bool PeerTier::progress() {
  bool more = options_.manager->progress();
  for (auto at = links_.begin(); at != links_.end();) {
    const auto here = at++;
    Link& link = here->second;
    more = advance(here->first, link) || more;
    const bool is_idle =
        link.sessions.empty() && link.waiting.empty() && link.leaving.wants.empty();
    if (!is_idle || known_.find(here->first) != nullptr) continue;
    drop_staging(link);
    links_.erase(here);
  }
  return more;
}

void PeerTier::wait_for_work(Duration most) {
  for (const auto& [name, link] : links_) {
    const bool is_to_end = !link.leaving.wants.empty();
    const bool is_to_begin = !link.waiting.empty() && link.sessions.size() < kSessionsAtOnce;
    if ((is_to_end || is_to_begin) && link.leaving.is_quiesced()) return;
  }
  options_.manager->wait_for_work(most);
}

/// True: there is more to do at once.
bool PeerTier::advance(const std::string& name, Link& link) {
  bool moved = false;
  for (Session& session : link.sessions) {
    const Result<bool> stepped = step(name, link, session);
    moved = moved || (stepped.ok() && *stepped);
    if (stepped.ok()) continue;
    fail(name, link, stepped.status());
    break;
  }
  std::erase_if(link.sessions, [](const Session& session) { return session.is_over; });
  if (!link.leaving.is_quiesced()) return moved;
  const Leaving left = std::exchange(link.leaving, {});
  for (const auto& want : left.wants) miss(*want, left.why);
  std::erase_if(link.waiting, [](const auto& want) { return want->task == nullptr; });
  while (!link.waiting.empty() && link.sessions.size() < kSessionsAtOnce) {
    const Status started = start(name, link);
    if (started.ok()) continue;
    fail(name, link, started);
    return true;
  }
  return moved || !left.wants.empty();
}

Status PeerTier::start(const std::string& name, Link& link) {
  Session& session = link.sessions.emplace_back();
  session.number = next_session_++;
  const KnownPeers::Peer* const peer = known_.find(name);
  if (peer != nullptr) session.life = peer->layout.owner;
  const std::uint64_t most = peer != nullptr ? most_staged(peer->share) : options_.staged_blocks;
  while (!link.waiting.empty() && session.wants.size() < most) {
    session.wants.push_back(std::move(link.waiting.front()));
    link.waiting.pop_front();
  }
  return begin_to_ask(name, session);
}

Status PeerTier::begin_to_ask(const std::string& name, Session& session) {
  session.ends = now() + options_.timeout;
  session.ask_again = now() + kAskAgain;
  session.pause = kAskAgain;
  const Status asked = ask(name, session);
  // So much waits for it already: it is asked again, as one that has not answered.
  return asked.code() == Code::exhausted ? Status() : asked;
}

Status PeerTier::ask(const std::string& name, Session& session) {
  PeerMessage message{.word = PeerMessage::Word::ask, .session = session.number};
  for (const auto& want : session.wants) {
    if (want->task == nullptr) continue;
    message.hashes.push_back(want->task->hash);
    message.parents.push_back(want->task->parent.value_or(0));
  }
  TOWPATH_TRY(const Bytes bytes, encode(message));
  return options_.agent->notify(name, bytes);
}

PeerTier::Session* PeerTier::find_session(const std::string& name, std::uint64_t number) {
  const auto link = links_.find(name);
  if (link == links_.end()) return nullptr;
  const auto session = std::ranges::find(link->second.sessions, number, &Session::number);
  return session == link->second.sessions.end() ? nullptr : &*session;
}

void PeerTier::hear(const std::string& name, const PeerMessage& answer) {
  Session* const session = find_session(name, answer.session);
  // What was granted when nobody waits for it any more, the peer need not hold.
  if (session == nullptr && !answer.granted.empty()) return release(name, answer.session);
  if (session == nullptr || session->granted) return;
  session->granted = answer.granted;
  session->not_now = answer.not_now;
  session->lease_ends = now() + answer.lease;
}

bool PeerTier::is_of_this_life(const std::string& name, const Session& session) const {
  const KnownPeers::Peer* const peer = known_.find(name);
  return peer != nullptr && peer->layout.owner == session.life;
}

bool PeerTier::is_lost(const std::string& name) const {
  const auto peer = options_.agent->peer(name);
  return !peer.ok() || peer->lost;
}

/// What can be done now. True: something was. Errors: why the session has failed.
Result<bool> PeerTier::step(const std::string& name, Link& link, Session& session) {
  const bool took = take_arrived(name, link, session);
  if (session.copy && session.copy->ended()) {
    TOWPATH_TRY(session.copy->status());
    release(name, session.number);
    session.is_over = true;
    return true;
  }
  if (took) {
    session.ends = now() + options_.timeout;
    return true;
  }
  if (session.granted && !session.copy) {
    if (!may_begin_copy(name, link, session)) return false;
    // It may have waited for the one before it, and other blocks be in its slots by now.
    if (now() >= session.lease_ends && !std::exchange(session.is_renewed, true)) {
      session.granted.reset();
      TOWPATH_TRY(begin_to_ask(name, session));
      return true;
    }
    TOWPATH_TRY(begin_copy(name, link, session));
    return true;
  }
  if (now() >= session.ends || (!session.copy && is_lost(name)))
    return error(is_lost(name) ? Code::peer_lost : Code::timed_out,
                 cat("peer '", printable(name), "' was asked for ", session.wants.size(),
                     " blocks and has not ", session.copy ? "given them" : "answered"),
                 "see whether it lives, and is served by a thread");
  if (!session.granted && now() >= session.ask_again) {  // it may not have known us yet
    (void)ask(name, session);
    session.ask_again = now() + (session.pause *= 2);
  }
  return false;
}

/// Who gets what of it. What the peer has not given is looked for at others; where it says that it
/// has it and no room, it is known to have it still.
std::vector<PeerTier::Part> PeerTier::sort_out(const std::string& name, const Session& session) {
  std::map<BlockHash, GrantedBlock> granted;
  for (const GrantedBlock& one : *session.granted) granted[one.hash] = one;
  std::vector<Part> parts;
  for (const auto& want : session.wants) {
    if (want->task == nullptr) continue;
    const BlockHash hash = want->task->hash;
    if (const auto given = granted.find(hash); given != granted.end()) {
      parts.push_back({want, given->second});
      continue;
    }
    if (std::ranges::find(session.not_now, hash) != session.not_now.end())
      want->no_room.insert(name);
    else
      known_.lose(name, hash);
    miss(*want, error(Code::not_found,
                      cat("peer '", printable(name), "' has block ", hex(hash), " no more")));
  }
  return parts;
}

/// Whether all of them are blocks of ours, whole, asked of this peer alone, and their tasks' bytes
/// memory that can be named.
bool PeerTier::may_land(const KnownPeers::Peer& peer, const Wants& wants) const {
  return memory_ && peer.share.heads() == options_.share.heads() &&
         std::ranges::all_of(wants, [](const auto& want) {
           return want->task == nullptr || (!want->is_shared && want->task->slot.has_value());
         });
}

/// The first; and the next one when what is left of the first is on its way, where both land.
bool PeerTier::may_begin_copy(const std::string& name, const Link& link,
                              const Session& session) const {
  const Session& first = link.sessions.front();
  if (&first == &session) return true;
  const KnownPeers::Peer* const peer = known_.find(name);
  return first.copy && !first.is_staged &&
         first.parts_left * block_bytes_ <= kMostChunks * kChunkBytes && peer != nullptr &&
         may_land(*peer, session.wants);
}

Status PeerTier::begin_copy(const std::string& name, Link& link, Session& session) {
  const KnownPeers::Peer* const peer = known_.find(name);
  if (peer == nullptr || !is_of_this_life(name, session))
    return error(Code::peer_lost, cat("peer '", printable(name), "' has left"));
  session.is_staged = !may_land(*peer, session.wants);
  const std::vector<Part> parts = sort_out(name, session);
  if (session.is_staged) TOWPATH_TRY(make_staging(*peer, link));
  std::vector<layout::BlockPair> pairs;
  for (const Part& part : parts) {
    const std::uint64_t slot = session.is_staged ? pairs.size() : *part.want->task->slot;
    session.parts.emplace(slot, part);
    pairs.push_back({part.granted.slot, slot});
  }
  session.parts_left = session.parts.size();
  session.arrived = std::make_shared<std::vector<layout::BlockRange>>();
  TOWPATH_TRY(session.copy,
              options_.manager->copy(
                  {.source = peer->layout,
                   .target = session.is_staged ? link.staged : *memory_,
                   .blocks = layout::ranges_of(pairs),
                   .chunk_bytes = kChunkBytes,
                   .most_chunks = kMostChunks,
                   .on_blocks = [arrived = session.arrived](const layout::BlockRange& blocks) {
                     arrived->push_back(blocks);
                   }}));
  session.ends = now() + options_.timeout;
  return {};
}

std::uint64_t PeerTier::most_staged(const CacheShare& theirs) const {
  const std::uint64_t times = theirs.heads().count / options_.share.heads().count;
  if (times <= kWholeSessionsUpTo) return options_.staged_blocks;
  return std::max<std::uint64_t>(1, options_.staged_blocks * kWholeSessionsUpTo / times);
}

Status PeerTier::make_staging(const KnownPeers::Peer& peer, Link& link) {
  const CacheShare& is = link.staged_share;
  if (link.staging && is.config == peer.share.config && is.first_head == peer.share.first_head)
    return {};
  drop_staging(link);
  link.staged_share = peer.share;
  layout::LayoutConfig config = peer.share.config;
  config.num_blocks = most_staged(peer.share);
  config.alignment = 1;
  config.format = layout::BlockFormat::nhd;
  TOWPATH_TRY(link.staging,
              layout::build_layout({.registrar = &options_.manager->registrar(),
                                    .config = config,
                                    .kind = layout::LayoutKind::fully_contiguous,
                                    .memory = memory::Allocation{.kind = MemoryKind::system}}));
  TOWPATH_TRY(link.staged, options_.manager->register_layout(
                               *link.staging, {.tier = "borrowed",
                                               .first_layer = peer.share.first_layer,
                                               .first_head = peer.share.first_head}));
  return {};
}

void PeerTier::drop_staging(Link& link) {
  if (!link.staging) return;
  (void)options_.manager->unregister_layout(link.staged);
  link.staging.reset();
}

// What comes -------------------------------------------------------------------------------------

/// True: something has.
bool PeerTier::take_arrived(const std::string& name, Link& link, Session& session) {
  if (!session.copy) return false;
  const std::vector<layout::BlockRange> arrived = std::exchange(*session.arrived, {});
  for (const layout::BlockRange& range : arrived)
    for (std::uint64_t i = 0; i < range.count; ++i)
      take_part(name, link, session, range.target_first + i);
  return !arrived.empty();
}

/// What the peer has given wrong is not looked for there again. A staged block whose share is ours
/// is copied to its task in the pass that proves it; of parts that were proven, and then cut, the
/// block is what they make.
void PeerTier::take_part(const std::string& name, Link& link, Session& session,
                         std::uint64_t slot) {
  --session.parts_left;
  const Part& part = session.parts.at(slot);
  Want& want = *part.want;
  if (want.task == nullptr) return;
  const TierTask& task = *want.task;
  const auto came = session.is_staged ? in_one_piece(*link.staging, slot) : task.bytes;
  if (!came) return end(want, error(Code::internal, "a staging in pieces"));
  const bool is_whole = session.is_staged && options_.share.heads() == link.staged_share.heads();
  const Digest& granted = part.granted.digest;
  const Digest found = is_whole
                           ? copy_and_digest(task.bytes, *came, granted.salt, granted.algorithm)
                           : digest_of(*came, granted.salt, granted.algorithm);
  if (const Status good = prove(found, part.granted); !good.ok()) {
    known_.lose(name, task.hash);
    return miss(want, good);
  }
  if (!task.parent) want.task->parent = part.granted.parent;
  if (!session.is_staged) return finish(want, granted);
  if (!is_whole) cut(want, link, *came);
  if (--want.parts_missing > 0) return;
  // A peer that was asked may have come back with other heads meanwhile.
  if (!is_whole && std::ranges::find(want.heads, false) != want.heads.end())
    return miss(want, error(Code::peer_lost, cat("parts of block ", hex(task.hash), " are missing"),
                            "its peers have other heads than when they were asked"));
  ++figures_.staged;
  finish(want, is_whole ? granted : digest_of(task.bytes, task.hash));
}

Status PeerTier::prove(const Digest& found, const GrantedBlock& granted) {
  const Digest& wanted = granted.digest;
  if (found == wanted && wanted.salt == granted.hash) return {};
  ++figures_.not_proven;
  return error(Code::corrupt, cat("block ", hex(granted.hash), " came from a peer as ",
                                  to_string(found), ", and was leased as ", to_string(wanted)));
}

void PeerTier::cut(Want& want, const Link& link, ConstByteSpan came) const {
  const layout::IndexRange ours = options_.share.heads(), theirs = link.staged_share.heads();
  const layout::LayoutConfig& config = options_.share.config;
  copy_heads(came, theirs, want.task->bytes, ours,
             config.inner_dim / ours.count * config.dtype_width_bytes);
  const layout::IndexRange both = common(ours, theirs);
  want.heads.resize(ours.count);
  for (std::uint64_t i = 0; i < both.count; ++i) want.heads[both.first - ours.first + i] = true;
}

void PeerTier::finish(Want& want, const Digest& digest) {
  want.task->digest = digest;
  ++figures_.leased;
  end(want, {});
}

void PeerTier::release(const std::string& name, std::uint64_t session) {
  const auto bye = encode(PeerMessage{.word = PeerMessage::Word::release, .session = session});
  if (bye.ok()) (void)options_.agent->notify(name, *bye);
}

/// What it was asked for, or would have been, is looked for elsewhere.
void PeerTier::fail(const std::string& name, Link& link, const Status& cause) {
  std::deque<Session> sessions = std::exchange(link.sessions, {});
  // The agent may have let go of a peer that has died before we were told.
  const Status why = cause.code() == Code::not_found && is_lost(name)
                         ? error(Code::peer_lost, cat("peer '", printable(name), "' has left"),
                                 "nothing: others are asked, and it when it is back")
                               .because(cause)
                         : cause;
  figures_.failed_sessions += sessions.size();
  figures_.last_failure = why;
  // What a next life has reported is as good as it was.
  if (sessions.empty() || std::ranges::any_of(sessions, [&](const Session& session) {
        return is_of_this_life(name, session);
      }))
    known_.lose_all(name);
  for (const auto& want : std::exchange(link.waiting, {})) miss(*want, why);
  link.leaving = {.copies = {}, .wants = {}, .why = why};
  for (Session& session : sessions) {
    release(name, session.number);  // it may grant it yet
    std::ranges::move(session.wants, std::back_inserter(link.leaving.wants));
    if (!session.copy) continue;
    session.copy->cancel();
    link.leaving.copies.push_back(*std::move(session.copy));
  }
}

}  // namespace towpath::kv
