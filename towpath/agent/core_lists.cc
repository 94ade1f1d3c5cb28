// AgentCore: one side of transfers, looked up.
#include <towpath/agent/core.h>
#include <towpath/core/text.h>

namespace towpath::agent {

/// Finds records in one side's regions; a peer's are imported on first use, all of a list at once,
/// by the backend that would be taken if nothing speaks against it: the others are asked when they
/// are chosen (AgentCore::import_rest()).
/// Lives while its maker holds the agent's control mutex, which clang cannot follow through
/// Resolver.
class PeerResolver final : public ResolvedList::Resolver {
 public:
  /// `peer`: null for the agent's own.
  PeerResolver(AgentCore& core, Peer* peer) : core_(core), peer_(peer) {}

  Result<RecordPtr> resolve(MemoryKind kind,
                            const Descriptor& what) override TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
    const RegionEntry* const found =
        peer_ != nullptr ? peer_->regions.find(kind, what) : core_.regions_.find(kind, what);
    if (found == nullptr) {
      const std::string whose =
          peer_ != nullptr ? cat("of ", to_string(peer_->identity)) : std::string("of this agent");
      return error(
          Code::not_found, cat(to_string(kind, what), " lies in no registered region ", whose),
          peer_ != nullptr ? "load a newer card of the peer" : "register the region first");
    }
    if (peer_ != nullptr && found->record->slots == 0) {
      if (found->record->unasked == 0) return out_of_reach(*found->record);
      wanted_.push_back(found);
    }
    return found->record;
  }

  std::optional<Useless> settle() override TOWPATH_NO_THREAD_SAFETY_ANALYSIS {
    if (wanted_.empty()) return std::nullopt;
    const MemoryRecord* const useless = core_.import_by_some(*peer_, wanted_);
    if (useless == nullptr) return std::nullopt;
    return Useless{useless, out_of_reach(*useless)};
  }

 private:
  Status out_of_reach(const MemoryRecord& record) const {
    const Status last = record.refusals.empty() ? Status() : record.refusals.back().second;
    return error(Code::unavailable,
                 cat(to_string(record.region), " of ", to_string(peer_->identity),
                     " can be reached by no backend"))
        .because(last);
  }

  AgentCore& core_;
  Peer* peer_;
  std::vector<const RegionEntry*> wanted_;  // stay where they are: no card is loaded meanwhile
};

Status AgentCore::set_whose(PreparedSide& side, std::optional<std::string_view> name) {
  if (closed_.load()) return error(Code::not_ready, "the agent was shut down");
  if (!name) return {};
  TOWPATH_TRY(side.peer, find_peer(*name));
  if (!side.peer->lost.load(std::memory_order_acquire)) return {};
  return error(Code::peer_lost, cat(to_string(side.peer->identity), " is lost"),
               "load its new card when it is back");
}

namespace {

/// Null: of the agent itself.
Peer* other_of(const PreparedSide& side) {
  return side.peer && !side.peer->is_self ? side.peer.get() : nullptr;
}

}  // namespace

Status AgentCore::resolve_side(PreparedSide& side, const PlainList& list,
                               std::optional<std::string_view> peer) {
  TOWPATH_TRY(set_whose(side, peer));
  PeerResolver resolver(*this, other_of(side));
  return side.list.assign(list.kind, list.stretches, resolver);
}

Result<PreparedList> AgentCore::prepare(const DescriptorList& list,
                                        std::optional<std::string_view> peer) {
  const auto side = std::make_shared<PreparedSide>();
  side->agent = weak_from_this();
  run::MutexLock lock(control_);
  TOWPATH_TRY(set_whose(*side, peer));
  PeerResolver resolver(*this, other_of(*side));
  TOWPATH_TRY(side->list, ResolvedList::make(list, resolver));
  return PreparedList(side);
}

Result<PreparedList> AgentCore::prepare(const PlainList& list,
                                        std::optional<std::string_view> peer) {
  const auto side = std::make_shared<PreparedSide>();
  side->agent = weak_from_this();
  run::MutexLock lock(control_);
  TOWPATH_TRY(resolve_side(*side, list, peer));
  return PreparedList(side);
}

std::uint64_t PreparedList::size() const noexcept { return side_ ? side_->list.size() : 0; }

// ---- sides that belong to one transfer: long lists would be given back to the kernel, and taken
// from it page by page, for each

std::shared_ptr<PreparedSide> AgentCore::take_side() {
  run::MutexLock lock(pool_mutex_);
  if (!spare_sides_.empty()) {
    std::shared_ptr<PreparedSide> side = std::move(spare_sides_.back());
    spare_sides_.pop_back();
    return side;
  }
  const auto side = std::make_shared<PreparedSide>();
  side->agent = weak_from_this();
  return side;
}

void AgentCore::put_back(std::shared_ptr<PreparedSide> side) {
  constexpr std::size_t kMaxSpare = 8;
  side->list.clear();
  side->peer.reset();
  run::MutexLock lock(pool_mutex_);
  if (spare_sides_.size() < kMaxSpare && !closed_.load()) spare_sides_.push_back(std::move(side));
}

}  // namespace towpath::agent
