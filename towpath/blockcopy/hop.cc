#include <algorithm>
#include <utility>

#include <towpath/blockcopy/box_copy.h>
#include <towpath/blockcopy/hop.h>
#include <towpath/core/format.h>

namespace towpath::blockcopy {
namespace {

using layout::CopyRun;

/// Ended before it was returned.
class MemoryHop final : public Hop {
 public:
  bool has_ended() override { return true; }
  Status status() const override { return {}; }
};

class EngineHop final : public Hop {
 public:
  EngineHop(device::CopyStream& stream, std::shared_ptr<device::Event> event)
      : stream_(stream), event_(std::move(event)) {}

  bool has_ended() override {
    if (ended_) return true;
    const auto done = event_->is_done();
    ended_ = !done.ok() || *done;
    if (done.ok()) return ended_;
    // A stream whose work failed may have passed some of it only.
    stream_.drop();
    status_ = done.status();
    return true;
  }
  Status status() const override { return status_; }
  bool needs_polling() const override { return true; }

 private:
  device::CopyStream& stream_;
  std::shared_ptr<device::Event> event_;
  Status status_;
  bool ended_ = false;
};

class AgentHop final : public Hop {
 public:
  explicit AgentHop(agent::Transfer transfer) : transfer_(std::move(transfer)) {}

  bool has_ended() override { return transfer_.ended(); }
  Status status() const override {
    return transfer_.outcome() == Outcome::done ? Status() : transfer_.status();
  }
  void cancel() override { transfer_.cancel(); }

 private:
  agent::Transfer transfer_;
};

Result<std::unique_ptr<Hop>> copy_in_memory(const HopRequest& request) {
  TOWPATH_TRY(copy_boxes(request.plan, {request.source.bytes, request.target.bytes}));
  return std::make_unique<MemoryHop>();
}

std::uint64_t source_address(const HopRequest& request, const CopyRun& run) {
  return request.source.regions[run.source_region].address + run.source_offset;
}
std::uint64_t target_address(const HopRequest& request, const CopyRun& run) {
  return request.target.regions[run.target_region].address + run.target_offset;
}

/// One call for a run of equal pieces where pitches allow it; else a copy for each piece.
Status give(const HopRequest& request, const CopyRun& run, device::Stream& stream,
            std::vector<device::Copy>& copies) {
  const std::uint64_t source = source_address(request, run);
  const std::uint64_t target = target_address(request, run);
  if (run.count > 1 && run.source_stride >= run.length && run.target_stride >= run.length)
    return stream.copy_2d({.target = target,
                           .target_pitch = run.target_stride,
                           .source = source,
                           .source_pitch = run.source_stride,
                           .width = run.length,
                           .rows = run.count});
  for (std::uint64_t i = 0; i < run.count; ++i)
    copies.push_back({.target = target + i * run.target_stride,
                      .source = source + i * run.source_stride,
                      .length = run.length});
  return {};
}

Status give_all(const HopRequest& request, device::Stream& stream, device::Event& event) {
  std::vector<device::Copy> copies;
  const layout::Plan runs = layout::to_runs(request.plan);
  for (const CopyRun& run : runs.runs()) TOWPATH_TRY(give(request, run, stream, copies));
  if (!copies.empty()) TOWPATH_TRY(stream.copy_batch(copies));
  return stream.record(event);
}

device::BoxCopy box_of(const HopRequest& request, const layout::CopyBox& box) {
  device::BoxCopy copy{
      .target = request.target.regions[box.target_region].address + box.target_offset,
      .source = request.source.regions[box.source_region].address + box.source_offset,
      .length = box.pieces.length()};
  for (const layout::PieceBox::Dimension& step : box.pieces.dimensions())
    copy.dimensions[copy.rank++] = {step.extent, step.source_stride, step.target_stride};
  return copy;
}

Status give_boxes(const HopRequest& request, device::Stream& stream, device::Event& event) {
  static_assert(device::BoxCopy::kMaxRank == layout::PieceBox::kMaxRank);
  std::vector<device::BoxCopy> boxes;
  boxes.reserve(request.plan.boxes().size());
  for (const layout::CopyBox& box : request.plan.boxes()) boxes.push_back(box_of(request, box));
  TOWPATH_TRY(stream.copy_boxes(boxes));
  return stream.record(event);
}

Result<std::unique_ptr<Hop>> copy_on_stream(const HopRequest& request, const HopTools& tools) {
  const auto give_work = request.mover == Mover::kernel ? give_boxes : give_all;
  const bool to_device = request.target.end == RouteEnd::device;
  const std::uint64_t ordinal = (to_device ? request.target : request.source).location.device_id;
  TOWPATH_TRY(const memory::SharedDevice device, tools.streams.device(ordinal));
  TOWPATH_TRY(device::CopyStream * stream, tools.streams.stream(ordinal));
  TOWPATH_TRY(std::shared_ptr<device::Event> event, device->create_event());
  auto hop = std::make_unique<EngineHop>(*stream, event);  // first: nobody would wait for the work
  TOWPATH_TRY(
      stream->give([&](device::Stream& given) { return give_work(request, given, *event); }));
  return hop;
}

/// Adds an extent of one of the side's regions; `what` begins at an offset in it.
Status add(DescriptorList& list, const CopySide& side, std::uint64_t region,
           StridedDescriptor what) {
  what.address += side.regions[region].address;
  what.device_id = device_id_of(side.location, side.regions[region]);
  return list.add(what);
}

Result<std::unique_ptr<Hop>> post_transfer(const HopRequest& request, const HopTools& tools) {
  const layout::Plan runs = layout::to_runs(request.plan);
  DescriptorList source(request.source.location.kind);
  DescriptorList target(request.target.location.kind);
  for (const CopyRun& run : runs.runs()) {
    TOWPATH_TRY(add(source, request.source, run.source_region,
                    {run.source_offset, run.length, run.source_stride, run.count}));
    TOWPATH_TRY(add(target, request.target, run.target_region,
                    {run.target_offset, run.length, run.target_stride, run.count}));
  }
  const bool is_read = request.mover == Mover::read;
  TOWPATH_TRY(
      agent::Transfer transfer,
      is_read
          ? tools.agent.create_transfer(TransferOp::read, target, request.source.agent, source)
          : tools.agent.create_transfer(TransferOp::write, source, request.target.agent, target));
  TOWPATH_TRY(transfer.post({.timeout = request.timeout, .notification = {}}));
  return std::make_unique<AgentHop>(std::move(transfer));
}

}  // namespace

Result<memory::SharedDevice> DeviceStreams::device(std::uint64_t ordinal) const {
  const auto found = std::ranges::find_if(
      devices_, [&](const memory::SharedDevice& d) { return d->info().ordinal == ordinal; });
  if (found != devices_.end()) return *found;
  return error(Code::not_found, cat("device ", ordinal, " was not given to the transfer manager"),
               "name it in TransferManagerOptions::devices");
}

Result<device::CopyStream*> DeviceStreams::stream(std::uint64_t ordinal) {
  const auto found = streams_.find(ordinal);
  if (found != streams_.end()) return &found->second;
  TOWPATH_TRY(memory::SharedDevice owner, device(ordinal));
  return &streams_.emplace(ordinal, std::move(owner)).first->second;
}

Result<std::unique_ptr<Hop>> start_hop(const HopRequest& request, const HopTools& tools) {
  switch (request.mover) {
    case Mover::none: break;
    case Mover::memory: return copy_in_memory(request);
    case Mover::engine:
    case Mover::kernel: return copy_on_stream(request, tools);
    case Mover::read:
    case Mover::write: return post_transfer(request, tools);
  }
  return error(Code::internal, "a hop without a mover", "please report this");
}

}  // namespace towpath::blockcopy
