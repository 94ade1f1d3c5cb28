#include <algorithm>
#include <cerrno>

#include <sys/stat.h>

#include <towpath/core/text.h>
#include <towpath/shmem/hosts.h>
#include <towpath/shmem/messages/message_transport.h>
#include <towpath/shmem/socket_bootstrap.h>
#include <towpath/sys/os_error.h>
#include <towpath/sys/random.h>
#include <towpath/sys/text_file.h>
#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>

namespace towpath::shmem {
namespace {

using wire::Kind;
using wire::kOne;
using wire::Tag;
constexpr Tag kHost = wire::required(1), kPes = wire::required(2), kHeapBytes = wire::required(3),
              kKey = wire::required(4), kLocalId = wire::required(5);
constexpr wire::FieldRule kPeRules[] = {
    {kHost, "host", Kind::bytes, kOne, 256},
    {kPes, "pes", Kind::number, kOne, kMaxPes},
    {kHeapBytes, "heap bytes", Kind::number, kOne},
    {kKey, "key", Kind::number, kOne},
    {kLocalId, "local id", Kind::bytes, kOne, sizeof(UniqueId::Raw)},
};
constexpr wire::Schema kPeSchema("pe", kPeRules);
constexpr std::size_t kMaxAddressBytes = 16 * 1024;  // of a worker

/// What a PE says of itself.
struct PeFacts {
  std::string host;
  std::uint64_t pes = 0;
  std::uint64_t heap_bytes = 0;
  std::uint64_t key = 0;     // PE 0's is the job's
  UniqueId::Raw local_id{};  // that of the first PE of a host is the host's
};

Result<Bytes> encode(const PeFacts& facts) {
  wire::Encoder out(kPeSchema);
  out.put_text(kHost, facts.host);
  out.put_number(kPes, facts.pes);
  out.put_number(kHeapBytes, facts.heap_bytes);
  out.put_number(kKey, facts.key);
  out.put_bytes(kLocalId, facts.local_id);
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
          case kKey: facts.key = field.number(); break;
          case kLocalId:
            if (field.bytes().size() != facts.local_id.size()) return field.refuse("not 128 bytes");
            std::ranges::copy(field.bytes(), facts.local_id.begin());
            break;
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

/// The job of this host: made by its first PE, handed to the others.
Result<JobFiles> share_job(const Attendance& self, const std::vector<PeFacts>& all,
                           const std::vector<std::uint32_t>& here) {
  const auto mine = std::ranges::find(here, static_cast<std::uint32_t>(self.my_pe));
  const Joining joining{.my_pe = static_cast<int>(mine - here.begin()),
                        .pes = static_cast<int>(here.size()),
                        .patience = self.patience};
  TOWPATH_TRY(const UniqueId id, UniqueId::from_raw(all[here.front()].local_id));
  if (joining.my_pe != 0) return receive(id, joining);
  TOWPATH_TRY(JobFiles files, create_job({.pes = self.pes,
                                          .heap_bytes = all.front().heap_bytes,
                                          .heaps = joining.pes,
                                          .huge_pages = self.pages.huge}));
  if (joining.pes > 1) TOWPATH_TRY(hand_out(id, files, joining));
  return files;
}

Result<PeFacts> facts_of(const Attendance& self) {
  PeFacts facts{.host = self.host,
                .pes = static_cast<std::uint64_t>(self.pes),
                .heap_bytes = self.heap_bytes,
                .key = sys::random_u64(),
                .local_id = UniqueId::create({.for_this_host = true}).raw()};
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

/// The second round: where each can be reached. A PE without a network says so to all, rather than
/// let them wait.
Result<std::unique_ptr<Remote>> send_transport(Exchange& exchange, const NetworkOptions& network,
                                               std::uint64_t key,
                                               const std::vector<std::uint32_t>& here) {
  auto transport = MessageTransport::open(network);
  TOWPATH_TRY(std::vector<Bytes> addresses,
              exchange.all(transport.ok() ? (*transport)->address() : Bytes()));
  TOWPATH_TRY(transport);
  for (std::size_t pe = 0; pe < addresses.size(); ++pe)
    if (addresses[pe].empty() || addresses[pe].size() > kMaxAddressBytes)
      return error(Code::unsupported, cat("PE ", pe, " has no way to other hosts"),
                   "its own message says why");
  for (const std::uint32_t pe : here) addresses[pe].clear();
  (*transport)->meet({.key = key, .addresses = std::move(addresses)});
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
  TOWPATH_TRY(bootstrap.remote, send_transport(exchange, self.network, all.front().key, here));
  return bootstrap;
}

Result<Bootstrap> bootstrap_by_id(const UniqueId& id, Attendance self) {
  SocketBootstrap bootstrap({.places = id.places(),
                             .token = id.token(),
                             .my_pe = self.my_pe,
                             .pes = self.pes,
                             .patience = self.patience});
  return bootstrap_over_hosts(bootstrap, std::move(self));
}

}  // namespace towpath::shmem
