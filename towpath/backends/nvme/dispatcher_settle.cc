// What a flight asks of the drive, what the answer means, and what happens next.
#include <towpath/backends/nvme/dispatcher.h>
#include <towpath/backends/nvme/outcome.h>
#include <towpath/core/format.h>

namespace towpath::backends::nvme {
namespace {

// Without a byte of progress. The kernel holds commands back while a drive is reset, so this is for
// failures, not for waiting.
constexpr std::uint32_t kMaxRetries = 16;

Blocks blocks_in_engine(const Flight& flight) noexcept {
  return blocks_of(flight.operation->segments(), flight.at(), flight.remaining(),
                   flight.info().block_bytes);
}

/// Whether the command is a write: a block that is to be changed is read first.
bool writes_now(const Flight& flight) noexcept {
  return flight.operation->writes() && flight.step == Step::move;
}

std::string describe(const Flight& flight) {
  const Blocks blocks = blocks_in_engine(flight);
  return cat(writes_now(flight) ? "the write of " : "the read of ", blocks.count, " blocks at ",
             blocks.lba, " of ", flight.info().path);
}

}  // namespace

// What is not read through a window keeps to blocks; what is changed goes in one.
std::uint64_t Dispatcher::unit_of(const backend::PieceFlight& carrier) const {
  const auto& flight = static_cast<const Flight&>(carrier);
  if (flight.piece.path == Path::modify) return flight.length;
  const bool by_block = flight.operation->writes() || flight.piece.path == Path::direct;
  return by_block ? flight.info().block_bytes : 1;
}

Result<Command> Dispatcher::encode(Flight& flight) const {
  const Segments segments = flight.operation->segments();
  const Position at = flight.at();
  const NamespaceInfo& info = flight.info();
  const Blocks blocks = blocks_in_engine(flight);
  const bool write = writes_now(flight);
  const bool direct = flight.piece.path == Path::direct;
  if (write && !direct)
    gather(segments, at, flight.remaining(), flight.window, blocks.lba * info.block_bytes);
  const BlockIo io{
      .namespace_id = info.id,
      .lba = blocks.lba,
      .blocks = blocks.count,
      .block_bytes = info.block_bytes,
      .address = direct ? extent_at(segments, at).local_address : address_of(flight.window.data()),
      .force_unit_access = write && options_.durable && info.has_write_cache};
  return write ? encode_write(io) : encode_read(io);
}

Status Dispatcher::hand_in(backend::PieceFlight& carrier) {
  auto& flight = static_cast<Flight&>(carrier);
  TOWPATH_TRY(const Command command, encode(flight));
  engine_.submit({.id = flight.id, .target = &flight.piece.device->target(), .command = command});
  counters_.commands.add();
  return {};
}

void Dispatcher::settle(backend::PieceFlight& carrier, std::int32_t result) {
  auto& flight = static_cast<Flight&>(carrier);
  if (result != 0) return on_error(flight, result);
  if (flight.step == Step::fetch) {
    if (flight.operation->cancelled()) return stop(flight);
    flight.step = Step::move;
    flight.retries = 0;
    return submit(flight);
  }
  on_moved(flight);
}

void Dispatcher::on_moved(Flight& flight) {
  const bool write = flight.operation->writes();
  const std::uint64_t bytes = flight.remaining();
  if (flight.piece.path == Path::bounce && !write)
    scatter(flight.operation->segments(), flight.at(), bytes, flight.window,
            blocks_in_engine(flight).lba * flight.info().block_bytes);
  moved(flight, bytes);
  counters_.moved(write, flight.piece.path).add(bytes);
  go_on(flight);
}

void Dispatcher::on_error(Flight& flight, std::int32_t result) {
  if (flight.operation->cancelled()) return stop(flight);
  if (is_worth_a_retry(result) && retry(flight, kMaxRetries)) return;
  if (isolate(flight)) return;
  counters_.failures.add();
  fail_part(flight, failure_of(result, describe(flight)));
}

}  // namespace towpath::backends::nvme
