// Transfers: what each backend has to offer for a transfer, for BackendChooser to choose among.
#include <algorithm>
#include <utility>

#include <towpath/agent/transfers.h>
#include <towpath/core/format.h>

namespace towpath::agent {
namespace {

// Cheap, and without a lock: of what it reads, only what backends have imported may change.
bool may_be_possible(const PreparedSide& local, const PreparedSide& remote, TransferOp op,
                     const BackendInstance& instance) {
  const Peer& peer = *remote.peer;
  const InstanceMask open = remote.list.open_instances();
  const InstanceMask know_all = local.list.instances() & (open | remote.list.instances());
  const InstanceMask reachable = peer.reachable.load(std::memory_order_relaxed);
  return (know_all & reachable & instance_bit(instance.index)) != 0 &&
         instance.backend->capabilities().pair(local.list.kind(), remote.list.kind(), op,
                                               peer.is_self) != nullptr;
}

/// Of one that may be possible: it has imported all of the peer's memory.
bool knows_all(const PreparedSide& remote, const BackendInstance& instance) {
  return (remote.list.instances() & instance_bit(instance.index)) != 0;
}

}  // namespace

Transfers::Choice Transfers::choice_of(TransferOp op, const Sides& sides,
                                       const TransferOptions& options) const {
  // Acquire: pairs with the release in note_memory_gone().
  const std::uint64_t generation = context_.memory_generation.load(std::memory_order_acquire);
  sides.local->list.leave_out_gone(generation);
  sides.remote->list.leave_out_gone(generation);
  return {TransferShape::of(op, *sides.local, *sides.remote, options.local), *sides.local,
          *sides.remote, options};
}

Result<Transfers::Order> Transfers::order_of(const Choice& choice) const {
  Order order;
  for (const std::string& name : choice.options.backends) {
    TOWPATH_TRY(BackendInstance * instance, backends_.find(name));
    const auto before = order.all();
    if (std::ranges::find(before, instance->index) != before.end()) continue;
    order.index[order.count++] = instance->index;
  }
  order.asked = order.count > 0;
  const std::size_t all = order.asked ? 0 : backends_.all().size();
  for (std::size_t i = 0; i < all; ++i) order.index[order.count++] = i;
  return order;
}

PathTimes::Known Transfers::known_of(const Choice& choice, const BackendInstance& instance) const {
  const unsigned trials = context_.options.path_trials;
  if (trials == 0 || !choice.shape.is_measured()) return {};
  return choice.remote.peer->times.known(choice.shape.alike(), instance.index, choice.shape.bytes,
                                         trials);
}

Offer Transfers::offer_of(const Choice& choice, BackendInstance& instance) {
  const backend::Cost cost = engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
    const PeerPath& path = choice.remote.peer->paths[instance.index];
    return path.connection ? instance.backend->cost(*path.connection)
                           : instance.backend->capabilities().cost;
  });
  return Offer::of(choice.shape, instance.index, cost, known_of(choice, instance));
}

// The first one that the user asked for is taken, whatever it costs.
BackendChooser Transfers::consider(const Choice& choice, const Order& order) {
  BackendChooser chooser;
  for (const std::size_t index : order.all()) {
    BackendInstance& instance = backends_.at(index);
    if (!may_be_possible(choice.local, choice.remote, choice.shape.op, instance)) continue;
    if (!order.asked) {
      chooser.consider(offer_of(choice, instance));
      continue;
    }
    chooser.consider({.instance = index, .wants_trial = known_of(choice, instance).wants_trial});
    break;
  }
  return chooser;
}

// The best one may have yet to import the peer's memory. Then it is asked to, once, and if it
// cannot, the best of the others is taken: the same as if all had been asked before. Of a list that
// does not stand any more none is asked; making the transfer finds that out.
Result<Offer> Transfers::choose(const Choice& choice) {
  TOWPATH_TRY(const Order order, order_of(choice));
  while (const std::optional<Offer> best = consider(choice, order).best()) {
    BackendInstance& instance = backends_.at(best->instance);
    if (knows_all(choice.remote, instance) || !peers_.import_rest(choice.remote, instance))
      return *best;
  }
  return no_backend(choice, order);
}

Status Transfers::no_backend(const Choice& choice, const Order& order) {
  std::string reasons;
  for (const std::size_t index : order.all()) {
    BackendInstance& instance = backends_.at(index);
    reasons.append(cat("; ", instance.name, ": ", refusal(choice, instance).message()));
  }
  return error(
      Code::unsupported,
      cat("no backend can ", name_of(choice.shape.op), " ", name_of(choice.shape.local), " <-> ",
          name_of(choice.shape.remote), " with ", printable(choice.remote.peer->identity.name),
          order.count == 0 ? "; the agent has none" : reasons),
      "add a backend that can, before registering memory");
}

/// Why a backend that is not possible is not.
Status Transfers::refusal(const Choice& choice, BackendInstance& instance) {
  const InstanceMask bit = instance_bit(instance.index);
  const Peer& peer = *choice.remote.peer;
  const TransferShape& shape = choice.shape;
  const auto& can = instance.backend->capabilities();
  if (can.pair(shape.local, shape.remote, shape.op, peer.is_self) == nullptr) {
    return error(Code::unsupported,
                 cat("it does not ", name_of(shape.op), " between ", name_of(shape.local), " and ",
                     name_of(shape.remote), peer.is_self ? " of the agent itself" : " of a peer"));
  }
  if ((peer.reachable.load() & bit) == 0) {
    const Status why = engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) {
      return peer.paths[instance.index].refusal;
    });
    return error(Code::unavailable,
                 cat("it does not reach ", printable(peer.identity.name), ": ",
                     why.ok() ? std::string_view("the peer has no such backend") : why.message()));
  }
  if ((choice.local.list.instances() & bit) == 0)
    return error(Code::not_found, "not all local memory is registered with it");
  if ((choice.remote.list.open_instances() & bit) != 0)
    return error(Code::not_found, "a region is no longer in the peer's metadata");
  if (Status why = peers_.import_refusal(choice.remote.list, instance); !why.ok()) return why;
  return error(Code::not_found, "not all remote memory is registered with it");
}

// ---- explaining ----

/// A backend that is asked why not must have been asked to import.
void Transfers::import_everywhere(const Choice& choice, const Order& order) {
  for (const std::size_t index : order.all()) {
    BackendInstance& instance = backends_.at(index);
    if (may_be_possible(choice.local, choice.remote, choice.shape.op, instance) &&
        !knows_all(choice.remote, instance))
      (void)peers_.import_rest(choice.remote, instance);
  }
}

Result<Explanation> Transfers::explain(TransferOp op, const Sides& sides,
                                       const TransferOptions& options) {
  const Choice choice = choice_of(op, sides, options);
  Explanation explained;
  explained.what =
      cat(name_of(op), " ", format_bytes(choice.shape.bytes), " in ", choice.shape.descriptors,
          " descriptors, ", name_of(choice.shape.local), op == TransferOp::read ? " <- " : " -> ",
          name_of(choice.shape.remote), " of ", printable(choice.remote.peer->identity.name));
  TOWPATH_TRY(const Order order, order_of(choice));
  import_everywhere(choice, order);
  (void)choose(choice);  // imports what is left, as a transfer would
  const BackendChooser chooser = consider(choice, order);
  for (const std::size_t index : order.all())
    explained.candidates.push_back(candidate_of(choice, backends_.at(index), chooser, order.asked));
  return explained;
}

Candidate Transfers::candidate_of(const Choice& choice, BackendInstance& instance,
                                  const BackendChooser& chooser, bool asked) {
  const bool possible = may_be_possible(choice.local, choice.remote, choice.shape.op, instance) &&
                        knows_all(choice.remote, instance);
  Candidate candidate{.backend = instance.name, .possible = possible};
  if (!possible) {
    candidate.reason = refusal(choice, instance).message();
    return candidate;
  }
  const Offer offer = offer_of(choice, instance);
  candidate.estimate = offer.cost;
  candidate.margin = offer.margin;
  candidate.measured = offer.is_measured;
  candidate.chosen = chooser.best() && chooser.best()->instance == instance.index;
  candidate.reason = !asked             ? chooser.reason_of(offer)
                     : candidate.chosen ? "asked for"
                                        : "comes later in what was asked for";
  candidate.path = path_over(choice, instance);
  return candidate;
}

// Of a backend that knows both sides: what it made of them stands while its mutex is held.
std::string Transfers::path_over(const Choice& choice, BackendInstance& instance) {
  if (choice.local.list.records().empty()) return {};
  return engine_.with(instance, [&]() TOWPATH_REQUIRES(instance.mutex) -> std::string {
    const backend::Memory* here = choice.local.list.records().front()->memory[instance.index].get();
    const backend::Memory* there =
        choice.remote.list.records().front()->memory[instance.index].get();
    return here != nullptr && there != nullptr ? instance.backend->describe_path(*here, *there)
                                               : "";
  });
}

Explanation Transfers::explain(const TransferCore& transfer) {
  auto explained = explain(transfer.op, Sides{transfer.local, transfer.remote}, transfer.options);
  return explained.ok() ? *std::move(explained)
                        : Explanation{.what = explained.status().to_string(), .candidates = {}};
}

}  // namespace towpath::agent
