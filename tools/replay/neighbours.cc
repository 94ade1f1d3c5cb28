#include "tools/replay/neighbours.h"

#include <towpath/core/format.h>
#include <towpath/standard/rendezvous_url.h>

#include "tools/replay/meeting.h"

namespace towpath::tools::replay {
namespace {

// Long beside a request: one that stands still costs misses, one that is dead is noticed at once.
constexpr Duration kTimeout = std::chrono::seconds(2);
constexpr Duration kLease = std::chrono::seconds(10);
// Short beside a run: what was made is soon known.
constexpr Duration kPace = std::chrono::milliseconds(20);

}  // namespace

Result<std::unique_ptr<Neighbours>> Neighbours::open(const Options& options, const Parts& parts,
                                                     const layout::LayoutConfig& config) {
  std::unique_ptr<Neighbours> made(new Neighbours(options));
  TOWPATH_TRY(
      made->manager_,
      blockcopy::TransferManager::create(
          {.agent = &parts.agent, .clock = &parts.clock, .default_timeout = options.timeout}));
  made->reported_ = {.agent = &parts.agent,
                     .manager = made->manager_.get(),
                     .block_directory = &parts.block_directory,
                     .tier = parts.tier,
                     .share = {.name_space = cat(options.model, " at 1/", options.scale, " by ",
                                                 options.tokens_per_block),
                               .config = config},
                     .timeout = kTimeout};
  TOWPATH_TRY(made->untaken_, kv::PeerTier::make(made->reported_));
  made->tier_ = made->untaken_.get();
  return made;
}

Status Neighbours::join(kv::TieredCache& cache) {
  TOWPATH_TRY(leases_, kv::PeerLeases::make(reported_, kLease, *tier_, cache));
  TOWPATH_TRY(auto place, standard::open_rendezvous(options_.rendezvous, manager_->clock()));
  leases_->join(
      std::move(place),
      {.others = neighbour_names(options_), .group = cat(options_.run, "/blocks"), .pace = kPace});
  return {};
}

void Neighbours::hear(const agent::Notification& note) { (void)leases_->hear(note); }

void Neighbours::serve() {
  leases_->note_changes(reported_.block_directory->take_events());
  leases_->serve();
}

std::string Neighbours::where() const {
  return cat("leased from other prefills, over ", options_.backend, "; proven by digest");
}

}  // namespace towpath::tools::replay
