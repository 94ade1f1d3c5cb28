#include "doors.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/agent/channel.h>
#include <towpath/agent/metadata.h>
#include <towpath/backends/messages/connection_info.h>
#include <towpath/backends/messages/testing/flat_frame.h>
#include <towpath/backends/shm/handshake.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/core/format.h>
#include <towpath/kv/connector/orders.h>
#include <towpath/kv/disk/drive_format.h>
#include <towpath/kv/disk/index_format.h>
#include <towpath/kv/peers/peer_message.h>
#include <towpath/layout/layout_codec.h>
#include <towpath/layout/testing/config_of.h>
#include <towpath/net/hello.h>
#include <towpath/net/session/handshake.h>
#include <towpath/rendezvous/etcd_cipher.h>
#include <towpath/rendezvous/frame.h>
#include <towpath/shmem/bootstrap.h>
#include <towpath/shmem/bootstrap_words.h>
#include <towpath/shmem/job.h>
#include <towpath/shmem/messages/frames.h>
#include <towpath/telemetry/flight_log.h>
#include <towpath/telemetry/flight_recorder.h>
#include <towpath/wire/envelope.h>

namespace towpath::versions {
namespace {

constexpr VersionPlace kEnvelope{.offset = 10, .bytes = 2, .in_envelope = true};
const AgentIdentity kAgent{"prefill", 7};

/// Whether it was read, whatever came of it.
template <typename Value>
Status status_of(const Result<Value>& read) {
  return read.status();
}

// ---- what agents give each other

agent::AgentMetadata metadata() {
  agent::AgentMetadata made;
  made.identity = kAgent;
  made.generation = 1;
  made.backends = {{"tcp", Bytes(16, std::byte{1})}};
  made.regions = {{{.address = 4096, .length = 8192}, {{0, Bytes(16, std::byte{2})}}}};
  return made;
}

Bytes layout_message() {
  layout::LayoutDescriptor made;
  made.config = layout::testing::config_of(2, 3, 4, 8);
  made.agent = kAgent;
  made.regions = {{4096, 2 * 3 * 2 * 4 * 8 * 2}};
  return *layout::encode(made);
}

void add_agents(std::vector<Door>& doors) {
  doors.push_back({"metadata", kEnvelope, 2, 1, [] { return *agent::encode(metadata()); },
                   [](ConstByteSpan bytes) { return status_of(agent::decode_metadata(bytes)); }});
  doors.push_back({"notification", kEnvelope, 1, 1,
                   [] { return agent::encode({.number = 3, .payload = as_bytes("hello")}); },
                   [](ConstByteSpan bytes) { return status_of(agent::decode_envelope(bytes)); }});
  doors.push_back({"layout", kEnvelope, 1, 1, layout_message,
                   [](ConstByteSpan bytes) { return status_of(layout::decode_layout(bytes)); }});
  doors.push_back({"layout_package", kEnvelope, 1, 1,
                   [] {
                     return *blockcopy::encode(
                         {*agent::encode(metadata()), {{1, "g2", 0, 0, layout_message()}}});
                   },
                   [](ConstByteSpan bytes) { return status_of(blockcopy::open_package(bytes)); }});
}

// ---- what backends say

std::array<char, 36> boot_id() {
  std::array<char, 36> id{};
  id.fill('b');
  return id;
}

void add_shm(std::vector<Door>& doors) {
  using namespace backends::shm;  // NOLINT: the words of this function
  doors.push_back({"shm_connection_info", kEnvelope, 2, 2,
                   [] {
                     ShmInfo info{.host = {.boot_id = boot_id(),
                                           .pid = 9,
                                           .start_time = 1,
                                           .pid_namespace = 2,
                                           .network_namespace = 3},
                                  .socket_token = {1, 2},
                                  .registrations = {.fd = 3, .device = 4, .inode = 5},
                                  .pieces = {.fd = 6, .device = 4, .inode = 7},
                                  .incarnation = kAgent.incarnation};
                     return encode(info);
                   },
                   [](ConstByteSpan bytes) { return status_of(decode_info(bytes)); }});
  doors.push_back(
      {"shm_memory_key", kEnvelope, 1, 1,
       [] { return encode(ShmKey{.address = 4096, .length = 8192, .slot = 1, .generation = 2}); },
       [](ConstByteSpan bytes) { return status_of(decode_key(bytes)); }});
  doors.push_back({"shm_hello", kEnvelope, 1, 1, [] { return *encode_hello({.from = kAgent}); },
                   [](ConstByteSpan bytes) { return status_of(decode_hello(bytes)); }});
}

net::SessionTerms terms() { return {Secret("sixteen bytes!!!"), "tcp"}; }
const net::SessionParty kDialler{.agent = kAgent, .instance = 2, .data = Bytes(8)};
const net::SessionParty kListener{.agent = {"decode", 3}, .instance = 4, .data = {}};

void add_messages(std::vector<Door>& doors) {
  using namespace backends::messages;  // NOLINT: the words of this function
  doors.push_back({"tcp_connection_info",
                   {.offset = 1, .bytes = 1, .from_end = true},
                   1,
                   1,
                   [] {
                     return encode(ConnectionInfo{.instance = 5,
                                                  .address = Bytes(8, std::byte{3}),
                                                  .secret = Secret("sixteen bytes!!!")});
                   },
                   [](ConstByteSpan bytes) { return status_of(decode_connection_info(bytes)); }});
  doors.push_back({"session_hello",
                   {.offset = 4, .bytes = 1},
                   1,
                   1,
                   [] {
                     const auto dial = net::DialHandshake::begin(
                         terms(), kDialler, {kListener.agent, kListener.instance});
                     return Bytes(dial->hello().begin(), dial->hello().end());
                   },
                   [](ConstByteSpan bytes) {
                     return status_of(net::AcceptHandshake::begin(terms(), kListener, bytes));
                   },
                   false});
  doors.push_back(
      {"message_frame",
       {.offset = 3, .bytes = 1},
       5,
       5,
       [] {
         net::MessageBuffer room(kFrameBytes);
         FrameWriter frame(
             room, {.kind = FrameKind::read, .session = 11, .stamp = 12, .echo = 13, .id = 14});
         frame.add(Piece{.token = 1, .address = 4096, .stride = 512, .length = 256, .count = 2});
         frame.finish();
         return testing::flat(room);
       },
       [](ConstByteSpan bytes) { return status_of(testing::decode_flat(bytes)); }});
}

// ---- where agents meet

net::Token token() { return *net::Token::make("sixteen bytes of a secret"); }

void add_rendezvous(std::vector<Door>& doors) {
  constexpr std::size_t kMost = 64 * 1024;
  doors.push_back({"hello", kEnvelope, 1, 1,
                   [] { return net::make_hello(rendezvous::kMetadataService); },
                   [](ConstByteSpan bytes) -> Status {
                     TOWPATH_TRY(const auto message, wire::open(bytes, net::kHelloLimits));
                     return net::check_hello(message.payload, rendezvous::kMetadataService);
                   }});
  doors.push_back(
      {"rendezvous_frame", kEnvelope, 1, 1,
       [] {
         return rendezvous::encode(rendezvous::Frame{.kind = rendezvous::FrameKind::publish,
                                                     .name = {"prefill"},
                                                     .metadata = *agent::encode(metadata())});
       },
       [](ConstByteSpan bytes) -> Status {
         TOWPATH_TRY(const auto message, wire::open(bytes, rendezvous::frame_limits(kMost)));
         return rendezvous::decode_frame(message.payload).status();
       }});
  doors.push_back({"etcd_metadata",
                   {.offset = 4, .bytes = 4},
                   1,
                   1,
                   [] {
                     return rendezvous::etcd::Cipher(token()).encrypt("/towpath/prefill",
                                                                      *agent::encode(metadata()));
                   },
                   [](ConstByteSpan bytes) {
                     return status_of(
                         rendezvous::etcd::Cipher(token()).decrypt("/towpath/prefill", bytes));
                   },
                   false});
}

// ---- KV blocks

template <typename Value>
Door kv_door(const std::string& name, const Value& value, Result<Value> (*decode)(ConstByteSpan)) {
  return {name,
          kEnvelope,
          1,
          1,
          [value] { return *kv::encode(value); },
          [decode](ConstByteSpan bytes) { return decode(bytes).status(); }};
}

void add_kv(std::vector<Door>& doors) {
  using namespace kv;  // NOLINT: the words of this function
  doors.push_back(
      kv_door("kv_lease", PeerMessage{.session = 4, .hashes = {1, 2}}, decode_peer_message));
  doors.push_back(kv_door(
      "kv_catalogue",
      Catalogue{
          .name_space = "model", .package = Bytes(8), .layout = 1, .hashes = {1, 2}, .edition = 3},
      decode_catalogue));
  doors.push_back(kv_door("step_orders",
                          StepOrders{.step = 9, .loads = {{.request = "a", .blocks = {{1, 2}}}}},
                          decode_step_orders));
  doors.push_back(
      kv_door("worker_report", WorkerReport{.worker = 1, .stored = {1, 2}}, decode_worker_report));
  static constexpr SegmentName kSegment{1, 2};
  static constexpr RecordPlace kPlace{kSegment, kSegmentPage};
  doors.push_back({"segment_header", kEnvelope, 1, 1,
                   [] { return seal_segment_header({.name = kSegment}); },
                   [](ConstByteSpan bytes) { return status_of(open_segment_header(bytes)); }});
  doors.push_back(
      {"block_record", kEnvelope, 1, 1,
       [] { return seal_record({.hash = 1, .digest = {.value = 2}, .length = 3}, kPlace); },
       [](ConstByteSpan bytes) { return status_of(open_record(bytes, kPlace)); }});
  doors.push_back({"block_index", kEnvelope, 1, 1,
                   [] {
                     return seal_index({{kSegment, 16384, {{{.hash = 1, .length = 3}, 4096}}}});
                   },
                   [](ConstByteSpan bytes) { return status_of(open_index(bytes)); }});
  constexpr std::uint64_t kDrive = std::uint64_t{16} << 20U;
  doors.push_back({"drive_label", kEnvelope, 1, 1,
                   [] { return seal_drive_label(*divide_drive(kDrive)); },
                   [](ConstByteSpan bytes) { return status_of(open_drive_label(bytes, kDrive)); }});
  doors.push_back({"drive_table", kEnvelope, 1, 1,
                   [] {
                     return seal_drive_table({.sequence = 1, .files = {{"kv/index", 0}}});
                   },
                   [](ConstByteSpan bytes) {
                     return status_of(open_drive_table(bytes, *divide_drive(kDrive)));
                   }});
}

// ---- PEs, and what is read afterwards

shmem::JobFiles new_job() { return *shmem::create_job({.pes = 1, .heap_bytes = 4096, .heaps = 1}); }

/// Its first words; the rest are zeros.
Bytes job_header() {
  Bytes header(sizeof(shmem::JobHeader));
  if (::pread(new_job().control.get(), header.data(), header.size(), 0) < 0) header.clear();
  return header;
}

Status map_job(ConstByteSpan bytes) {
  const sys::Fd file(::memfd_create("job", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const off_t whole = ::lseek(new_job().control.get(), 0, SEEK_END);
  if (::ftruncate(file.get(), whole) != 0 ||
      ::pwrite(file.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return error(Code::io_error, "a memfd takes less than was written");
  ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return shmem::JobView::map(file.get()).status();
}

void add_shmem(std::vector<Door>& doors) {
  using namespace shmem;  // NOLINT: the words of this function
  doors.push_back({"shmem_frame",
                   {.offset = 3, .bytes = 1},
                   3,
                   3,
                   [] {
                     Bytes head(head_bytes(0));
                     encode_head({.kind = FrameKind::change,
                                  .op = ChangeOp::compare_swap,
                                  .word_bytes = 8,
                                  .from = 1,
                                  .sequence = 2,
                                  .ticket = 3,
                                  .offset = 64,
                                  .operand = 5,
                                  .expected = 6},
                                 {}, head);
                     return head;
                   },
                   [](ConstByteSpan bytes) { return status_of(shmem::decode_frame(bytes, 0)); }});
  doors.push_back({"pe_exchange", kEnvelope, 1, 1,
                   [] {
                     return *encode_bootstrap_words(
                         {.pe = 1, .pes = 2, .said = {Bytes(8)}, .refusal = {}});
                   },
                   [](ConstByteSpan bytes) -> Status {
                     TOWPATH_TRY(const auto message, wire::open(bytes, bootstrap_limits(2)));
                     return decode_bootstrap_words(message.payload).status();
                   }});
  doors.push_back({"shmem_job", {.offset = 8, .bytes = 4}, 4, 4, job_header, map_job});
  doors.push_back({"unique_id",
                   {.offset = 0, .bytes = 4},
                   65'664,
                   65'664,
                   [] {
                     const auto id = UniqueId::create({.for_this_host = true, .interface = {}});
                     return Bytes(id.raw().begin(), id.raw().end());
                   },
                   [](ConstByteSpan bytes) {
                     UniqueId::Raw raw{};
                     std::ranges::copy(bytes.first(raw.size()), raw.begin());
                     return status_of(UniqueId::from_raw(raw));
                   },
                   false});
}

void add_others(std::vector<Door>& doors) {
  using telemetry::FlightRecorder;
  doors.push_back({"flight",
                   {.offset = 8, .bytes = 8},
                   2,
                   2,
                   [] {
                     const std::size_t size = FlightRecorder::bytes_for(1);
                     const std::unique_ptr<void, decltype(&std::free)> room(
                         std::aligned_alloc(64, size), &std::free);
                     const ByteSpan memory(static_cast<std::byte*>(room.get()), size);
                     const ManualClock clock;
                     FlightRecorder::format(memory, clock)->record(1);
                     return Bytes(memory.begin(), memory.end());
                   },
                   [](ConstByteSpan bytes) { return status_of(telemetry::read_flight(bytes)); }});
}

}  // namespace

std::vector<Door> all_doors() {
  std::vector<Door> doors;
  add_agents(doors);
  add_shm(doors);
  add_messages(doors);
  add_rendezvous(doors);
  add_kv(doors);
  add_shmem(doors);
  add_others(doors);
  return doors;
}

std::uint64_t version_in(const VersionPlace& place, ConstByteSpan bytes) {
  std::uint64_t version = 0;
  for (std::size_t i = place.bytes; i-- > 0;)
    version = version << 8U | std::to_integer<std::uint64_t>(bytes[place.begin_in(bytes) + i]);
  return version;
}

Bytes with_version(const VersionPlace& place, Bytes bytes, std::uint64_t version) {
  if (!place.in_envelope) {
    for (std::size_t i = 0; i < place.bytes; ++i)
      bytes[place.begin_in(bytes) + i] = static_cast<std::byte>(version >> 8 * i);
    return bytes;
  }
  const auto type = static_cast<wire::MessageType>(version_in({.offset = 8, .bytes = 2}, bytes));
  const std::uint64_t length = version_in({.offset = 16, .bytes = 8}, bytes);
  const ConstByteSpan payload = ConstByteSpan(bytes).subspan(wire::kHeaderBytes, length);
  const Bytes sealed = wire::seal({type, static_cast<std::uint16_t>(version)}, payload);
  std::ranges::copy(sealed, bytes.begin());  // what is behind it, up to a page, stays
  return bytes;
}

}  // namespace towpath::versions
