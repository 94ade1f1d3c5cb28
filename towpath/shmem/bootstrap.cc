#include <towpath/core/text.h>
#include <towpath/shmem/bootstrap.h>

namespace towpath::shmem {
namespace {

Result<JobFiles> obtain_by_id(const Bootstrap& bootstrap, const Patience& patience) {
  const Joining self{.my_pe = bootstrap.my_pe, .pes = bootstrap.pes, .patience = patience.to_start};
  if (bootstrap.my_pe != 0) return receive(*bootstrap.unique_id, self);
  TOWPATH_TRY(JobFiles files,
              create_job({.pes = bootstrap.pes, .heap_bytes = bootstrap.heap_bytes}));
  TOWPATH_TRY(hand_out(*bootstrap.unique_id, files, self));
  return files;
}

}  // namespace

Result<JobFiles> obtain(Bootstrap bootstrap, const Patience& patience) {
  if (bootstrap.files) return *std::move(bootstrap.files);
  if (bootstrap.my_pe < 0 || bootstrap.my_pe >= bootstrap.pes)
    return error(Code::invalid_argument, cat("PE ", bootstrap.my_pe, " of ", bootstrap.pes),
                 "PEs are numbered from 0");
  if (bootstrap.unique_id && bootstrap.pes > 1) return obtain_by_id(bootstrap, patience);
  if (bootstrap.pes > 1)
    return error(Code::invalid_argument,
                 cat(bootstrap.pes, " PEs without a job or an identifier to find each other by"),
                 "start the program with `towpath run`, or pass all PEs one UniqueId");
  return create_job({.pes = 1, .heap_bytes = bootstrap.heap_bytes});
}

}  // namespace towpath::shmem
