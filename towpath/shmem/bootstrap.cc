#include <towpath/core/format.h>
#include <towpath/shmem/bootstrap.h>
#include <towpath/shmem/job.h>

namespace towpath::shmem {
Result<JobFiles> obtain(Bootstrap bootstrap) {
  if (bootstrap.files) return *std::move(bootstrap.files);
  if (bootstrap.my_pe < 0 || bootstrap.my_pe >= bootstrap.pes)
    return error(Code::invalid_argument, cat("PE ", bootstrap.my_pe, " of ", bootstrap.pes),
                 "PEs are numbered from 0");
  if (bootstrap.pes > 1)
    return error(Code::invalid_argument,
                 cat(bootstrap.pes, " PEs without a job or an identifier to find each other by"),
                 "start the program with `towpath run`, or pass all PEs one UniqueId");
  return create_job(
      {.pes = 1, .heap_bytes = bootstrap.heap_bytes, .huge_pages = bootstrap.pages.huge});
}

}  // namespace towpath::shmem
