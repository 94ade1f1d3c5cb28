#include <algorithm>

#include <towpath/staging/flight.h>
#include <towpath/staging/lane.h>

namespace towpath::staging {

void Flight::load(StagedOperation& its_operation, std::uint64_t slot_bytes,
                  backend::Memory& buffer) {
  operation = &its_operation;
  count = 0;
  segments.clear();
  std::uint64_t used = 0;
  while (!its_operation.is_loaded() && used < slot_bytes && count < kMaxParts) {
    backend::Position& at = its_operation.at;
    const backend::Extent next = extent_at(its_operation.segments, at);
    const std::uint64_t bytes = std::min(next.length, slot_bytes - used);
    parts[count] = {.start = at,
                    .device_address = next.local_address,
                    .slot_address = slot_address + used,
                    .length = bytes};
    segments.push_back({.local = &buffer,
                        .remote = its_operation.segments[at.segment].remote,
                        .local_address = slot_address + used,
                        .remote_address = next.remote_address,
                        .length = bytes});
    ++count;
    used += bytes;
    at = advance(its_operation.segments, at, bytes);
  }
}

void Flight::on_end(const backend::Completion& completion) {
  state = State::arrived;
  // Failures that are named leave the others in place; a failure of the whole leaves nothing.
  const bool all_failed = !completion.status.ok() && completion.failures.empty();
  if (all_failed) return fail(completion.status);
  for (Part& part : std::span(parts).first(count)) part.moved = part.length;
  for (const backend::SegmentFailure& failure : completion.failures) {
    parts[failure.segment].moved = failure.bytes;
    parts[failure.segment].status = failure.status;
  }
}

void Flight::fail(const Status& why) {
  for (Part& part : std::span(parts).first(count)) {
    part.moved = 0;
    part.status = why;
  }
}

const std::vector<device::Copy>& Flight::copies(bool to_device) {
  copies_.clear();
  for (const Part& part : std::span(parts).first(count)) {
    const std::uint64_t bytes = to_device ? part.moved : part.length;
    if (bytes == 0) continue;
    copies_.push_back({to_device ? part.device_address : part.slot_address,
                       to_device ? part.slot_address : part.device_address, bytes});
  }
  return copies_;
}

}  // namespace towpath::staging
