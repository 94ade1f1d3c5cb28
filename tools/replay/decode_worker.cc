#include "tools/replay/decode_worker.h"

#include <algorithm>
#include <cstdio>
#include <unordered_set>

#include <towpath/core/text.h>
#include <towpath/kv/diagnosis.h>
#include <towpath/kv/pattern.h>
#include <towpath/layout/builder.h>
#include <towpath/layout/plan.h>

#include "tools/units.h"

namespace towpath::tools::replay {
namespace {

constexpr Duration kLiveLineEvery = std::chrono::milliseconds(200);  // drawn over the last one
constexpr Duration kLogLineEvery = std::chrono::seconds(2);          // where no terminal reads

}  // namespace

Result<std::unique_ptr<DecodeWorker>> DecodeWorker::open(const Options& options) {
  TOWPATH_TRY(layout_kind_named(options.decode_layout));
  for (const std::uint64_t blocks :
       {options.host_blocks, options.disk_blocks, options.decode_blocks})
    TOWPATH_TRY(pool_config(options, blocks));
  std::unique_ptr<DecodeWorker> worker(new DecodeWorker(options));
  TOWPATH_TRY(worker->node_, standard::Node::open({.name = kDecode,
                                                   .backends = {options.backend},
                                                   .progress_thread = false,
                                                   .default_timeout = options.timeout}));
  TOWPATH_TRY(worker->meeting_,
              Meeting::open(options, worker->node_->agent(), worker->node_->clock()));
  return worker;
}

Result<ReplayOutcome> DecodeWorker::run(kv::RequestSource& source, const Alive& prefill_lives) {
  TOWPATH_TRY(meeting_->meet(kPrefill, options_.timeout, prefill_lives));
  TOWPATH_TRY(hear_hello());
  started_ = node_->clock().now();
  shown_ = started_;
  TOWPATH_TRY(fetch_next(source));
  while (true) {
    TOWPATH_TRY(fill_window(source));
    if (outstanding_.empty() && !next_) break;
    TOWPATH_TRY(const std::optional<Message> ready, hear());
    if (ready) TOWPATH_TRY(take_ready(*ready));
    show_progress(false);
  }
  outcome_.seconds = static_cast<double>((node_->clock().now() - started_).count()) / 1e9;
  show_progress(true);
  TOWPATH_TRY(finish());
  return std::move(outcome_);
}

// Nothing when the next request is due first.
Result<std::optional<Message>> DecodeWorker::hear() {
  const bool may_ask = next_ && outstanding_.size() < options_.in_flight;
  const Instant late = heard_ + options_.timeout;
  const Instant until = outstanding_.empty() ? due() : may_ask ? std::min(due(), late) : late;
  auto message = meeting_->next_message(kPrefill, until - node_->clock().now());
  if (message.code() == Code::timed_out && (outstanding_.empty() || until < late))
    return std::optional<Message>();
  if (message.code() == Code::timed_out) {
    return error(Code::timed_out,
                 cat("request ", outstanding_.front().ordinal, " was never said to be ready"),
                 "a notification was lost, or prefill is stopped")
        .because(message.status());
  }
  if (!message.ok()) return message.status();
  if (message->kind != MessageKind::ready)
    return error(Code::internal, "an unexpected message of prefill");
  heard_ = node_->clock().now();
  return std::optional(*std::move(message));
}

Status DecodeWorker::hear_hello() {
  TOWPATH_TRY(const Message hello, meeting_->next_message(kPrefill, options_.timeout));
  if (hello.kind != MessageKind::hello) return error(Code::internal, "prefill did not say hello");
  TOWPATH_TRY(remote_, layout::RemoteLayout::decode(hello.layout));
  return open_pool(remote_->config());
}

Status DecodeWorker::open_pool(const layout::LayoutConfig& like) {
  layout::LayoutConfig config = like;
  config.num_blocks = options_.decode_blocks;
  TOWPATH_TRY(const layout::LayoutKind kind, layout_kind_named(options_.decode_layout));
  config.alignment = 1;
  auto with_config = layout::PhysicalLayoutBuilder(node_->agent()).with_config(config);
  const auto build = [](auto builder) { return std::move(builder).allocate_system().build(); };
  switch (kind) {
    case layout::LayoutKind::fully_contiguous: {
      TOWPATH_TRY(pool_, build(std::move(with_config).fully_contiguous()));
      break;
    }
    case layout::LayoutKind::layer_separate_block_first: {
      TOWPATH_TRY(pool_,
                  build(std::move(with_config).layer_separate(layout::BlockDimension::first)));
      break;
    }
    case layout::LayoutKind::layer_separate_block_second: {
      TOWPATH_TRY(pool_,
                  build(std::move(with_config).layer_separate(layout::BlockDimension::second)));
      break;
    }
    case layout::LayoutKind::block_separate: {
      TOWPATH_TRY(pool_, build(std::move(with_config).block_separate()));
      break;
    }
  }
  TOWPATH_TRY(outcome_.block_bytes, config.block_bytes());
  return {};
}

Status DecodeWorker::fetch_next(kv::RequestSource& source) {
  next_.reset();
  if (options_.limit != 0 && next_ordinal_ == options_.limit) return {};
  TOWPATH_TRY(next_, source.next());
  if (next_ && !first_ms_) first_ms_ = next_->timestamp_ms;
  return {};
}

// When the next request is to be asked for.
Instant DecodeWorker::due() const {
  if (options_.speed == 0 || !next_ || next_->timestamp_ms <= *first_ms_) return started_;
  const auto ms = static_cast<double>(next_->timestamp_ms - *first_ms_);
  constexpr double kMost = 1e17;  // three years, in nanoseconds: no overflow
  return started_ + Duration(static_cast<std::int64_t>(std::min(ms * 1e6 / options_.speed, kMost)));
}

Status DecodeWorker::fill_window(kv::RequestSource& source) {
  while (next_ && outstanding_.size() < options_.in_flight) {
    if (due() > node_->clock().now()) break;
    TOWPATH_TRY(ask(*next_));
    TOWPATH_TRY(fetch_next(source));
  }
  return {};
}

Status DecodeWorker::ask(const kv::Request& request) {
  Order order{.ordinal = next_ordinal_++, .blocks = {}};
  std::unordered_set<std::uint64_t> seen;
  for (const std::uint64_t hash : request.hash_ids) {
    if (seen.insert(hash).second) order.blocks.push_back(hash);
  }
  if (order.blocks.size() > options_.decode_blocks) {
    return error(Code::exhausted,
                 cat("request ", order.ordinal, " has ", order.blocks.size(),
                     " blocks; decode's pool has ", options_.decode_blocks),
                 "make it larger with --decode-blocks");
  }
  if (order.blocks.empty()) return {};
  TOWPATH_TRY(send(node_->agent(), kPrefill,
                   {.kind = MessageKind::order, .ordinal = order.ordinal, .blocks = order.blocks}));
  if (outstanding_.empty()) heard_ = node_->clock().now();
  outstanding_.push_back(std::move(order));
  return {};
}

// Prefill serves in order and notifications keep theirs, so a gap is a loss.
Status DecodeWorker::take_ready(const Message& ready) {
  while (!outstanding_.empty() && outstanding_.front().ordinal < ready.ordinal) {
    outcome_.faults.add(cat("drop-notification: request ", outstanding_.front().ordinal,
                            " was never said to be ready, request ", ready.ordinal, " was"));
    outstanding_.erase(outstanding_.begin());
  }
  if (outstanding_.empty() || outstanding_.front().ordinal != ready.ordinal)
    return error(Code::internal,
                 cat("prefill answered request ", ready.ordinal, ", which was not asked"));
  const Order order = std::move(outstanding_.front());
  outstanding_.erase(outstanding_.begin());
  if (ready.blocks.size() != order.blocks.size() || ready.digests.size() != order.blocks.size())
    return error(Code::internal, "prefill answered with another number of blocks");
  TOWPATH_TRY(pull(order, ready));
  TOWPATH_TRY(verify(order, ready));
  ++outcome_.requests;
  outcome_.blocks += order.blocks.size();
  return {};
}

Status DecodeWorker::pull(const Order& order, const Message& ready) {
  std::vector<layout::BlockPair> pairs;
  for (std::size_t i = 0; i < order.blocks.size(); ++i) pairs.push_back({ready.blocks[i], i});
  TOWPATH_TRY(const layout::Plan plan, layout::plan(remote_->layout(), pool_->layout(), pairs));
  TOWPATH_TRY(const layout::PlanDescriptors lists,
              layout::describe(plan, remote_->layout(), pool_->layout()));
  TOWPATH_TRY(const Bytes done, encode({.kind = MessageKind::pulled, .ordinal = order.ordinal}));
  TOWPATH_TRY(agent::Transfer transfer,
              node_->agent().create_transfer(TransferOp::read, lists.target, kPrefill, lists.source,
                                             {.notification = done}));
  TOWPATH_TRY(transfer.post());
  if (transfer.wait() == Outcome::done) return pulled_.add(transfer);
  return error(transfer.status().code(), cat("the pull of request ", order.ordinal, " ended as ",
                                             name_of(transfer.outcome())))
      .because(transfer.status());
}

Status DecodeWorker::verify(const Order& order, const Message& ready) {
  const Instant begin = node_->clock().now();
  for (std::size_t i = 0; i < order.blocks.size(); ++i) {
    const kv::Digest told{.salt = options_.salt, .value = ready.digests[i]};
    const std::string fault = examine(order, i, told);
    if (fault.empty()) {
      ++outcome_.verified;
    } else {
      ++outcome_.mismatches;
      outcome_.faults.add(
          cat(fault, " (block ", hex(order.blocks[i]), " of request ", order.ordinal, ")"));
    }
  }
  outcome_.verify_ns += static_cast<std::uint64_t>((node_->clock().now() - begin).count());
  return {};
}

// Empty when block `index` of the order is right, byte for byte, and what its digest says.
std::string DecodeWorker::examine(const Order& order, std::size_t index, const kv::Digest& told) {
  const layout::LayoutConfig& config = pool_->config();
  const kv::BlockShape shape{config.num_layers, config.outer_dim, config.page_size,
                             config.inner_dim * config.dtype_width_bytes};
  bool right = true;
  for (std::uint64_t layer = 0; layer < shape.num_layers && right; ++layer) {
    for (std::uint64_t outer = 0; outer < shape.outer_dim && right; ++outer) {
      right = !kv::first_mismatch({.hash = order.blocks[index],
                                   .layer = layer,
                                   .outer = outer,
                                   .bytes_per_token = shape.bytes_per_token},
                                  *pool_->bytes({index, layer, outer}));
    }
  }
  const auto found = kv::digest_block(digester_, *pool_, index);
  const bool matches = found.ok() && *found == told;
  if (right && matches) return {};
  if (right) return cat("digest: every byte is right, but the digest is not ", to_string(told));
  const auto rows = [&](std::uint64_t layer, std::uint64_t outer) {
    return ConstByteSpan(*pool_->bytes({index, layer, outer}));
  };
  return cat(kv::diagnose(order.blocks[index], shape, rows, order.blocks),
             matches ? "; its digest was taken of these bytes" : "; its digest says so too");
}

Status DecodeWorker::finish() {
  TOWPATH_TRY(send(node_->agent(), kPrefill, {.kind = MessageKind::finish}));
  TOWPATH_TRY(const Message summary, meeting_->next_message(kPrefill, options_.timeout));
  if (summary.kind != MessageKind::summary) return error(Code::internal, "prefill sent no summary");
  take_summary(summary);
  check_against_kernel();
  if (options_.inject != Mistake::none && outcome_.faults.none()) {
    outcome_.faults.add(
        cat("inject: ", name_of(options_.inject), " was asked for, and ",
            outcome_.mistake_made ? "nothing noticed it" : "there was no occasion for it"));
  }
  return {};
}

void DecodeWorker::take_summary(const Message& summary) {
  const auto figure = [&](const std::string& name) { return figure_of(summary, name); };
  outcome_.pull = pulled_;
  outcome_.produce = Hop::from(summary, "produce");
  outcome_.spill = Hop::from(summary, "spill");
  outcome_.load = Hop::from(summary, "load");
  outcome_.history = History::from(summary);
  outcome_.host_hits = figure("host_hits");
  outcome_.disk_hits = figure("disk_hits");
  outcome_.misses = figure("misses");
  outcome_.bad_loads = figure("bad_loads");
  outcome_.kernel_read = figure("kernel.read_bytes");
  outcome_.kernel_written = figure("kernel.written_bytes");
  outcome_.direct = figure("direct") != 0;
  outcome_.mistake_made = figure("mistake_made") != 0;
  outcome_.direct_refusal = text_of(summary, "direct_refusal");
  for (const auto& [name, text] : summary.texts) {
    if (name.starts_with("fault.")) outcome_.faults.add(name.substr(6), figure(name), text);
  }
}

// Past the page cache the kernel counts every byte that the backend says it moved, and no fewer.
void DecodeWorker::check_against_kernel() {
  if (!outcome_.direct) return;
  const auto check = [&](const char* what, std::uint64_t ours, std::uint64_t kernels) {
    if (kernels >= ours) return;
    outcome_.faults.add(cat("kernel-count: the backend counts ", ours, " bytes ", what,
                            ", the kernel only ", kernels));
  };
  check("read from disk", outcome_.load.bytes(), outcome_.kernel_read);
  check("written to disk", outcome_.spill.bytes(), outcome_.kernel_written);
}

void DecodeWorker::show_progress(bool last) {
  if (!options_.progress) return;
  const Instant now = node_->clock().now();
  if (!last && now - shown_ < (is_live_ ? kLiveLineEvery : kLogLineEvery)) return;
  shown_ = now;
  std::fprintf(stderr, "%s  %s requests, %s blocks verified, %s pulled, %s wrong  %s",
               is_live_ ? "\r" : "", grouped(outcome_.requests).c_str(),
               grouped(outcome_.verified).c_str(), size_text(pulled_.bytes()).c_str(),
               grouped(outcome_.mismatches).c_str(), last || !is_live_ ? "\n" : "");
  std::fflush(stderr);
}

}  // namespace towpath::tools::replay
