#include <algorithm>
#include <utility>

#include <towpath/blockcopy/copy_runner.h>
#include <towpath/core/format.h>
#include <towpath/layout/plan.h>

namespace towpath::blockcopy {
namespace {

using layout::Axis;
using layout::IndexRange;

/// How long to sleep where the agent's wait_fd() does not report an end.
constexpr Duration kPollEvery = std::chrono::microseconds(100);
constexpr Duration kSleepAtMost = std::chrono::milliseconds(50);

// Shorter pieces would cross the bus a word at a time.
constexpr std::uint64_t kLeastOverBus = 32;

Result<CopySide> side_of(const CopyEnd& end, const std::optional<layout::BlockFormat>& format) {
  TOWPATH_TRY(const layout::TensorView view,
              end.geometry.view_as(format.value_or(end.geometry.config().format)));
  CopySide side{.view = view.placed_at(Axis::layer, end.options.first_layer)
                            .placed_at(Axis::head, end.options.first_head),
                .location = end.geometry.location(),
                .agent = end.geometry.agent().name,
                .end = end_of(end.geometry.location().kind, end.local == nullptr),
                .regions = {end.geometry.regions().begin(), end.geometry.regions().end()},
                .bytes = {},
                .keep = {}};
  if (end.local == nullptr) return side;
  side.keep.assign(end.local->regions().begin(), end.local->regions().end());
  if (side.end == RouteEnd::host)
    for (const auto& region : end.local->regions()) side.bytes.push_back(region->bytes());
  return side;
}

/// Shards have layers and heads of one whole; in all else they are as large.
Status check_shards(const layout::TensorView& source, const layout::TensorView& target) {
  for (const Axis axis : {Axis::outer, Axis::token, Axis::dim}) {
    if (source.range(axis) == target.range(axis)) continue;
    return error(Code::invalid_argument,
                 cat("source and target are no shards of one cache, they differ in ", name_of(axis),
                     ": ", to_string(source), "; and ", to_string(target)),
                 "build both from one configuration, with num_heads, but for layers and heads");
  }
  return {};
}

/// Both cut to the layers asked for, and, between shards, to what both have.
Status cut_views(CopySide& source, CopySide& target, const CopyRequest& request) {
  if (source.view[Axis::head].extent != target.view[Axis::head].extent && !request.between_shards) {
    TOWPATH_TRY(source.view, source.view.with_heads_joined());
    TOWPATH_TRY(target.view, target.view.with_heads_joined());
  }
  if (request.layers != layout::LayerRange::all()) {
    const IndexRange layers{request.layers.first, request.layers.count};
    TOWPATH_TRY(source.view, source.view.slice(Axis::layer, layers));
    TOWPATH_TRY(target.view, target.view.slice(Axis::layer, layers));
  }
  if (request.between_shards) TOWPATH_TRY(check_shards(source.view, target.view));
  TOWPATH_TRY(const layout::Overlap both, intersect(source.view, target.view));
  const bool is_whole = both.source == source.view && both.target == target.view;
  if (!is_whole && !request.between_shards)
    return error(Code::invalid_argument,
                 cat("source and target do not have the same layers and heads: ",
                     to_string(source.view), "; and ", to_string(target.view)),
                 "give a range of layers that both have, or say that they are shards");
  source.view = both.source;
  target.view = both.target;
  return {};
}

/// In the order of target blocks, neighbours together.
std::vector<layout::BlockRange> ranges_in(const std::vector<layout::BlockGroup>& groups) {
  std::vector<layout::BlockRange> ranges;
  for (const layout::BlockGroup& group : groups)
    for (std::uint64_t i = 0; i < group.repeats; ++i)
      ranges.push_back({group.range.source_first + i * group.source_step,
                        group.range.target_first + i * group.target_step, group.range.count});
  return ranges;
}

DescriptorList first_region(const CopySide& side) {
  const layout::RegionExtent& first = side.regions.front();
  DescriptorList list(side.location.kind);
  (void)list.add(Descriptor{first.address, first.length, device_id_of(side.location, first)});
  return list;
}

std::uint64_t layer_bytes(const layout::TensorView& view) {
  return view.bytes() / view[Axis::block].extent / view[Axis::layer].extent;
}

/// A store takes an object, which is a block, whole or not at all.
Status check_objects(const CopySide& target, const layout::Layout& geometry, bool layer_by_layer) {
  if (target.location.kind != MemoryKind::object) return {};
  if (!layer_by_layer && target.view.bytes() == geometry.view().bytes()) return {};
  return error(Code::unsupported,
               cat("objects are put whole: not layer by layer, and not ", to_string(target.view),
                   " of ", to_string(geometry)),
               "copy all layers and heads at once, or to memory or a file that can be changed in "
               "place");
}

Status check_chunks(const CopyRequest& request) {
  if (request.most_chunks > 0 && !(request.layer_by_layer && request.on_blocks)) return {};
  return error(Code::invalid_argument,
               request.most_chunks == 0 ? "a copy with no chunk under way"
                                        : "a copy layer by layer that reports whole blocks",
               "let it have one chunk or more, and report layers or blocks");
}

/// Whether the least that goes together fits a bounce slot.
Status check_slot(const ChunkLimits& limits, std::uint64_t layers, const Route& route,
                  std::uint64_t slot_bytes) {
  if (!limits.whole_blocks) layers = 1;
  if (limits.layer_bytes <= slot_bytes / layers) return {};
  return error(
      Code::exhausted,
      cat(layers, layers == 1 ? " layer" : " layers", " of one block, of ", limits.layer_bytes,
          " bytes each, do not fit a bounce slot of ", slot_bytes, " (", to_string(route), ")"),
      "raise BounceOptions::slot_bytes");
}

bool uses_kernel(const Route& route) {
  return route.first == Mover::kernel || route.second == Mover::kernel;
}

}  // namespace

Result<std::unique_ptr<CopyRunner>> CopyRunner::create(TransferManagerOptions options) {
  if (options.agent == nullptr || options.clock == nullptr || options.credits == 0 ||
      options.chunk_bytes == 0)
    return error(Code::invalid_argument, "a transfer manager needs an agent, its clock and credits",
                 "fill in TransferManagerOptions");
  if (std::ranges::count(options.devices, nullptr) > 0)
    return error(Code::invalid_argument, "a device of a transfer manager is null",
                 "leave out what could not be opened");
  TOWPATH_TRY(BouncePool pool,
              BouncePool::create(options.bounce.slots, options.bounce.slot_bytes, *options.agent,
                                 options.devices.empty() ? nullptr : options.devices.front()));
  // Compiled and loaded here, and not by the first copy that asks.
  for (const memory::SharedDevice& device : options.devices) (void)device->has_box_kernel();
  return std::unique_ptr<CopyRunner>(new CopyRunner(std::move(options), std::move(pool)));
}

CopyRunner::CopyRunner(TransferManagerOptions options, BouncePool pool)
    : options_(std::move(options)),
      pool_(std::move(pool)),
      streams_(options_.devices),
      times_(options_.short_piece_bytes, options_.path_trials) {}

CopyRunner::~CopyRunner() {
  for (const auto& job : jobs_)
    job->stop(Outcome::cancelled,
              error(Code::cancelled, "the transfer manager ended", "end copies before it"));
  while (!jobs_.empty())
    if (!progress()) wait_for_work(kSleepAtMost);
}

bool CopyRunner::kernel_reaches(const CopySide& device, const CopySide* other,
                                const layout::BoxPlan& plan) const {
  if (device.end != RouteEnd::device) return false;
  const bool is_pinned =
      other == nullptr ? pool_.is_pinned()
                       : other->end == RouteEnd::host && other->location.kind == MemoryKind::pinned;
  const bool is_device = other != nullptr && other->end == RouteEnd::device;
  if (!is_device && (!is_pinned || plan.shortest_piece() < kLeastOverBus)) return false;
  const auto runs_it = streams_.device(device.location.device_id);
  return runs_it.ok() && (*runs_it)->has_box_kernel().ok();
}

bool CopyRunner::is_direct(TransferOp op, const CopySide& local, const CopySide& remote) {
  const auto mine = options_.agent->prepare(first_region(local));
  const auto theirs = options_.agent->prepare_remote(remote.agent, first_region(remote));
  return mine.ok() && theirs.ok() && options_.agent->explain(op, *mine, *theirs).ok();
}

// As if pieces were short; way_of() asks whether they are.
Result<RouteFacts> CopyRunner::facts_of(const CopySide& source, const CopySide& target,
                                        const layout::BoxPlan& plan) {
  RouteFacts facts{.is_same_device = source.location == target.location,
                   .reorders_short_pieces = plan.form() == layout::CopyForm::permuted,
                   .has_short_pieces = plan.pieces() > 1};
  if (facts.has_short_pieces && times_.may_be_short(plan.shortest_piece())) {
    const bool writes_device = target.end == RouteEnd::device;
    const CopySide& device = writes_device ? target : source;
    facts.kernel_reaches_both = kernel_reaches(device, writes_device ? &source : &target, plan);
    facts.kernel_reaches_bounce = kernel_reaches(device, nullptr, plan);
  }
  const bool from_device = source.end == RouteEnd::device;
  const bool to_device = target.end == RouteEnd::device;
  if (from_device != to_device) {
    const CopySide& far = from_device ? target : source;
    const bool direct = (far.end == RouteEnd::storage || far.end == RouteEnd::remote) &&
                        (from_device ? is_direct(TransferOp::write, source, target)
                                     : is_direct(TransferOp::read, target, source));
    facts.storage_reaches_device = direct;
    facts.remote_reaches_device = direct;
  } else if (from_device && !facts.is_same_device) {
    TOWPATH_TRY(const memory::SharedDevice writes, streams_.device(target.location.device_id));
    TOWPATH_TRY(const memory::SharedDevice reads, streams_.device(source.location.device_id));
    TOWPATH_TRY(facts.devices_reach_each_other, writes->can_reach(*reads));
    if (facts.devices_reach_each_other) TOWPATH_TRY(writes->enable_peer(*reads));
  }
  return facts;
}

Result<CopyRunner::Way> CopyRunner::way_of(const CopySide& source, const CopySide& target,
                                           const layout::BoxPlan& plan) {
  TOWPATH_TRY(RouteFacts facts, facts_of(source, target, plan));
  const Route of_short = choose(source.end, target.end, facts);
  facts.reorders_short_pieces = facts.has_short_pieces = false;
  const Route of_long = choose(source.end, target.end, facts);
  const bool is_short = plan.shortest_piece() < options_.short_piece_bytes;
  if (!uses_kernel(of_short)) return Way{is_short ? of_short : of_long};
  const CopyTrial trial =
      times_.choose(source.end, target.end, plan.bytes(), plan.shortest_piece());
  return Way{trial.mover == PieceMover::kernel ? of_short : of_long, trial};
}

Result<std::shared_ptr<CopyJob>> CopyRunner::copy(const CopyEnd& from, const CopyEnd& to,
                                                  CopyRequest request) {
  TOWPATH_TRY(check_chunks(request));
  TOWPATH_TRY(CopySide source, side_of(from, request.source_format));
  TOWPATH_TRY(CopySide target, side_of(to, request.target_format));
  TOWPATH_TRY(cut_views(source, target, request));
  TOWPATH_TRY(check_objects(target, to.geometry, request.layer_by_layer));
  TOWPATH_TRY(const layout::BlockBounds bounds, bounds_of(from.geometry, to.geometry));
  TOWPATH_TRY(const std::vector<layout::BlockGroup> groups, group_blocks(request.blocks, bounds));
  TOWPATH_TRY(const layout::BoxPlan plan, plan_groups_of_blocks(source.view, target.view, groups));
  TOWPATH_TRY(const Way way, way_of(source, target, plan));
  const Route& route = way.route;
  ChunkLimits limits{
      .bytes = request.chunk_bytes.value_or(options_.chunk_bytes),
      .layer_bytes = layer_bytes(source.view),
      .layer_by_layer = request.layer_by_layer,
      .whole_blocks = target.location.kind == MemoryKind::object || request.on_blocks != nullptr};
  if (route.has_two_hops()) {
    limits.bytes = std::min(limits.bytes, pool_.slot_bytes());
    TOWPATH_TRY(check_slot(limits, source.view[Axis::layer].extent, route, pool_.slot_bytes()));
  }
  CopyJobParts parts{
      .source = std::move(source),
      .target = std::move(target),
      .route = route,
      .chunks = {},
      .deadline = options_.clock->now() + request.timeout.value_or(options_.default_timeout),
      .most_chunks = request.most_chunks,
      .on_layer = std::move(request.on_layer),
      .on_blocks = std::move(request.on_blocks),
      .trial = way.trial};
  parts.chunks = cut_chunks(ranges_in(groups), parts.source.view.range(Axis::layer), limits);
  jobs_.push_back(std::make_shared<CopyJob>(std::move(parts)));
  return jobs_.back();
}

bool CopyRunner::progress() {
  bool moved = options_.agent->progress();
  const Instant now = options_.clock->now();
  under_way_ = 0;
  for (const auto& job : jobs_) {
    moved = job->poll(tools(), pool_, now) || moved;
    under_way_ += job->under_way();
  }
  for (const auto& job : jobs_) note_time(*job);
  moved = start_chunks() || moved;
  std::erase_if(jobs_, [](const auto& job) { return job->has_ended(); });
  return moved;
}

/// What was cancelled or had no more time tells nothing of its way.
void CopyRunner::note_time(const CopyJob& job) {
  if (!job.trial() || !job.took()) return;
  if (job.outcome() == Outcome::done) times_.note(*job.trial(), job.took());
  if (job.outcome() == Outcome::failed) times_.note(*job.trial(), std::nullopt);
}

/// Jobs start chunks in turn, so that a large copy does not hold up a small one.
bool CopyRunner::start_chunks() {
  const Instant now = options_.clock->now();
  bool started = false;
  std::size_t idle = 0;
  for (std::size_t budget = options_.credits;
       budget > 0 && idle < jobs_.size() && under_way_ < options_.credits;) {
    CopyJob& job = *jobs_[next_job_++ % jobs_.size()];
    const auto slot =
        job.is_waiting() && job.needs_slot() ? pool_.take() : std::optional<std::uint64_t>();
    if (!job.is_waiting() || (job.needs_slot() && !slot)) {
      ++idle;
      continue;
    }
    const std::size_t before = job.under_way();
    job.start(tools(), pool_, slot, now);
    under_way_ += job.under_way() - before;
    most_under_way_ = std::max(most_under_way_, under_way_);
    started = true;
    idle = 0;
    --budget;
  }
  return started;
}

void CopyRunner::wait_for_work(Duration timeout) {
  const bool polls =
      std::ranges::any_of(jobs_, [](const auto& job) { return job->needs_polling(); });
  options_.agent->wait_for_work(std::min(timeout, polls ? kPollEvery : kSleepAtMost));
}

TransferFigures CopyRunner::figures() const {
  return {.jobs = jobs_.size(),
          .chunks_under_way = under_way_,
          .most_chunks_under_way = most_under_way_,
          .bounce_slots_in_use = pool_.in_use(),
          .most_bounce_slots_in_use = pool_.peak()};
}

}  // namespace towpath::blockcopy
