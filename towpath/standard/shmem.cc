#include <towpath/shmem/pmix/pmix_exchange.h>
#include <towpath/standard/shmem.h>
#include <towpath/sys/text_file.h>

namespace towpath::standard {
namespace {

Result<shmem::Bootstrap> bootstrap_by_pmix(const Environment& environment, Duration patience) {
  TOWPATH_TRY(const std::uint64_t heap_bytes, shmem_heap_bytes(environment));
  TOWPATH_TRY(const shmem::HeapPages pages, shmem_heap_pages(environment));
  TOWPATH_TRY(const auto exchange, shmem::PmixExchange::open());
  return shmem::bootstrap_over_hosts(*exchange, {.my_pe = exchange->my_pe(),
                                                 .pes = exchange->pes(),
                                                 .heap_bytes = heap_bytes,
                                                 .pages = pages,
                                                 .files = {},
                                                 .host = {},
                                                 .patience = patience});
}

}  // namespace

Result<shmem::SocketBootstrapOptions> meeting_of(const ShmemInvitation& invitation,
                                                 Duration patience) {
  constexpr std::string_view kTokenFile = "?token-file=";
  const std::string_view place = invitation.place;
  const std::size_t end = std::min(place.find(kTokenFile), place.size());
  TOWPATH_TRY(net::Address address, net::parse_address(place.substr(0, end)));
  shmem::SocketBootstrapOptions options{.places = {std::move(address)},
                                        .token = {},
                                        .my_pe = invitation.self.my_pe,
                                        .pes = invitation.self.pes,
                                        .patience = patience};
  if (end == place.size()) return options;
  TOWPATH_TRY(const std::string secret,
              sys::read_text_file(std::string(place.substr(end + kTokenFile.size()))));
  TOWPATH_TRY(options.token, net::Token::make(sys::trimmed(secret)));
  return options;
}

Result<shmem::Bootstrap> bootstrap_shmem(const Environment& environment, Duration patience) {
  TOWPATH_TRY(refuse_other_pmi(environment));
  if (is_started_by_pmix(environment)) return bootstrap_by_pmix(environment, patience);
  TOWPATH_TRY(auto invitation, shmem_invitation(environment));
  if (!invitation) return shmem_bootstrap(environment);
  TOWPATH_TRY(auto options, meeting_of(*invitation, patience));
  shmem::SocketBootstrap meeting(std::move(options));
  invitation->self.patience = patience;
  return shmem::bootstrap_over_hosts(meeting, std::move(invitation->self));
}

Result<shmem::Context> open_shmem(const shmem::ContextOptions& options) {
  TOWPATH_TRY(shmem::Bootstrap bootstrap,
              bootstrap_shmem(read_environment(), options.patience.to_start));
  return shmem::Context::open(std::move(bootstrap), options);
}

}  // namespace towpath::standard
