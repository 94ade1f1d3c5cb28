#include <towpath/core/format.h>
#include <towpath/sys/judged.h>
#include <towpath/sys/nvidia_gpus.h>
#include <towpath/sys/pci.h>
#include <towpath/sys/rdma_ports.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += cat(list.empty() ? "" : ",", name);
  return list;
}

Judged judge_ports(const std::string& gpu, const std::vector<RdmaPort>& ports) {
  const std::string device = real_path(gpu);
  std::vector<std::string> near, all;
  for (const RdmaPort& port : ports) {
    all.push_back(port.name);
    if (share_switch(device, port.device)) near.push_back(port.name);
  }
  if (near.empty())
    return {.verdict = Verdict::degraded,
            .reason = cat("none of ", list_of(all)),
            .hint =
                "what this GPU sends passes the processors' own bus; put an adapter under "
                "its switch, or the engine on another GPU"};
  return {.verdict = Verdict::yes, .reason = cat("UCX_NET_DEVICES=", list_of(near))};
}

}  // namespace

std::vector<RdmaPort> rdma_ports(const std::string& sys) {
  const std::string adapters = sys + "/class/infiniband";
  std::vector<RdmaPort> ports;
  for (const std::string& adapter : names_in(adapters)) {
    const std::string device = real_path(cat(adapters, "/", adapter, "/device"));
    for (const std::string& port : names_in(cat(adapters, "/", adapter, "/ports")))
      ports.push_back({cat(adapter, ":", port), device});
  }
  return ports;
}

std::vector<Finding> probe_ports_near_gpus(const MachineRoot& root) {
  const std::vector<RdmaPort> ports = rdma_ports(root.sys);
  std::vector<Finding> findings;
  if (ports.empty()) return findings;
  for (const std::string& gpu : nvidia_gpus(root.sys)) {
    const std::string name = gpu.substr(gpu.rfind('/') + 1);
    findings.push_back(
        judge({.question = cat("Which RDMA ports share a switch with GPU ", name, "?"),
               .signal = "the PCI bridges above both",
               .source = root.sys + "/class/infiniband"},
              judge_ports(gpu, ports)));
  }
  return findings;
}

}  // namespace towpath::sys
