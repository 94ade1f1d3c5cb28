#include <towpath/backends/messages/carrier.h>
#include <towpath/backends/messages/frames.h>
#include <towpath/core/words.h>
#include <towpath/net/tcp/tcp_worker.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

/// "eth0,eth1"
std::vector<std::string> devices_of(const Params& params) {
  std::vector<std::string> devices;
  const auto found = params.find("devices");
  std::string_view rest = found == params.end() ? std::string_view() : found->second;
  for (std::string_view one; !(one = next_word(rest, ", ")).empty();) devices.emplace_back(one);
  return devices;
}

}  // namespace

Carrier tcp_carrier() {
  Carrier tcp;
  tcp.name = "tcp";
  tcp.summary = "agents of other processes and machines, over TCP";
  tcp.path = "messages over TCP";
  tcp.has_connections = true;
  tcp.cost = {.latency = std::chrono::microseconds(20),
              .per_segment = Duration(30),
              .bytes_per_second = 4e9};
  tcp.params = {{.name = "devices",
                 .default_value = "",
                 .meaning = "network interfaces by which others may come: eth0,eth1; empty: all"}};
  tcp.make_worker = [](const BackendContext& context, net::MessageListener& listener) {
    return net::open_tcp_worker({.devices = devices_of(context.params),
                                 .head_bytes = kMaxHeadBytes,
                                 .body_bytes = kPayloadBytes},
                                listener, *context.clock);
  };
  tcp.probe = net::probe_tcp;
  return tcp;
}

}  // namespace towpath::backends::messages
