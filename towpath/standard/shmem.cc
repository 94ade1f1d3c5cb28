#include <towpath/core/format.h>
#include <towpath/shmem/pmix/pmix_exchange.h>
#include <towpath/standard/shmem.h>
#include <towpath/standard/shmem_start.h>
#include <towpath/standard/user_token.h>

namespace towpath::standard {
namespace {

Result<shmem::Bootstrap> bootstrap_by_pmix(const Environment& environment, Duration timeout) {
  TOWPATH_TRY(const std::uint64_t heap_bytes, shmem_heap_bytes(environment));
  TOWPATH_TRY(const shmem::HeapPages pages, shmem_heap_pages(environment));
  TOWPATH_TRY(shmem::NetworkOptions network, shmem_network(environment));
  TOWPATH_TRY(const auto exchange, shmem::PmixExchange::open());
  return shmem::bootstrap_over_hosts(*exchange, {.my_pe = exchange->my_pe(),
                                                 .pes = exchange->pes(),
                                                 .heap_bytes = heap_bytes,
                                                 .pages = pages,
                                                 .files = {},
                                                 .host = {},
                                                 .timeout = timeout,
                                                 .network = std::move(network)});
}

/// Those that OpenSHMEM has names for.
constexpr Setting kSpecified[] = {
    {"SYMMETRIC_SIZE", "bytes, as 64M", "256M", "the heap of each PE"},
    {"VERSION", "a switch", "off", "PE 0 says at its start which library this is"},
    {"INFO", "a switch", "off", "PE 0 says this"},
    {"DEBUG", "a switch", "off", "each PE says at its start what it was given"}};

std::string help_of(std::string_view prefix, const Setting& setting) {
  return cat("  ", prefix, "_", setting.name, "  ", setting.values, "; unset: ", setting.unset,
             "; ", setting.what, "\n");
}

/// Off is what parse_switch() takes for it: any other value asks.
bool asks(const Environment& environment, std::string_view prefix, std::string_view name) {
  const auto found = environment.find(cat(prefix, "_", name));
  return found != environment.end() && parse_switch(found->second) != std::optional(false);
}

}  // namespace

Result<shmem::SocketBootstrapOptions> meeting_of(const ShmemInvitation& invitation,
                                                 Duration timeout) {
  constexpr std::string_view kTokenFile = "?token-file=";
  const std::string_view place = invitation.place;
  const std::size_t end = std::min(place.find(kTokenFile), place.size());
  TOWPATH_TRY(net::Address address, net::parse_address(place.substr(0, end)));
  const bool names_token = end < place.size();
  if (!names_token && !is_of_this_host(address))
    return error(Code::invalid_argument, cat("a meeting at ", to_string(address), " needs a token"),
                 "add ?token-file=PATH, the same for all PEs: others can reach that address");
  TOWPATH_TRY(net::Token token, names_token
                                    ? read_token(std::string(place.substr(end + kTokenFile.size())))
                                    : find_shared_token(shared_token_file(read_environment())));
  return shmem::SocketBootstrapOptions{.places = {std::move(address)},
                                       .token = std::move(token),
                                       .my_pe = invitation.self.my_pe,
                                       .pes = invitation.self.pes,
                                       .timeout = timeout};
}

Result<shmem::Bootstrap> bootstrap_shmem(const Environment& environment, Duration timeout) {
  TOWPATH_TRY(refuse_other_pmi(environment));
  if (is_started_by_pmix(environment)) return bootstrap_by_pmix(environment, timeout);
  TOWPATH_TRY(auto invitation, shmem_invitation(environment));
  if (!invitation) return shmem_bootstrap(environment);
  TOWPATH_TRY(auto options, meeting_of(*invitation, timeout));
  shmem::SocketBootstrap meeting(std::move(options));
  invitation->self.timeout = timeout;
  return shmem::bootstrap_over_hosts(meeting, std::move(invitation->self));
}

Result<shmem::Context> open_shmem(const shmem::ContextOptions& options) {
  TOWPATH_TRY(shmem::Bootstrap bootstrap,
              bootstrap_shmem(read_environment(), options.timeouts.to_start));
  return shmem::Context::open(std::move(bootstrap), options);
}

std::string shmem_greeting(const Environment& environment, std::string_view prefix,
                           std::string_view library, const shmem::Context& context) {
  std::string text;
  const bool is_first = context.my_pe() == 0;
  if (is_first && asks(environment, prefix, "VERSION")) text += cat(library, "\n");
  if (is_first && asks(environment, prefix, "INFO")) {
    text += cat(library, " reads these variables:\n");
    for (const Setting& setting : kSpecified) text += help_of(prefix, setting);
    for (const Setting& setting : shmem_settings()) text += help_of("TOWPATH", setting);
  }
  if (asks(environment, prefix, "DEBUG"))
    text += cat(library, ": PE ", context.my_pe(), " of ", context.n_pes(), ", its heap ",
                format_bytes(context.heap_bytes()), " in ", name_of(context.heap_placement().pages),
                " pages\n");
  return text;
}

}  // namespace towpath::standard
