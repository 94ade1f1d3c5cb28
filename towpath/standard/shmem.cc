#include <towpath/standard/shmem.h>
#include <towpath/standard/shmem_environment.h>
#include <towpath/standard/shmem_exchange.h>

namespace towpath::standard {
namespace {

Result<shmem::Bootstrap> meet(ShmemInvitation invitation, Duration patience) {
  shmem::Attendance& self = invitation.self;
  self.patience = patience;
  ShmemExchange exchange({.place = std::move(invitation.place),
                          .my_pe = self.my_pe,
                          .pes = self.pes,
                          .patience = patience});
  return shmem::bootstrap_over_hosts(exchange, std::move(self));
}

}  // namespace

Result<shmem::Context> open_shmem(const shmem::ContextOptions& options) {
  const Environment environment = read_environment();
  TOWPATH_TRY(auto invitation, shmem_invitation(environment));
  TOWPATH_TRY(shmem::Bootstrap bootstrap,
              invitation ? meet(*std::move(invitation), options.patience.to_start)
                         : shmem_bootstrap(environment));
  return shmem::Context::open(std::move(bootstrap), options);
}

}  // namespace towpath::standard
