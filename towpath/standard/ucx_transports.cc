#include <algorithm>

#include <towpath/standard/ucx_transports.h>
#include <towpath/sys/rdma_ports.h>
#include <towpath/sys/text_file.h>

namespace towpath::standard {

bool opens_tcp_port(std::string_view transports) {
  const bool is_without = transports.starts_with('^');
  if (is_without) transports.remove_prefix(1);
  bool named = transports.empty();
  while (!transports.empty()) {
    const std::string_view item = transports.substr(0, transports.find(','));
    transports.remove_prefix(std::min(item.size() + 1, transports.size()));
    const std::string_view word = item.substr(0, item.find(':'));
    named = named || word == "tcp" || word == "all";
  }
  return named != is_without;
}

bool has_rdma(const std::string& sys, const std::string& dev) {
  if (sys::rdma_ports(sys).empty()) return false;
  return std::ranges::any_of(sys::names_in(dev + "/infiniband"),
                             [](const std::string& name) { return name.starts_with("uverbs"); });
}

}  // namespace towpath::standard
