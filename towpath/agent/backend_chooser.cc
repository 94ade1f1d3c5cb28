#include <towpath/agent/backend_chooser.h>

namespace towpath::agent {

TransferShape TransferShape::of(TransferOp op, const PreparedSide& local,
                                const PreparedSide& remote, const Selection& selection) {
  const std::uint64_t size = local.list.size();
  const std::uint64_t descriptors = selection.count_in(size);
  return {.op = op,
          .local = local.list.kind(),
          .remote = remote.list.kind(),
          .descriptors = descriptors,
          .bytes = size == 0 ? 0 : local.list.total_bytes() / size * descriptors};
}

Offer Offer::of(const TransferShape& shape, std::size_t instance, const backend::Cost& cost,
                const PathTimes::Known& known) {
  Offer offer{.instance = instance,
              .cost = cost.latency,
              .margin = known.spread,
              .is_measured = cost.measured || known.time.has_value(),
              .wants_trial = known.wants_trial,
              .has_failed = known.has_failed};
  offer.cost += cost.per_segment * static_cast<std::int64_t>(shape.descriptors);
  if (cost.bytes_per_second > 0) {
    const double seconds = static_cast<double>(shape.bytes) / cost.bytes_per_second;
    offer.cost += Duration(static_cast<std::int64_t>(seconds * 1e9));
  }
  if (known.time) offer.cost = *known.time;
  return offer;
}

bool BackendChooser::is_better(const Offer& offer, const Offer& than) {
  if (offer.wants_trial != than.wants_trial) return offer.wants_trial;
  if (offer.has_failed != than.has_failed) return than.has_failed;
  return offer.cost < than.cost;
}

std::string_view BackendChooser::reason_of(const Offer& offer) const {
  if (!best_ || offer.instance == best_->instance)
    return offer.wants_trial   ? "is tried, so that its time is known"
           : offer.is_measured ? "was fastest"
                               : "costs least";
  if (offer.wants_trial) return "is tried next";
  if (offer.has_failed) return "failed when it was tried";
  if (best_->wants_trial) return "has been tried";
  return offer.is_measured ? "was slower" : "costs more";
}

}  // namespace towpath::agent
