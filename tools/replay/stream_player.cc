#include "tools/replay/stream_player.h"

#include <algorithm>

#include <towpath/core/format.h>

#include "tools/bench/pattern.h"
#include "tools/replay/stream_owner.h"

namespace towpath::tools::replay {
namespace {

constexpr Duration kNap = std::chrono::milliseconds(20);
constexpr Duration kAwake = std::chrono::milliseconds(1);  // before a move: sleeps are that rough

}  // namespace

Result<std::unique_ptr<StreamPlayer>> StreamPlayer::open(const Options& options,
                                                         const Stream& stream) {
  std::unique_ptr<StreamPlayer> player(new StreamPlayer(options, stream));
  TOWPATH_TRY(player->node_, standard::Node::open({.name = decode_name(0),
                                                   .backends = {options.backend},
                                                   .progress_thread = false,
                                                   .default_timeout = options.timeout}));
  agent::Agent& agent = player->node_->agent();
  TOWPATH_TRY(player->memory_, memory::SystemRegion::allocate(stream.lanes * stream.area_bytes));
  TOWPATH_TRY(player->registration_, agent.register_region(player->memory_));
  TOWPATH_TRY(player->meeting_, Meeting::open(options, agent, player->node_->clock()));
  for (std::uint64_t lane = 0; lane < stream.lanes; ++lane) bench::poison(player->area(lane));
  return player;
}

Result<StreamOutcome> StreamPlayer::run(const Alive& owner_lives) {
  TOWPATH_TRY(meet(owner_lives));
  started_ = heard_ = node_->clock().now();
  while (next_ < stream_.moves.size() || busy_ > 0) {
    TOWPATH_TRY(launch_due());
    const bool more = node_->agent().progress();
    TOWPATH_TRY(const bool any_ended, reap());
    TOWPATH_TRY(const bool any_said, hear());
    if (any_ended || any_said || busy_ == 0) heard_ = node_->clock().now();
    if (!more && !any_ended && !any_said) TOWPATH_TRY(wait_for_work());
  }
  outcome_.seconds = static_cast<double>((node_->clock().now() - started_).count()) / 1e9;
  TOWPATH_TRY(send(node_->agent(), owner_, {.kind = MessageKind::finish}));
  TOWPATH_TRY(meeting_->next_message(std::span(&owner_, 1), options_.timeout));  // its farewell
  return std::move(outcome_);
}

Status StreamPlayer::meet(const Alive& owner_lives) {
  TOWPATH_TRY(meeting_->meet(owner_, options_.timeout, owner_lives));
  TOWPATH_TRY(const Meeting::Said said,
              meeting_->next_message(std::span(&owner_, 1), options_.timeout));
  if (said.message.kind != MessageKind::hello)
    return error(Code::internal, "the owner did not say hello");
  remote_address_ = figure_of(said.message, "address");
  remote_device_ = figure_of(said.message, "device");
  return {};
}

ByteSpan StreamPlayer::area(std::uint64_t lane) const {
  return memory_->bytes().subspan(lane * stream_.area_bytes, stream_.area_bytes);
}

Instant StreamPlayer::due(std::uint64_t ordinal) const {
  if (options_.speed == 0) return started_;
  const double wait = static_cast<double>(stream_.moves[ordinal].at.count()) / options_.speed;
  constexpr double kMost = 1e17;  // three years, in nanoseconds: no overflow
  return started_ + Duration(static_cast<std::int64_t>(std::min(wait, kMost)));
}

bool StreamPlayer::has_free_lane() const { return busy_ < lanes_.size(); }

Status StreamPlayer::launch_due() {
  while (next_ < stream_.moves.size() && has_free_lane()) {
    if (due(next_) > node_->clock().now()) return {};
    const auto lane = std::ranges::find(lanes_, Lane::State::free, &Lane::state);
    TOWPATH_TRY(launch(static_cast<std::uint64_t>(lane - lanes_.begin())));
  }
  return {};
}

Status StreamPlayer::launch(std::uint64_t index) {
  Lane& lane = lanes_[index];
  lane.ordinal = next_++;
  const Stream::Move& move = move_of(lane);
  if (move.op == TransferOp::write)
    bench::fill(area(index).first(move.area_bytes()), write_seed(lane.ordinal));
  TOWPATH_TRY(lane.transfer, make_transfer(index, move));
  outcome_.late.add(node_->clock().now() - due(lane.ordinal));
  lane.state = Lane::State::moving;
  ++busy_;
  return lane.transfer.post({.timeout = options_.timeout});
}

Result<agent::Transfer> StreamPlayer::make_transfer(std::uint64_t index, const Stream::Move& move) {
  const bool writes = move.op == TransferOp::write;
  StridedDescriptor runs{.address = address_of(area(index).data()),
                         .length = move.run_bytes,
                         .stride = move.stride,
                         .count = move.runs};
  DescriptorList local(MemoryKind::system), remote(MemoryKind::system);
  TOWPATH_TRY(local.add(runs));
  runs.address = remote_address_ + (writes ? stream_.lanes + index : index) * stream_.area_bytes;
  runs.device_id = remote_device_;
  TOWPATH_TRY(remote.add(runs));
  agent::TransferOptions how;
  if (writes) {
    TOWPATH_TRY(how.notification,
                encode({.kind = MessageKind::pulled,
                        .ordinal = lanes_[index].ordinal,
                        .blocks = {index, move.run_bytes, move.stride, move.runs}}));
  }
  return node_->agent().create_transfer(move.op, local, owner_, remote, how);
}

Result<bool> StreamPlayer::reap() {
  bool any = false;
  for (std::uint64_t index = 0; index < lanes_.size(); ++index) {
    if (lanes_[index].state != Lane::State::moving || !lanes_[index].transfer.ended()) continue;
    TOWPATH_TRY(ended(index));
    any = true;
  }
  return any;
}

Status StreamPlayer::ended(std::uint64_t index) {
  Lane& lane = lanes_[index];
  const Stream::Move& move = move_of(lane);
  if (lane.transfer.outcome() != Outcome::done)
    return error(lane.transfer.status().code(),
                 cat("move ", lane.ordinal, " ended as ", name_of(lane.transfer.outcome())))
        .because(lane.transfer.status());
  const bool writes = move.op == TransferOp::write;
  StreamOutcome::Path& path = writes ? outcome_.writes : outcome_.reads;
  TOWPATH_TRY(path.moved.add(lane.transfer));
  path.note_recorded(move);
  lane.transfer = {};
  if (writes) {
    lane.state = Lane::State::looked_at;
    return {};
  }
  settle(index, bench::first_wrong(area(index), {.seed = read_seed(index),
                                                 .block_bytes = move.run_bytes,
                                                 .stride = move.stride,
                                                 .count = move.runs}));
  return {};
}

Result<bool> StreamPlayer::hear() {
  const std::vector<agent::Notification> said = node_->agent().take_notifications();
  for (const agent::Notification& one : said) {
    TOWPATH_TRY(const Message message, decode(one.message));
    const bool fits = message.kind == MessageKind::ready && message.blocks.size() == 2 &&
                      message.blocks[0] < lanes_.size();
    if (!fits || lanes_[message.blocks[0]].ordinal != message.ordinal ||
        lanes_[message.blocks[0]].state != Lane::State::looked_at)
      return error(Code::internal, "an unexpected message of the owner");
    const std::uint64_t wrong = message.blocks[1];
    settle(message.blocks[0], wrong == 0 ? std::nullopt : std::optional(wrong - 1));
  }
  return !said.empty();
}

// Its bytes were verified, here or by the owner.
void StreamPlayer::settle(std::uint64_t index, std::optional<std::uint64_t> wrong) {
  Lane& lane = lanes_[index];
  const Stream::Move& move = move_of(lane);
  if (wrong) {
    ++outcome_.mismatches;
    outcome_.faults.add(cat("bytes: move ", lane.ordinal, ", a ", name_of(move.op), " of ",
                            format_bytes(move.bytes()), ", is wrong from byte ", *wrong,
                            " of its area on"));
  } else {
    ++outcome_.verified;
  }
  bench::poison(area(index).first(move.area_bytes()));
  lane.state = Lane::State::free;
  --busy_;
}

Status StreamPlayer::wait_for_work() {
  const Instant now = node_->clock().now();
  const bool may_launch = next_ < stream_.moves.size() && has_free_lane();
  const Duration nap = may_launch ? due(next_) - now - kAwake : kNap;
  if (nap.count() > 0) node_->agent().wait_for_work(std::min(kNap, nap));
  TOWPATH_TRY(check_alive(node_->agent(), owner_));
  if (busy_ > 0 && now - heard_ > options_.timeout)
    return error(
        Code::timed_out,
        cat("nothing has ended for ", options_.timeout / std::chrono::milliseconds(1), " ms"),
        "look at the owner: it may be stopped or overloaded");
  return {};
}

}  // namespace towpath::tools::replay
