#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>

#include <fcntl.h>

#include <towpath/core/format.h>
#include <towpath/shmem/job.h>
#include <towpath/standard/settings.h>
#include <towpath/standard/shmem_environment.h>
#include <towpath/standard/stderr_sink.h>
#include <towpath/standard/ucx_transports.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/os_error.h>

namespace towpath::standard {
namespace {

constexpr const char* kPe = "TOWPATH_SHMEM_PE";
constexpr const char* kJob = "TOWPATH_SHMEM_JOB";
constexpr const char* kHeap = "TOWPATH_SHMEM_HEAP";
constexpr const char* kHugePages = "TOWPATH_SHMEM_HUGE_PAGES";
constexpr const char* kNode = "TOWPATH_SHMEM_NODE";
constexpr const char* kMeet = "TOWPATH_SHMEM_MEET";
constexpr const char* kPes = "TOWPATH_SHMEM_PES";
constexpr const char* kNetwork = "TOWPATH_SHMEM_NETWORK";
constexpr const char* kSecurity = "TOWPATH_SECURITY";
constexpr std::string_view kElsewhere = "-";

// For variables that only a launcher sets.
constexpr const char* kStartSo = "start the program with `towpath run`";

Status cannot_read(std::string_view name, std::string_view value, const char* hint) {
  return error(Code::invalid_argument, cat(name, "=", printable(value), " cannot be read"), hint);
}

Result<int> number(std::string_view name, std::string_view text, const char* hint = kStartSo) {
  int value = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < 0)
    return cannot_read(name, text, hint);
  return value;
}

/// Empty: the variable is empty, or is not there, which is the same.
std::string_view setting_of(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

bool is_invited(const Environment& environment) { return !setting_of(environment, kMeet).empty(); }

/// A descriptor of our own for an inherited one, which further programs do not inherit.
Result<sys::Fd> adopt(int inherited) {
  if (::fcntl(inherited, F_SETFD, FD_CLOEXEC) != 0)
    return error(Code::not_ready, cat("descriptor ", inherited, " of the job was not inherited"),
                 "a program that closes descriptors stands between; start the PE itself with "
                 "`towpath run`")
        .because(sys::os_error(errno, "fcntl"));
  sys::Fd borrowed(inherited);
  auto own = borrowed.duplicate();
  (void)borrowed.release();
  return own;
}

Result<shmem::JobFiles> adopt_all(std::string_view list) {
  shmem::JobFiles files;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view item = list.substr(begin, end - begin);
    sys::Fd own;
    if (item != kElsewhere || !files.control) {
      TOWPATH_TRY(const int inherited, number(kJob, item));
      TOWPATH_TRY(own, adopt(inherited));
    }
    if (!files.control)
      files.control = std::move(own);
    else
      files.heaps.push_back(std::move(own));
    begin = end + 1;
  }
  return files;
}

}  // namespace

std::vector<Setting> shmem_settings() {
  std::vector<Setting> all = {
      {"SHMEM_HEAP", "bytes, as 64M", "SHMEM_SYMMETRIC_SIZE, else 256M",
       "of a PE that `towpath run` did not start: its heap", true},
      {"SHMEM_HUGE_PAGES", "off, best_effort, required", "off", "pages of that heap", true},
      {"SHMEM_NODE", "a number", "the kernel's choice", "NUMA node of that heap", true},
      {"SHMEM_NETWORK", "tcp, ucx", "UCX where all PEs have RDMA, else TCP",
       "between PEs of several hosts", true}};
  for (Setting& setting : all) setting.is_variable = true;
  return all;
}

bool is_shmem_variable(std::string_view name) noexcept {
  constexpr std::array<std::string_view, 8> kAll = {kPe,   kJob,  kHeap, kHugePages,
                                                    kNode, kMeet, kPes,  kNetwork};
  return std::ranges::any_of(
      kAll, [&](std::string_view whole) { return whole.substr(kOurPrefix.size()) == name; });
}

std::string heap_variable(const Environment& environment) {
  constexpr const char* kName = "SHMEM_SYMMETRIC_SIZE";
  constexpr const char* kOldName = "SMA_SYMMETRIC_SIZE";
  const bool is_old = setting_of(environment, kName).empty();
  return is_old && !setting_of(environment, kOldName).empty() ? kOldName : kName;
}

Result<std::uint64_t> shmem_heap_bytes(const Environment& environment) {
  for (const std::string& name : {std::string(kHeap), heap_variable(environment)}) {
    const std::string_view heap = setting_of(environment, name);
    if (heap.empty()) continue;
    const auto bytes = parse_bytes(heap);
    if (!bytes.ok()) return cannot_read(name, heap, "").because(bytes.status());
    return *bytes;
  }
  return shmem::kDefaultHeapBytes;
}

Result<sys::HugePages> parse_huge_pages(std::string_view text) {
  if (text == "off") return sys::HugePages::off;
  if (text == "best_effort") return sys::HugePages::best_effort;
  if (text == "required") return sys::HugePages::required;
  return error(Code::invalid_argument, cat("huge pages: ", printable(text)),
               "say off, best_effort or required");
}

Result<shmem::HeapPages> shmem_heap_pages(const Environment& environment) {
  shmem::HeapPages pages;
  if (const auto huge = setting_of(environment, kHugePages); !huge.empty()) {
    TOWPATH_TRY(pages.huge, parse_huge_pages(huge));
  }
  if (const auto node = setting_of(environment, kNode); !node.empty()) {
    TOWPATH_TRY(const int number_of_node,
                number(kNode, node, "give the number of a NUMA node, or unset it"));
    pages.node = static_cast<unsigned>(number_of_node);
  }
  return pages;
}

Result<shmem::NetworkOptions> shmem_network(const Environment& environment) {
  static StderrSink sink;
  static sys::SystemClock clock;
  shmem::NetworkOptions network{.has_rdma = has_rdma(),
                                .log = telemetry::Log(sink, clock, "symmetric memory")};
  const std::string_view named = setting_of(environment, kNetwork);
  const auto engine = shmem::parse_engine(named);
  if (!engine.ok()) return cannot_read(kNetwork, named, "").because(engine.status());
  network.engine = *engine;
  const std::string_view security = setting_of(environment, kSecurity);
  if (!security.empty() && security != "tls" && security != "authenticated")
    return error(Code::invalid_argument, cat(kSecurity, "=", printable(security)),
                 "say tls or authenticated");
  network.encrypted = security == "tls";
  const Settings settings = Settings::from(environment);
  network.certificates = {.certificate_file = settings.tls_cert_file,
                          .key_file = settings.tls_key_file,
                          .authority_file = settings.tls_ca_file};
  const std::string_view transports = setting_of(environment, "UCX_TLS");
  if (!network.engine && transports.empty()) network.ucx.transports = kWithoutTcp;
  if (network.engine == shmem::NetworkEngine::ucx && opens_tcp_port(transports))
    network.log.warning(kUcxPortDanger, {{"instead", "use TOWPATH_SHMEM_NETWORK=tcp, or UCX_TLS"}});
  return network;
}

bool is_started_by_pmix(const Environment& environment) {
  return environment.count("PMIX_RANK") != 0 && environment.count(kJob) == 0 &&
         !is_invited(environment);
}

Status refuse_other_pmi(const Environment& environment) {
  const auto size = environment.find("PMI_SIZE");
  if (environment.count("PMI_FD") == 0 || size == environment.end() || size->second == "1" ||
      environment.count(kJob) != 0 || is_invited(environment) || is_started_by_pmix(environment))
    return {};
  return error(Code::unsupported,
               cat("a launcher without PMIx started this PE as one of ", printable(size->second)),
               "start it with `srun --mpi=pmix`, another launcher with PMIx, or `towpath run`; or "
               "unset PMI_FD: then the PE is alone");
}

Result<shmem::Bootstrap> shmem_bootstrap(const Environment& environment) {
  shmem::Bootstrap bootstrap;
  const auto job = environment.find(kJob);
  const auto pe = environment.find(kPe);
  if (job != environment.end() && pe != environment.end()) {
    TOWPATH_TRY(bootstrap.my_pe, number(kPe, pe->second));
    TOWPATH_TRY(bootstrap.files, adopt_all(job->second));
    bootstrap.pes = static_cast<int>(bootstrap.files->heaps.size());
  }
  TOWPATH_TRY(bootstrap.heap_bytes, shmem_heap_bytes(environment));
  TOWPATH_TRY(bootstrap.pages, shmem_heap_pages(environment));
  TOWPATH_TRY(bootstrap.network, shmem_network(environment));
  return bootstrap;
}

Result<std::optional<ShmemInvitation>> shmem_invitation(const Environment& environment) {
  if (!is_invited(environment)) return std::optional<ShmemInvitation>();
  const auto pe = environment.find(kPe);
  const auto pes = environment.find(kPes);
  if (pe == environment.end() || pes == environment.end())
    return error(Code::invalid_argument, cat(kMeet, " without ", kPe, " or ", kPes),
                 "say which of how many PEs this is");
  ShmemInvitation invitation{.place = environment.at(kMeet), .self = {}};
  TOWPATH_TRY(invitation.self.my_pe, number(kPe, pe->second));
  TOWPATH_TRY(invitation.self.pes, number(kPes, pes->second));
  TOWPATH_TRY(invitation.self.heap_bytes, shmem_heap_bytes(environment));
  TOWPATH_TRY(invitation.self.pages, shmem_heap_pages(environment));
  TOWPATH_TRY(invitation.self.network, shmem_network(environment));
  if (const auto job = environment.find(kJob); job != environment.end()) {
    TOWPATH_TRY(invitation.self.files, adopt_all(job->second));
  }
  return std::optional(std::move(invitation));
}

Environment shmem_variables(const shmem::JobFiles& files, int pe) {
  std::string list = cat(files.control.get());
  for (const sys::Fd& heap : files.heaps)
    list += heap ? cat(",", heap.get()) : cat(",", kElsewhere);
  return {{kPe, cat(pe)}, {kJob, std::move(list)}};
}

Environment shmem_variables_of_one_host() { return {{kMeet, ""}, {kPes, ""}}; }

Environment shmem_variables_of_node(unsigned node) { return {{kNode, cat(node)}}; }

Environment shmem_variables_of_network(std::string_view network, std::string_view security) {
  Environment variables;
  if (!network.empty()) variables.emplace(kNetwork, network);
  if (!security.empty()) variables.emplace(kSecurity, security);
  return variables;
}

Environment shmem_variables(std::string_view place, int pes) {
  return {{kMeet, std::string(place)}, {kPes, cat(pes)}};
}

}  // namespace towpath::standard
