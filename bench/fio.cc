#include "bench/fio.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <nlohmann/json.hpp>

#include <towpath/core/bytes.h>
#include <towpath/core/format.h>

namespace towpath::bench {
namespace {

/// What a command prints to standard output. Errors: unavailable.
Result<std::string> output_of(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return error(Code::unavailable, cat("cannot run: ", command));
  std::string text;
  char part[4096];
  for (std::size_t size; (size = std::fread(part, 1, sizeof part, pipe)) > 0;)
    text.append(part, size);
  const int status = ::pclose(pipe);
  if (status != 0) return error(Code::unavailable, cat("status ", status, " from: ", command));
  return text;
}

}  // namespace

Status find_fio() {
  if (output_of("fio --version 2>/dev/null").ok()) return {};
  return error(Code::not_found, "fio is not installed", "apt-get install fio");
}

std::string fio_command(const DiskFile& file, const DiskLoad& load) {
  std::string more;
  if (load.direct && load.registered) more = " --fixedbufs --registerfiles";
  if (load.sync_bytes != 0)
    more += cat(" --fdatasync=", std::max<std::uint64_t>(load.sync_bytes / load.block_bytes, 1));
  return cat(
      "fio --name=bench --ioengine=io_uring --filename=", file.path, " --size=", file.size_bytes,
      " --rw=", load.op == TransferOp::read ? "randread" : "randwrite", " --bs=", load.block_bytes,
      " --iodepth=", load.depth, " --direct=", load.direct ? 1 : 0,
      " --randrepeat=0 --norandommap --invalidate=0 --iomem_align=4096 --time_based --runtime=",
      std::chrono::duration_cast<std::chrono::milliseconds>(load.time).count(),
      "ms --thread --output-format=json", more);
}

Result<DiskFigure> run_fio(const std::string& command, TransferOp op) {
  TOWPATH_TRY(const std::string text, output_of(command));
  const auto report = nlohmann::json::parse(text, nullptr, false);
  const nlohmann::json::json_pointer job("/jobs/0");
  const char* const side = op == TransferOp::read ? "read" : "write";
  if (report.is_discarded() || !report.contains(job / side / "bw_bytes") ||
      report[job / side / "bw_bytes"] == 0)
    return error(Code::corrupt, cat("no bandwidth in the report of: ", command));
  const nlohmann::json& of = report[job];
  // Per cent of the time that the job ran, which is reported in milliseconds.
  const double share = (of.value("usr_cpu", 0.0) + of.value("sys_cpu", 0.0)) / 100;
  const double seconds = share * of.value("job_runtime", 0.0) / 1000;
  const double gib = of[side].value("io_bytes", 0.0) / static_cast<double>(kGiB);
  return DiskFigure{.nanoseconds_per_byte = 1e9 / of[side]["bw_bytes"].get<double>(),
                    .cpu_seconds_per_gib = gib > 0 ? seconds / gib : 0};
}

}  // namespace towpath::bench
