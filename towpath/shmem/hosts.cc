#include <algorithm>
#include <cerrno>

#include <sys/stat.h>

#include <towpath/core/format.h>
#include <towpath/net/keys.h>
#include <towpath/shmem/hosts.h>
#include <towpath/shmem/messages/message_transport.h>
#include <towpath/shmem/socket_bootstrap.h>
#include <towpath/shmem/unique_id.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/text_file.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>

namespace towpath::shmem {
namespace {

using wire::Kind;
using wire::kOne;
using wire::Tag;
constexpr Tag kHost = wire::required(1), kPes = wire::required(2), kHeapBytes = wire::required(3),
              kLocalId = wire::required(5), kSecret = wire::required(6),
              kEngine = wire::required(7), kHasRdma = wire::required(8),
              kEncrypted = wire::required(9);
constexpr std::size_t kSecretBytes = 32;
constexpr wire::FieldRule kPeRules[] = {
    {kHost, "host", Kind::bytes, kOne, 256},
    {kPes, "pes", Kind::number, kOne, kMaxPes},
    {kHeapBytes, "heap bytes", Kind::number, kOne},
    {kLocalId, "local id", Kind::bytes, kOne, sizeof(UniqueId::Raw)},
    {kSecret, "secret", Kind::bytes, kOne, kSecretBytes},
    {kEngine, "network", Kind::bytes, kOne, 16},
    {kHasRdma, "has RDMA", Kind::number, kOne, 1},
    {kEncrypted, "encrypted", Kind::number, kOne, 1},
};
constexpr wire::Schema kPeSchema("pe", kPeRules);

constexpr Tag kInstance = wire::required(1), kAddress = wire::required(2);
constexpr wire::FieldRule kPlaceRules[] = {
    {kInstance, "instance", Kind::number, kOne},
    {kAddress, "address", Kind::bytes, kOne, 16 * 1024},
};
constexpr wire::Schema kPlaceSchema("place of a PE", kPlaceRules);

/// What a PE says of itself.
struct PeFacts {
  std::string host;
  std::uint64_t pes = 0;
  std::uint64_t heap_bytes = 0;
  UniqueId::Raw local_id{};  // that of the first PE of a host is the host's
  Secret secret;             // PE 0's is the job's
  NetworkWish network;
};

Result<Bytes> encode(const PeFacts& facts) {
  wire::Encoder out(kPeSchema);
  out.put_text(kHost, facts.host);
  out.put_number(kPes, facts.pes);
  out.put_number(kHeapBytes, facts.heap_bytes);
  out.put_bytes(kLocalId, facts.local_id);
  out.put_text(kSecret, facts.secret.reveal());
  out.put_text(kEngine, facts.network.engine ? to_string(*facts.network.engine) : "");
  out.put_number(kHasRdma, facts.network.has_rdma);
  out.put_number(kEncrypted, facts.network.encrypted);
  return std::move(out).finish();
}

Result<PeFacts> decode(ConstByteSpan bytes) {
  PeFacts facts;
  TOWPATH_TRY(
      wire::decode(wire::Decoder(bytes, kPeSchema), [&](const wire::Field& field) -> Status {
        switch (field.tag()) {
          case kHost: facts.host = field.text(); break;
          case kPes: facts.pes = field.number(); break;
          case kHeapBytes: facts.heap_bytes = field.number(); break;
          case kLocalId:
            if (field.bytes().size() != facts.local_id.size()) return field.refuse("not 128 bytes");
            std::ranges::copy(field.bytes(), facts.local_id.begin());
            break;
          case kSecret:
            facts.secret = Secret(std::string(field.text()));
            if (field.bytes().size() != kSecretBytes) return field.refuse("not 32 bytes");
            break;
          case kEngine: {
            TOWPATH_TRY(facts.network.engine, parse_engine(field.text()));
            break;
          }
          case kHasRdma: facts.network.has_rdma = field.number() != 0; break;
          case kEncrypted: facts.network.encrypted = field.number() != 0; break;
        }
        return {};
      }));
  return facts;
}

Result<std::vector<PeFacts>> decode_all(const std::vector<Bytes>& reported) {
  std::vector<PeFacts> all;
  for (const Bytes& bytes : reported) {
    TOWPATH_TRY(PeFacts facts, decode(bytes));
    if (facts.pes != reported.size())
      return error(Code::invalid_argument, cat("PE ", all.size(), " knows of ", facts.pes,
                                               " PEs, where ", reported.size(), " came"));
    all.push_back(std::move(facts));
  }
  return all;
}

/// `why` names PEs of a host by their numbers among themselves.
Status with_numbers(const Status& why, const std::vector<std::uint32_t>& here) {
  std::string pes;
  for (const std::uint32_t pe : here) pes += cat(pes.empty() ? "" : ", ", pe);
  return error(why.code(),
               cat("PEs ", pes,
                   " of one host could not share its memory, where they are "
                   "numbered from 0"),
               std::string(why.hint()))
      .because(why);
}

/// The job of this host: made by its first PE, handed to the others.
Result<JobFiles> share_job(const Attendance& self, const std::vector<PeFacts>& all,
                           const std::vector<std::uint32_t>& here) {
  const auto mine = std::ranges::find(here, static_cast<std::uint32_t>(self.my_pe));
  const Joining joining{.my_pe = static_cast<int>(mine - here.begin()),
                        .pes = static_cast<int>(here.size()),
                        .timeout = self.timeout};
  TOWPATH_TRY(const UniqueId id, UniqueId::from_raw(all[here.front()].local_id));
  if (joining.my_pe != 0) {
    auto received = receive(id, joining);
    return received.ok() ? std::move(received) : with_numbers(received.status(), here);
  }
  TOWPATH_TRY(JobFiles files, create_job({.pes = self.pes,
                                          .heap_bytes = all.front().heap_bytes,
                                          .heaps = joining.pes,
                                          .huge_pages = self.pages.huge}));
  if (joining.pes > 1)
    if (const Status given = hand_out(id, files, joining); !given.ok())
      return with_numbers(given, here);
  return files;
}

Secret random_secret() {
  std::string bytes(kSecretBytes, '\0');
  net::fill_random(std::as_writable_bytes(std::span(bytes)));
  return Secret(std::move(bytes));
}

Result<PeFacts> facts_of(const Attendance& self) {
  PeFacts facts{.host = self.host,
                .pes = static_cast<std::uint64_t>(self.pes),
                .heap_bytes = self.heap_bytes,
                .local_id = UniqueId::create({.for_this_host = true}).raw(),
                .secret = random_secret(),
                .network = {.engine = self.network.engine,
                            .has_rdma = self.network.has_rdma,
                            .encrypted = self.network.encrypted}};
  if (!facts.host.empty()) return facts;
  TOWPATH_TRY(facts.host, name_of_this_host());
  // Two launchers may be on one machine: their PEs share nothing.
  if (struct stat job{}; self.files && ::fstat(self.files->control.get(), &job) == 0)
    facts.host += cat("/job ", job.st_ino);
  return facts;
}

Result<ino_t> namespace_of(const char* path) {
  struct stat info {};
  if (::stat(path, &info) != 0) return sys::os_error(errno, cat("cannot look at ", path));
  return info.st_ino;
}

Result<Bytes> encode(const PeerPlace& place) {
  wire::Encoder out(kPlaceSchema);
  out.put_number(kInstance, place.instance);
  out.put_bytes(kAddress, place.address);
  return std::move(out).finish();
}

Result<PeerPlace> decode_place(ConstByteSpan bytes) {
  PeerPlace place;
  TOWPATH_TRY(
      wire::decode(wire::Decoder(bytes, kPlaceSchema), [&](const wire::Field& field) -> Status {
        if (field.tag() == kInstance)
          place.instance = field.number();
        else
          place.address.assign(field.bytes().begin(), field.bytes().end());
        return {};
      }));
  return place;
}

/// The second round: where each can be reached. A PE without a network says so to all, rather than
/// let them wait.
Result<std::unique_ptr<Remote>> send_transport(Exchange& exchange, const NetworkOptions& network,
                                               const std::vector<PeFacts>& all,
                                               const std::vector<std::uint32_t>& here) {
  std::vector<NetworkWish> wishes;
  for (const PeFacts& facts : all) wishes.push_back(facts.network);
  TOWPATH_TRY(const NetworkWish agreed, agree_on_network(wishes));
  auto transport = MessageTransport::open(network, agreed);
  TOWPATH_TRY(const Bytes mine, encode(transport.ok() ? (*transport)->place() : PeerPlace()));
  TOWPATH_TRY(const std::vector<Bytes> reported, exchange.all(mine));
  TOWPATH_TRY(transport);
  PeerGroup group{.secret = all.front().secret, .places = {}};
  for (const Bytes& bytes : reported) {
    TOWPATH_TRY(PeerPlace place, decode_place(bytes));
    if (place.address.empty())
      return error(Code::unsupported, cat("PE ", group.places.size(), " has no way to other hosts"),
                   "its own message says why");
    group.places.push_back(std::move(place));
  }
  for (const std::uint32_t pe : here) group.places[pe].address.clear();
  (*transport)->meet(std::move(group));
  return std::unique_ptr<Remote>(*std::move(transport));
}

}  // namespace

Result<std::string> name_of_this_host() {
  TOWPATH_TRY(const std::string boot, sys::read_text_file("/proc/sys/kernel/random/boot_id"));
  std::string name(sys::trimmed(boot));
  // Abstract sockets, process numbers.
  for (const char* kind : {"/proc/self/ns/net", "/proc/self/ns/pid"}) {
    TOWPATH_TRY(const ino_t inode, namespace_of(kind));
    name += cat("/", inode);
  }
  return name;
}

Result<Bootstrap> bootstrap_over_hosts(Exchange& exchange, Attendance self) {
  TOWPATH_TRY(const PeFacts mine, facts_of(self));
  TOWPATH_TRY(const Bytes encoded, encode(mine));
  TOWPATH_TRY(const std::vector<Bytes> reported, exchange.all(encoded));
  TOWPATH_TRY(const std::vector<PeFacts> all, decode_all(reported));
  if (self.my_pe < 0 || static_cast<std::size_t>(self.my_pe) >= all.size())
    return error(Code::invalid_argument, cat("PE ", self.my_pe, " of ", all.size()));

  Bootstrap bootstrap{.my_pe = self.my_pe, .pes = self.pes, .pages = self.pages};
  std::vector<std::uint32_t> here;
  for (std::uint32_t pe = 0; pe < all.size(); ++pe) {
    const auto first = std::ranges::find(all, all[pe].host, &PeFacts::host);
    bootstrap.hosts.push_back(static_cast<std::uint32_t>(first - all.begin()));
    if (all[pe].host == mine.host) here.push_back(pe);
  }
  bootstrap.files = std::move(self.files);
  if (!bootstrap.files) {
    TOWPATH_TRY(bootstrap.files, share_job(self, all, here));
  }
  if (here.size() == all.size()) return bootstrap;  // one host after all: no thread, no network
  if (bootstrap.files->heaps.size() == here.size())
    bootstrap.files =
        spread(*std::move(bootstrap.files), here, static_cast<std::uint32_t>(all.size()));
  TOWPATH_TRY(bootstrap.remote, send_transport(exchange, self.network, all, here));
  return bootstrap;
}

Result<Bootstrap> bootstrap_by_id(const UniqueId& id, Attendance self) {
  SocketBootstrap bootstrap({.places = places_of(id),
                             .token = token_of(id),
                             .my_pe = self.my_pe,
                             .pes = self.pes,
                             .timeout = self.timeout});
  return bootstrap_over_hosts(bootstrap, std::move(self));
}

}  // namespace towpath::shmem
