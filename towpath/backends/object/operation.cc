#include <towpath/backends/object/operation.h>
#include <towpath/core/check.h>
#include <towpath/core/text.h>

namespace towpath::backends::object {
namespace {

Status check_segment(const backend::Segment& segment) {
  const auto* local = static_cast<const ObjectBackendMemory*>(segment.local);
  const auto* remote = static_cast<const ObjectBackendMemory*>(segment.remote);
  if (local == nullptr || remote == nullptr)
    return error(Code::invalid_argument, "a segment lacks a memory");
  if (!is_host_addressable(local->kind()) || remote->kind() != MemoryKind::object)
    return error(Code::unsupported,
                 cat("object moves between host memory and objects, not between ",
                     name_of(local->kind()), " and ", name_of(remote->kind())));
  const ObjectRecord& record = static_cast<const ObjectMemory&>(*remote).record();
  if (record.registered) return {};
  return error(Code::not_found, cat(to_string(record.name), " was deregistered"),
               "keep the registration as long as its object is used");
}

Status check_segments(Segments segments) {
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const bool same = i != 0 && segments[i].local == segments[i - 1].local &&
                      segments[i].remote == segments[i - 1].remote;
    if (same) continue;
    if (const Status bad = check_segment(segments[i]); !bad.ok())
      return error(bad.code(), cat("segment ", i, ": ", bad.message()), std::string(bad.remedy()));
  }
  return {};
}

}  // namespace

ObjectOperation::ObjectOperation(const Surroundings& around)
    : around_(around),
      asks_(around.client, [this] { step(); }),
      reader_(asks_, ledger_, around.counters),
      writer_(asks_, ledger_, around.counters, around.log) {}

ObjectOperation::~ObjectOperation() {
  TOWPATH_CHECK(!active_, "an operation was destroyed while it was active");
}

void ObjectOperation::post(const backend::Request& request) {
  TOWPATH_CHECK(!active_, "an operation carries one transfer at a time");
  active_ = true;
  op_ = request.op;
  ledger_.start(request.segments);
  if (Status bad = prepare(request); !bad.ok()) return complete({.status = std::move(bad)});
  step();
}

Status ObjectOperation::prepare(const backend::Request& request) {
  TOWPATH_TRY(check_segments(request.segments));
  TOWPATH_TRY(plan_.start(request.segments));
  if (op_ == TransferOp::read)
    reader_.start(plan_);
  else
    writer_.start(plan_);
  return {};
}

void ObjectOperation::step() {
  const std::size_t room = around_.client.options().connections;
  const bool reads = op_ == TransferOp::read;
  while (asks_.size() < room && (reads ? reader_.issue() : writer_.issue())) {
  }
  if (asks_.size() == 0 && (reads || writer_.idle())) complete(ledger_.close(false));
}

void ObjectOperation::cancel() {
  if (!active_) return;
  asks_.cancel_all();
  reader_.stop();
  writer_.stop();
  complete(ledger_.close(true));
}

// The operation may be posted again, or be gone, when this returns.
void ObjectOperation::complete(const backend::Completion& completion) {
  active_ = false;
  around_.counters.ended(op_, completion.status);
  around_.events.on_complete(*this, completion);
}

}  // namespace towpath::backends::object
