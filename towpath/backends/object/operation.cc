#include <towpath/backend/segment_check.h>
#include <towpath/backends/object/operation.h>
#include <towpath/core/check.h>
#include <towpath/core/format.h>

namespace towpath::backends::object {
namespace {

Status check_segment(const backend::Segment& segment) {
  const auto& local = static_cast<const ObjectBackendMemory&>(*segment.local);
  const auto& remote = static_cast<const ObjectBackendMemory&>(*segment.remote);
  if (!is_host_addressable(local.kind()) || remote.kind() != MemoryKind::object)
    return error(Code::unsupported,
                 cat("object moves between host memory and objects, not between ",
                     name_of(local.kind()), " and ", name_of(remote.kind())));
  const ObjectRecord& record = static_cast<const ObjectMemory&>(remote).record();
  if (record.registered) return {};
  return error(Code::not_found, cat(to_string(record.name), " was deregistered"),
               "keep the registration as long as its object is used");
}

}  // namespace

ObjectOperation::ObjectOperation(const Surroundings& around)
    : around_(around),
      asks_(around.client, [this] { step(); }),
      reader_(asks_, progress_, around.counters),
      writer_(asks_, progress_, around.counters, around.log) {}

ObjectOperation::~ObjectOperation() {
  TOWPATH_CHECK(!active_, "an operation was destroyed while it was active");
}

void ObjectOperation::post(const backend::Request& request) {
  TOWPATH_CHECK(!active_, "an operation carries one transfer at a time");
  active_ = true;
  op_ = request.op;
  progress_.start(request.segments);
  if (Status bad = prepare(request); !bad.ok()) return complete({.status = std::move(bad)});
  step();
}

Status ObjectOperation::prepare(const backend::Request& request) {
  TOWPATH_TRY(backend::check_segments(request.segments, check_segment));
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
  if (asks_.size() == 0 && (reads || writer_.idle())) complete(progress_.close(false));
}

void ObjectOperation::cancel() {
  if (!active_) return;
  asks_.cancel_all();
  reader_.stop();
  writer_.stop();
  complete(progress_.close(true));
}

// The operation may be posted again, or be gone, when this returns.
void ObjectOperation::complete(const backend::Completion& completion) {
  active_ = false;
  around_.counters.ended(op_ == TransferOp::write, completion.status);
  around_.events.on_complete(*this, completion);
}

}  // namespace towpath::backends::object
