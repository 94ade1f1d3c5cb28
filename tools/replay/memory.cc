#include "tools/replay/memory.h"

#include <algorithm>
#include <limits>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/sys/control_groups.h>
#include <towpath/sys/text_file.h>

#include "tools/units.h"

namespace towpath::tools::replay {
namespace {

Result<std::uint64_t> payload_of(const Options& options, std::uint64_t blocks) {
  TOWPATH_TRY(const layout::LayoutConfig config, pool_config(options, blocks));
  return config.payload_bytes();
}

// "MemAvailable:   21504 kB" -> bytes.
std::optional<std::uint64_t> available_to_all(const sys::MachineRoot& root) {
  const auto text = sys::read_text_file(root.proc + "/meminfo");
  if (!text.ok()) return {};
  auto line = sys::line_after(*text, "MemAvailable:");
  if (!line) return {};
  const auto number = sys::parse_number(line->substr(0, line->rfind("kB")));
  return number ? checked_multiply(*number, std::uint64_t{1024}) : std::nullopt;
}

}  // namespace

Result<PoolBytes> pool_bytes(const Options& options) {
  TOWPATH_TRY(const std::uint64_t prefill, payload_of(options, options.host_blocks));
  TOWPATH_TRY(const std::uint64_t decode, payload_of(options, options.decode_blocks));
  return PoolBytes{prefill, decode};
}

std::optional<std::uint64_t> available_memory(const sys::MachineRoot& root) {
  std::optional<std::uint64_t> most = available_to_all(root);
  const auto limit = sys::memory_limit(root);
  if (limit.ok() && *limit)
    most = std::min(most.value_or(std::numeric_limits<std::uint64_t>::max()), (*limit)->room());
  return most;
}

Status check_memory(const Options& options, std::uint64_t prefills, std::uint64_t decodes,
                    std::optional<std::uint64_t> available) {
  TOWPATH_TRY(const PoolBytes pools, pool_bytes(options));
  // In doubles: a product that is too large for 64 bits is too large for every machine.
  const double wanted = static_cast<double>(pools.prefill) * static_cast<double>(prefills) +
                        static_cast<double>(pools.decode) * static_cast<double>(decodes);
  if (!available || wanted <= static_cast<double>(*available)) return {};
  return error(
      Code::exhausted,
      cat("the pools take ", size_text(static_cast<std::uint64_t>(std::min(wanted, 1e18))), " (",
          prefills, " x ", size_text(pools.prefill), ", ", decodes, " x ", size_text(pools.decode),
          "), and ", size_text(*available), " of memory are available"),
      cat("a --scale above ", options.scale,
          " makes blocks smaller; --host-blocks and --decode-blocks make them fewer"));
}

}  // namespace towpath::tools::replay
