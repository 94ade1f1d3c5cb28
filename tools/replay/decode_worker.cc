#include "tools/replay/decode_worker.h"

#include <algorithm>
#include <cstdio>
#include <unordered_set>

#include <towpath/core/format.h>
#include <towpath/layout/builder.h>
#include <towpath/layout/plan.h>

#include "tools/node_telemetry.h"
#include "tools/replay/pool.h"
#include "tools/traces/diagnosis.h"
#include "tools/traces/pattern.h"
#include "tools/units.h"

namespace towpath::tools::replay {
namespace {

constexpr Duration kLiveLineEvery = std::chrono::milliseconds(200);  // drawn over the last one
constexpr Duration kLogLineEvery = std::chrono::seconds(2);          // where no terminal reads

// Files, drives and objects are of this process alone; decode pulls from another one.
Status check_reaches_others(const agent::Agent& agent, const std::string& backend) {
  TOWPATH_TRY(const backend::Capabilities can, agent.capabilities(agent.backends().front()));
  if (can.reaches_peers()) return {};
  return error(Code::invalid_argument, cat("--backend ", backend, " reaches no other process"),
               "use shm, tcp or UCX");
}

}  // namespace

Result<std::unique_ptr<DecodeWorker>> DecodeWorker::open(const Options& options) {
  TOWPATH_TRY(layout_kind_named(options.decode_layout));
  const std::uint64_t on_disk = has(options, Place::disk) ? options.disk_blocks : 1;
  for (const std::uint64_t blocks : {options.host_blocks, on_disk, options.decode_blocks})
    TOWPATH_TRY(pool_config(options, blocks));
  std::unique_ptr<DecodeWorker> worker(new DecodeWorker(options));
  TOWPATH_TRY(auto telemetry, telemetry_of_environment());
  TOWPATH_TRY(worker->node_, standard::Node::open({.name = decode_name(options.worker),
                                                   .backends = {options.backend},
                                                   .progress_thread = false,
                                                   .default_timeout = options.timeout,
                                                   .telemetry = std::move(telemetry)}));
  TOWPATH_TRY(check_reaches_others(worker->node_->agent(), options.backend));
  TOWPATH_TRY(worker->meeting_,
              Meeting::open(options, worker->node_->agent(), worker->node_->clock()));
  return worker;
}

Result<ReplayOutcome> DecodeWorker::run(traces::RequestSource& source, const Alive& others_live,
                                        const std::function<void()>& kill_one) {
  TOWPATH_TRY(meet(others_live));
  started_ = node_->clock().now();
  shown_ = started_;
  TOWPATH_TRY(fetch_next(source));
  bool killed = options_.kill_after == 0;
  while (true) {
    TOWPATH_TRY(fill_window(source));
    if (outstanding_.empty() && !next_) break;
    TOWPATH_TRY(const std::optional<Meeting::Said> said, hear());
    if (said) TOWPATH_TRY(take_ready(*said));
    if (!killed && outcome_.requests >= options_.kill_after) {
      kill_one();
      killed = true;
    }
    show_progress(false);
  }
  outcome_.seconds = static_cast<double>((node_->clock().now() - started_).count()) / 1e9;
  show_progress(true);
  TOWPATH_TRY(finish());
  return std::move(outcome_);
}

Status DecodeWorker::meet(const Alive& others_live) {
  for (std::string& name : prefill_names(options_)) {
    TOWPATH_TRY(meeting_->meet(name, options_.timeout, others_live));
    prefills_.push_back({.name = std::move(name), .pool = {}});
  }
  TOWPATH_TRY(hear_hellos());
  const std::vector<std::string> decodes = decode_names(options_);
  if (options_.worker > 0) return meeting_->meet(decodes.front(), options_.timeout, others_live);
  for (std::size_t i = 1; i < decodes.size(); ++i)
    TOWPATH_TRY(meeting_->meet(decodes[i], options_.timeout, others_live));
  return {};
}

std::vector<std::string> DecodeWorker::living() const {
  std::vector<std::string> names;
  for (const Prefill& prefill : prefills_)
    if (!prefill.lost) names.push_back(prefill.name);
  return names;
}

// Null: it is none.
DecodeWorker::Prefill* DecodeWorker::prefill_named(const std::string& name) {
  const auto found = std::ranges::find(prefills_, name, &Prefill::name);
  return found == prefills_.end() ? nullptr : &*found;
}

// Nothing when the next request is due first.
Result<std::optional<Meeting::Said>> DecodeWorker::hear() {
  const bool may_ask = next_ && outstanding_.size() < options_.in_flight;
  const Instant late = heard_ + options_.timeout;
  const Instant until = outstanding_.empty() ? due() : may_ask ? std::min(due(), late) : late;
  auto said = meeting_->next_message(living(), until - node_->clock().now());
  if (said.code() == Code::peer_lost) {
    TOWPATH_TRY(lose_the_dead());
    return std::optional<Meeting::Said>();
  }
  if (said.code() == Code::timed_out && (outstanding_.empty() || until < late))
    return std::optional<Meeting::Said>();
  if (said.code() == Code::timed_out) {
    return error(Code::timed_out,
                 cat("request ", outstanding_.front().ordinal, " was never said to be ready"),
                 "a notification was lost, or prefill is stopped")
        .because(said.status());
  }
  if (!said.ok()) return said.status();
  if (said->message.kind == MessageKind::summary) {
    early_.push_back(*std::move(said));
    return std::optional<Meeting::Said>();
  }
  if (said->message.kind != MessageKind::ready)
    return error(Code::internal, cat("an unexpected message of ", said->who));
  heard_ = node_->clock().now();
  return std::optional(*std::move(said));
}

// Of several prefills one may die: what it owes is asked of another one.
// Errors: peer_lost (nobody is left to ask).
Status DecodeWorker::lose_the_dead() {
  for (Prefill& prefill : prefills_) {
    if (prefill.lost) continue;
    const Status lives = check_alive(node_->agent(), prefill.name);
    if (lives.ok()) continue;
    prefill.lost = true;
    ++outcome_.prefills_lost;
    if (living().empty()) return lives;
    std::vector<Order> owed;
    std::erase_if(outstanding_, [&](Order& order) {
      if (order.prefill == &prefill) owed.push_back(order);
      return order.prefill == &prefill;
    });
    for (Order& order : owed) TOWPATH_TRY(ask_again(std::move(order)));
  }
  return {};
}

Status DecodeWorker::ask_again(Order order) {
  ++outcome_.asked_again;
  return send_order(std::move(order));
}

Result<DecodeWorker::Prefill*> DecodeWorker::whom_to_ask(std::uint64_t ordinal) {
  const std::uint64_t turn = ordinal / options_.decodes;
  for (std::size_t i = 0; i < prefills_.size(); ++i) {
    Prefill& prefill = prefills_[(turn + i) % prefills_.size()];
    if (!prefill.lost) return &prefill;
  }
  return error(Code::peer_lost, "every prefill is gone");
}

Status DecodeWorker::send_order(Order order) {
  TOWPATH_TRY(order.prefill, whom_to_ask(order.ordinal));
  Message message{.kind = MessageKind::order, .ordinal = order.ordinal, .blocks = order.blocks};
  if (order.more) message.figures["more"] = 1;
  const Status sent = send(node_->agent(), order.prefill->name, message);
  // One that has just died is noticed when it is listened to.
  if (!sent.ok() && sent.code() != Code::peer_lost) return sent;
  if (outstanding_.empty()) heard_ = node_->clock().now();
  outstanding_.push_back(std::move(order));
  return {};
}

Status DecodeWorker::hear_hellos() {
  for (std::size_t heard = 0; heard < prefills_.size(); ++heard) {
    TOWPATH_TRY(const Meeting::Said said, meeting_->next_message(living(), options_.timeout));
    Prefill* const who = prefill_named(said.who);
    if (said.message.kind != MessageKind::hello || who == nullptr || who->pool)
      return error(Code::internal, cat(said.who, " did not say hello, or not for the first time"));
    TOWPATH_TRY(who->pool, layout::RemoteLayout::decode(said.message.layout));
  }
  return open_pool(prefills_.front().pool->config());
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
    case layout::LayoutKind::strided: break;  // has no name on the command line
  }
  TOWPATH_TRY(outcome_.block_bytes, config.block_bytes());
  return {};
}

Status DecodeWorker::fetch_next(traces::RequestSource& source) {
  do {
    next_.reset();
    if (options_.limit != 0 && next_ordinal_ == options_.limit) return {};
    TOWPATH_TRY(next_, source.next());
    if (!next_) return {};
    if (!first_ms_) first_ms_ = next_->timestamp_ms;
  } while (next_ordinal_++ % options_.decodes != options_.worker);  // another's
  return {};
}

// When the next request is to be asked for.
Instant DecodeWorker::due() const {
  if (options_.speed == 0 || !next_ || next_->timestamp_ms <= *first_ms_) return started_;
  const auto ms = static_cast<double>(next_->timestamp_ms - *first_ms_);
  constexpr double kMost = 1e17;  // three years, in nanoseconds: no overflow
  return started_ + Duration(static_cast<std::int64_t>(std::min(ms * 1e6 / options_.speed, kMost)));
}

Status DecodeWorker::fill_window(traces::RequestSource& source) {
  while (next_ && outstanding_.size() < options_.in_flight) {
    if (due() > node_->clock().now()) break;
    const traces::Request request = *std::move(next_);
    const std::uint64_t ordinal = next_ordinal_ - 1;
    TOWPATH_TRY(fetch_next(source));
    TOWPATH_TRY(ask(request, ordinal));
  }
  return {};
}

Status DecodeWorker::ask(const traces::Request& request, std::uint64_t ordinal) {
  Order order{.ordinal = ordinal, .blocks = {}};
  order.more = next_ && !next_->hash_ids.empty() && options_.speed == 0 && options_.in_flight > 1 &&
               prefills_.size() == 1;
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
  return send_order(std::move(order));
}

// The order that this answers; nothing when there is none. A prefill serves in the order in which
// it was asked and notifications keep theirs, so a gap is a loss.
std::optional<DecodeWorker::Order> DecodeWorker::take_order(const Meeting::Said& said) {
  const std::uint64_t ordinal = said.message.ordinal;
  const auto is_answered = [&](const Order& one) {
    return one.prefill->name == said.who && one.ordinal == ordinal;
  };
  if (std::ranges::none_of(outstanding_, is_answered)) return std::nullopt;
  std::optional<Order> order;
  std::erase_if(outstanding_, [&](Order& one) {
    if (order || one.prefill->name != said.who) return false;
    if (is_answered(one)) {
      order = std::move(one);
    } else {
      outcome_.faults.add(cat("drop-notification: request ", one.ordinal,
                              " was never said to be ready, request ", ordinal, " was"));
    }
    return true;
  });
  return order;
}

Status DecodeWorker::take_ready(const Meeting::Said& said) {
  const Message& ready = said.message;
  std::optional<Order> order = take_order(said);
  Prefill* const prefill = prefill_named(said.who);
  Account mistakes = Account::from(ready, kMistakes);
  if (prefill != nullptr) prefill->reported.hear(mistakes);
  if (!order && prefill != nullptr && prefill->lost) {  // it said so and died
    prefill->reported.miss(mistakes);                   // another one was asked since
    return {};
  }
  if (!order)
    return error(Code::internal,
                 cat(said.who, " answered request ", ready.ordinal, ", which was not asked"));
  if (ready.blocks.size() != order->blocks.size() || ready.digests.size() != order->blocks.size())
    return error(Code::internal, cat(said.who, " answered with another number of blocks"));
  const Status pulled = pull(*order, ready);
  if (pulled.code() == Code::peer_lost && prefills_.size() > 1) {  // it died under the transfer
    mistakes.of(Mistake::drop_notification) = {};                  // the gap was seen
    prefill->reported.miss(mistakes);
    TOWPATH_TRY(lose_the_dead());
    return ask_again(*std::move(order));
  }
  TOWPATH_TRY(pulled);
  TOWPATH_TRY(verify(*order, ready));
  ++outcome_.requests;
  outcome_.blocks += order->blocks.size();
  return {};
}

Status DecodeWorker::pull(const Order& order, const Message& ready) {
  const layout::RemoteLayout& remote = *order.prefill->pool;
  std::vector<layout::BlockPair> pairs;
  for (std::size_t i = 0; i < order.blocks.size(); ++i) pairs.push_back({ready.blocks[i], i});
  TOWPATH_TRY(const layout::Plan plan, layout::plan(remote.layout(), pool_->layout(), pairs));
  TOWPATH_TRY(const layout::PlanDescriptors lists,
              layout::describe(plan, remote.layout(), pool_->layout()));
  TOWPATH_TRY(const Bytes done, encode({.kind = MessageKind::pulled, .ordinal = order.ordinal}));
  TOWPATH_TRY(agent::Transfer transfer,
              node_->agent().create_transfer(TransferOp::read, lists.target, order.prefill->name,
                                             lists.source, {.notification = done}));
  TOWPATH_TRY(transfer.post());
  if (transfer.wait() == Outcome::done) return pulled_.add(transfer);
  return error(transfer.status().code(), cat("the pull of request ", order.ordinal, " ended as ",
                                             name_of(transfer.outcome())))
      .because(transfer.status());
}

Status DecodeWorker::verify(const Order& order, const Message& ready) {
  const Instant begin = node_->clock().now();
  for (std::size_t i = 0; i < order.blocks.size(); ++i) {
    const kv::Digest reported{.salt = order.blocks[i], .value = ready.digests[i]};
    const std::string fault = examine(order, i, reported);
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
std::string DecodeWorker::examine(const Order& order, std::size_t index,
                                  const kv::Digest& reported) {
  const layout::LayoutConfig& config = pool_->config();
  const traces::BlockShape shape{config.num_layers, config.outer_dim, config.page_size,
                                 config.inner_dim * config.dtype_width_bytes};
  bool right = true;
  for (std::uint64_t layer = 0; layer < shape.num_layers && right; ++layer) {
    for (std::uint64_t outer = 0; outer < shape.outer_dim && right; ++outer) {
      right = !traces::first_mismatch({.hash = order.blocks[index],
                                       .layer = layer,
                                       .outer = outer,
                                       .bytes_per_token = shape.bytes_per_token},
                                      *pool_->bytes({index, layer, outer}));
    }
  }
  const auto found = digest_of_slot(*pool_, order.blocks[index], index);
  const bool matches = found.ok() && *found == reported;
  if (right && matches) return {};
  if (right) return cat("digest: every byte is right, but the digest is not ", to_string(reported));
  const auto rows = [&](std::uint64_t layer, std::uint64_t outer) {
    return ConstByteSpan(*pool_->bytes({index, layer, outer}));
  };
  return cat(traces::diagnose(order.blocks[index], shape, rows, order.blocks),
             matches ? "; its digest was taken of these bytes" : "; its digest says so too");
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
