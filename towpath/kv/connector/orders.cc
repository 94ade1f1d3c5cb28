#include <algorithm>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/blocks/sequence_hash.h>
#include <towpath/kv/connector/numbers.h>
#include <towpath/kv/connector/orders.h>
#include <towpath/wire/encoder.h>
#include <towpath/wire/envelope.h>

namespace towpath::kv {
namespace {

using wire::Kind;

constexpr std::uint32_t kMaxRequests = 65536;
constexpr std::uint64_t kMaxNumbersBytes = 8 * (std::uint64_t{1} << 22U);
constexpr std::uint64_t kMaxConnectorMessage = 256 * kMiB;
constexpr std::uint64_t kLongestCost = std::uint64_t{3'600} * 1'000'000'000;

constexpr wire::Tag kRequest = wire::required(1), kInBackground = wire::required(2),
                    kHashes = wire::required(3), kBlockIds = wire::required(4),
                    kPriority = wire::optional(5), kTenant = wire::optional(6),
                    kParents = wire::optional(7);
constexpr wire::FieldRule kRequestOrderRules[] = {
    {kRequest, "request", Kind::bytes, wire::kOne, kMaxRequestId},
    {kInBackground, "in background", Kind::number, wire::kOne, 1},
    {kHashes, "hashes", Kind::bytes, wire::kOne, kMaxNumbersBytes},
    {kBlockIds, "blocks", Kind::bytes, wire::kOne, kMaxNumbersBytes},
    {kPriority, "priority", Kind::number, wire::kAtMostOne, UINT8_MAX},
    {kTenant, "tenant", Kind::number, wire::kAtMostOne},
    {kParents, "parents", Kind::bytes, wire::kAtMostOne, kMaxNumbersBytes},
};
constexpr wire::Schema kRequestOrderSchema("request order", kRequestOrderRules);

constexpr wire::Tag kHintNumber = wire::required(1), kHintAction = wire::required(2),
                    kHintAfter = wire::required(3), kHintKeep = wire::required(4),
                    kHintBlocks = wire::required(5), kHintSession = wire::optional(6);
constexpr std::uint64_t kLongestHintNs = static_cast<std::uint64_t>(kLongestHint.count());
constexpr wire::FieldRule kHintRules[] = {
    {kHintNumber, "number", Kind::number, wire::kOne},
    {kHintAction, "action", Kind::number, wire::kOne, kHintActions},
    {kHintAfter, "after", Kind::number, wire::kOne, kLongestHintNs},
    {kHintKeep, "keep", Kind::number, wire::kOne, kLongestHintNs},
    {kHintBlocks, "hashes", Kind::bytes, wire::kOne, kMaxNumbersBytes},
    {kHintSession, "session", Kind::number, wire::kAtMostOne},
};
constexpr wire::Schema kHintSchema("hint", kHintRules);

constexpr wire::Tag kAnswerNumber = wire::required(1), kAnswerOutcome = wire::required(2),
                    kAnswerBlocks = wire::required(3), kAnswerLeft = wire::required(4),
                    kAnswerWhy = wire::required(5);
constexpr std::uint64_t kMaxHintWhy = 256;
constexpr wire::FieldRule kAnswerRules[] = {
    {kAnswerNumber, "number", Kind::number, wire::kOne},
    {kAnswerOutcome, "outcome", Kind::number, wire::kOne, 3},
    {kAnswerBlocks, "blocks", Kind::number, wire::kOne},
    {kAnswerLeft, "left", Kind::number, wire::kOne},
    {kAnswerWhy, "why", Kind::bytes, wire::kOne, kMaxHintWhy},
};
constexpr wire::Schema kAnswerSchema("hint's answer", kAnswerRules);

constexpr wire::Tag kStep = wire::required(1), kLoad = wire::required(2), kSave = wire::required(3),
                    kSettle = wire::required(4), kEnds = wire::required(5),
                    kHint = wire::optional(6);
constexpr wire::FieldRule kStepRules[] = {
    {kStep, "step", Kind::number, wire::kOne},
    {kLoad, "load", Kind::nested, wire::at_most(kMaxRequests), kMaxConnectorMessage,
     &kRequestOrderSchema},
    {kSave, "save", Kind::nested, wire::at_most(kMaxRequests), kMaxConnectorMessage,
     &kRequestOrderSchema},
    {kSettle, "settle", Kind::bytes, wire::at_most(kMaxRequests), kMaxRequestId},
    {kEnds, "ends", Kind::bytes, wire::at_most(kMaxRequests), kMaxRequestId},
    {kHint, "hint", Kind::nested, wire::at_most(kMaxRequests), kMaxConnectorMessage, &kHintSchema},
};
constexpr wire::Schema kStepSchema("step orders", kStepRules);

constexpr wire::Tag kWorker = wire::required(1), kIsFirst = wire::required(2),
                    kStored = wire::required(3), kLost = wire::required(4),
                    kReceived = wire::required(5), kSent = wire::required(6),
                    kFailed = wire::required(7), kTiers = wire::optional(8),
                    kCosts = wire::optional(9), kAnswer = wire::optional(10),
                    kLasting = wire::optional(11), kGoesOn = wire::optional(12),
                    kMoreFollows = wire::optional(13), kFirstStep = wire::optional(14);
constexpr wire::FieldRule kReportRules[] = {
    {kWorker, "worker", Kind::number, wire::kOne, kMaxConnectorWorkers - 1},
    {kIsFirst, "is first", Kind::number, wire::kOne, 1},
    {kStored, "stored", Kind::bytes, wire::kOne, kMaxNumbersBytes},
    {kLost, "lost", Kind::bytes, wire::kOne, kMaxNumbersBytes},
    {kReceived, "received", Kind::bytes, wire::at_most(kMaxRequests), kMaxRequestId},
    {kSent, "sent", Kind::bytes, wire::at_most(kMaxRequests), kMaxRequestId},
    {kFailed, "failed blocks", Kind::bytes, wire::kOne, kMaxNumbersBytes},
    {kTiers, "tiers", Kind::bytes, wire::kAtMostOne, kMaxNumbersBytes / 8},
    {kCosts, "costs", Kind::bytes, wire::kAtMostOne, 2 * 8 * kMaxTiers},
    {kAnswer, "hint's answer", Kind::nested, wire::at_most(kMaxRequests), kMaxConnectorMessage,
     &kAnswerSchema},
    {kLasting, "lasting", Kind::bytes, wire::kAtMostOne, kMaxNumbersBytes},
    {kGoesOn, "goes on", Kind::number, wire::kAtMostOne, 1},
    {kMoreFollows, "more follows", Kind::number, wire::kAtMostOne, 1},
    {kFirstStep, "first step", Kind::number, wire::kAtMostOne},
};
constexpr wire::Schema kReportSchema("worker report", kReportRules);

void put_order(wire::Encoder& out, const RequestOrder& order) {
  std::vector<std::uint64_t> hashes, blocks, parents;
  for (const BlockOrder& block : order.blocks) {
    hashes.push_back(block.hash);
    blocks.push_back(block.block);
    parents.push_back(block.parent.value_or(0));
  }
  out.put_text(kRequest, order.request);
  out.put_number(kInBackground, order.in_background ? 1 : 0);
  out.put_bytes(kHashes, pack_numbers(hashes));
  out.put_bytes(kBlockIds, pack_numbers(blocks));
  if (order.priority != kUsualPriority) out.put_number(kPriority, order.priority);
  if (order.tenant != 0) out.put_number(kTenant, order.tenant);
  if (std::ranges::any_of(parents, [](BlockHash parent) { return parent != 0; }))
    out.put_bytes(kParents, pack_numbers(parents));
}

Result<RequestOrder> take_order(const wire::Field& outer) {
  RequestOrder order;
  std::vector<std::uint64_t> hashes, blocks, parents;
  TOWPATH_TRY(wire::decode(outer.nested(), [&](const wire::Field& field) -> Status {
    switch (field.tag()) {
      case kRequest: order.request = field.text(); return {};
      case kInBackground: order.in_background = field.number() == 1; return {};
      case kPriority: order.priority = static_cast<std::uint8_t>(field.number()); return {};
      case kTenant: order.tenant = field.number(); return {};
      case kParents: {
        TOWPATH_TRY(parents, unpack_numbers(field));
        return {};
      }
      default: {
        TOWPATH_TRY((field.tag() == kHashes ? hashes : blocks), unpack_numbers(field));
        return {};
      }
    }
  }));
  if (hashes.size() != blocks.size()) return outer.refuse("as many hashes as blocks are wanted");
  if (!parents.empty() && parents.size() != hashes.size())
    return outer.refuse("as many parents as hashes are wanted, or none");
  for (std::size_t i = 0; i < hashes.size(); ++i) order.blocks.push_back({hashes[i], blocks[i]});
  for (std::size_t i = 0; i < parents.size(); ++i)
    if (parents[i] != 0) order.blocks[i].parent = parents[i];
  return order;
}

void put_hint(wire::Encoder& out, const HintOrder& hint) {
  out.put_number(kHintNumber, hint.number);
  out.put_number(kHintAction, static_cast<std::uint64_t>(hint.action));
  out.put_number(kHintAfter, static_cast<std::uint64_t>(hint.after.count()));
  out.put_number(kHintKeep, static_cast<std::uint64_t>(hint.keep.count()));
  out.put_bytes(kHintBlocks, pack_numbers(hint.blocks));
  if (hint.session != 0) out.put_number(kHintSession, hint.session);
}

Duration take_duration(const wire::Field& field) {
  return Duration(static_cast<std::int64_t>(field.number()));
}

Result<HintOrder> take_hint(const wire::Field& outer) {
  HintOrder hint;
  TOWPATH_TRY(wire::decode(outer.nested(), [&](const wire::Field& field) -> Status {
    switch (field.tag()) {
      case kHintNumber: hint.number = field.number(); return {};
      case kHintAction: hint.action = static_cast<HintAction>(field.number()); return {};
      case kHintAfter: hint.after = take_duration(field); return {};
      case kHintKeep: hint.keep = take_duration(field); return {};
      case kHintSession: hint.session = field.number(); return {};
      default: {
        TOWPATH_TRY(hint.blocks, unpack_numbers(field));
        return {};
      }
    }
  }));
  if (hint.action == HintAction{0}) return outer.refuse("a hint's action");
  return hint;
}

void put_answer(wire::Encoder& out, const HintAnswer& answer) {
  out.put_number(kAnswerNumber, answer.number);
  out.put_number(kAnswerOutcome, static_cast<std::uint64_t>(answer.outcome));
  out.put_number(kAnswerBlocks, answer.blocks);
  out.put_number(kAnswerLeft, answer.left);
  out.put_text(kAnswerWhy, std::string_view(answer.why).substr(0, kMaxHintWhy));
}

Result<HintAnswer> take_answer(const wire::Field& outer) {
  HintAnswer answer;
  TOWPATH_TRY(wire::decode(outer.nested(), [&](const wire::Field& field) -> Status {
    switch (field.tag()) {
      case kAnswerNumber: answer.number = field.number(); return {};
      case kAnswerOutcome: answer.outcome = static_cast<HintOutcome>(field.number()); return {};
      case kAnswerBlocks: answer.blocks = field.number(); return {};
      case kAnswerLeft: answer.left = field.number(); return {};
      default: answer.why = field.text(); return {};
    }
  }));
  if (answer.outcome == HintOutcome{0}) return outer.refuse("a hint's outcome");
  return answer;
}

std::vector<std::uint64_t> numbers_of(const std::vector<TierCost>& costs) {
  std::vector<std::uint64_t> numbers;
  for (const TierCost& cost : costs) {
    numbers.push_back(cost.tier);
    numbers.push_back(std::min(static_cast<std::uint64_t>(cost.per_block.count()), kLongestCost));
  }
  return numbers;
}

Result<std::vector<TierCost>> take_costs(const wire::Field& field) {
  TOWPATH_TRY(const std::vector<std::uint64_t> numbers, unpack_numbers(field));
  if (numbers.size() % 2 != 0) return field.refuse("a tier and nanoseconds, each time");
  std::vector<TierCost> costs;
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    if (numbers[i] >= kMaxTiers || numbers[i + 1] > kLongestCost)
      return field.refuse("a tier that there is, and at most an hour");
    costs.push_back(
        {static_cast<TierIndex>(numbers[i]), Duration(static_cast<std::int64_t>(numbers[i + 1]))});
  }
  return costs;
}

Result<std::vector<TierIndex>> take_tiers(const wire::Field& field) {
  std::vector<TierIndex> tiers;
  for (const std::byte one : field.bytes()) {
    if (std::to_integer<TierIndex>(one) >= kMaxTiers) return field.refuse("a tier that there is");
    tiers.push_back(std::to_integer<TierIndex>(one));
  }
  return tiers;
}

Result<Bytes> sealed(wire::MessageType type, wire::Encoder& out) {
  TOWPATH_TRY(const Bytes payload, std::move(out).finish());
  return wire::seal({.type = type, .version = 1}, payload);
}

wire::OpenLimits limits_of(wire::MessageType type) {
  return {.type = type, .max_version = 1, .max_payload_bytes = kMaxConnectorMessage};
}

}  // namespace

Result<Bytes> encode(const StepOrders& orders) {
  wire::Encoder out(kStepSchema);
  out.put_number(kStep, orders.step);
  for (const RequestOrder& load : orders.loads)
    out.put_nested(kLoad, [&](wire::Encoder& inner) { put_order(inner, load); });
  for (const RequestOrder& save : orders.saves)
    out.put_nested(kSave, [&](wire::Encoder& inner) { put_order(inner, save); });
  for (const RequestId& request : orders.settle) out.put_text(kSettle, request);
  for (const RequestId& request : orders.ends) out.put_text(kEnds, request);
  for (const HintOrder& hint : orders.hints)
    out.put_nested(kHint, [&](wire::Encoder& inner) { put_hint(inner, hint); });
  return sealed(wire::MessageType::step_orders, out);
}

Result<StepOrders> decode_step_orders(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message message,
              wire::open(bytes, limits_of(wire::MessageType::step_orders)));
  StepOrders orders;
  TOWPATH_TRY(wire::decode(wire::Decoder(message.payload, kStepSchema),
                           [&](const wire::Field& field) -> Status {
                             switch (field.tag()) {
                               case kStep: orders.step = field.number(); return {};
                               case kSettle: orders.settle.emplace_back(field.text()); return {};
                               case kEnds: orders.ends.emplace_back(field.text()); return {};
                               case kHint: {
                                 TOWPATH_TRY(orders.hints.emplace_back(), take_hint(field));
                                 return {};
                               }
                               default: break;
                             }
                             auto& list = field.tag() == kLoad ? orders.loads : orders.saves;
                             TOWPATH_TRY(list.emplace_back(), take_order(field));
                             return {};
                           }));
  return orders;
}

Result<Bytes> encode(const WorkerReport& report) {
  wire::Encoder out(kReportSchema);
  out.put_number(kWorker, report.worker);
  out.put_number(kIsFirst, report.is_first ? 1 : 0);
  out.put_bytes(kStored, pack_numbers(report.stored));
  out.put_bytes(kLost, pack_numbers(report.lost));
  for (const RequestId& request : report.received) out.put_text(kReceived, request);
  for (const RequestId& request : report.sent) out.put_text(kSent, request);
  out.put_bytes(kFailed, pack_numbers(report.failed_blocks));
  if (!report.tiers.empty()) out.put_bytes(kTiers, std::as_bytes(std::span(report.tiers)));
  if (!report.costs.empty()) out.put_bytes(kCosts, pack_numbers(numbers_of(report.costs)));
  for (const HintAnswer& answer : report.hints)
    out.put_nested(kAnswer, [&](wire::Encoder& inner) { put_answer(inner, answer); });
  if (!report.lasting.empty()) out.put_bytes(kLasting, pack_numbers(report.lasting));
  if (report.goes_on) out.put_number(kGoesOn, 1);
  if (report.more_follows) out.put_number(kMoreFollows, 1);
  if (report.first_step) out.put_number(kFirstStep, *report.first_step);
  return sealed(wire::MessageType::worker_report, out);
}

Result<WorkerReport> decode_worker_report(ConstByteSpan bytes) {
  TOWPATH_TRY(const wire::Message message,
              wire::open(bytes, limits_of(wire::MessageType::worker_report)));
  WorkerReport report;
  TOWPATH_TRY(wire::decode(wire::Decoder(message.payload, kReportSchema),
                           [&](const wire::Field& field) -> Status {
                             switch (field.tag()) {
                               case kWorker:
                                 report.worker = static_cast<std::uint32_t>(field.number());
                                 return {};
                               case kIsFirst: report.is_first = field.number() == 1; return {};
                               case kGoesOn: report.goes_on = field.number() == 1; return {};
                               case kMoreFollows:
                                 report.more_follows = field.number() == 1;
                                 return {};
                               case kFirstStep: report.first_step = field.number(); return {};
                               case kReceived:
                                 report.received.emplace_back(field.text());
                                 return {};
                               case kSent: report.sent.emplace_back(field.text()); return {};
                               case kTiers: {
                                 TOWPATH_TRY(report.tiers, take_tiers(field));
                                 return {};
                               }
                               case kCosts: {
                                 TOWPATH_TRY(report.costs, take_costs(field));
                                 return {};
                               }
                               case kAnswer: {
                                 TOWPATH_TRY(report.hints.emplace_back(), take_answer(field));
                                 return {};
                               }
                               default: break;
                             }
                             auto& list = field.tag() == kStored    ? report.stored
                                          : field.tag() == kLost    ? report.lost
                                          : field.tag() == kLasting ? report.lasting
                                                                    : report.failed_blocks;
                             TOWPATH_TRY(list, unpack_numbers(field));
                             return {};
                           }));
  if (!report.tiers.empty() && report.tiers.size() != report.stored.size())
    return error(Code::corrupt, cat("a report of ", report.stored.size(), " blocks, and tiers of ",
                                    report.tiers.size()));
  return report;
}

std::string_view name_of(HintAction action) noexcept {
  switch (action) {
    case HintAction::prefetch: return "prefetch";
    case HintAction::pin: return "pin";
    case HintAction::retain: return "retain";
    case HintAction::demote: return "demote";
    case HintAction::share: return "share";
  }
  return "unknown";
}

Result<HintAction> hint_action_named(std::string_view name) {
  for (std::uint8_t number = 1; number <= kHintActions; ++number)
    if (const auto action = static_cast<HintAction>(number); name_of(action) == name) return action;
  return error(Code::invalid_argument, cat("no hint is called '", printable(name), "'"),
               "there are prefetch, pin, retain, demote and share");
}

std::uint64_t session_of(std::string_view name) { return tenant_of(name); }

std::string_view name_of(HintOutcome outcome) noexcept {
  switch (outcome) {
    case HintOutcome::accepted: return "accepted";
    case HintOutcome::clipped: return "clipped";
    case HintOutcome::rejected: return "rejected";
  }
  return "unknown";
}

}  // namespace towpath::kv
