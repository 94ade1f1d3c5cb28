#include <towpath/backends/messages/carrier.h>
#include <towpath/backends/messages/frames.h>
#include <towpath/core/format.h>
#include <towpath/core/words.h>
#include <towpath/net/ucx/ucx_worker.h>

namespace towpath::backends::messages {

using namespace backend;

namespace {

std::string text_of(const Params& params, const std::string& name) {
  const auto found = params.find(name);
  return found == params.end() ? std::string() : found->second;
}

Result<net::UcxOptions> options_of(const Params& params) {
  net::UcxOptions options{.transports = text_of(params, "transports"),
                          .devices = text_of(params, "devices"),
                          .message_bytes = kFrameBytes};
  // "NAME=VALUE;NAME=VALUE": values may hold commas.
  std::string_view rest = params.contains("settings") ? params.at("settings") : std::string_view();
  for (std::string_view one; !(one = next_word(rest, ";")).empty();) {
    const std::size_t sign = one.find('=');
    if (sign == 0 || sign == std::string_view::npos)
      return error(Code::invalid_argument,
                   cat("ucx: settings: '", printable(one), "' is no NAME=VALUE"));
    options.settings.emplace(one.substr(0, sign), one.substr(sign + 1));
  }
  return options;
}

/// What both have in common.
Carrier ucx_with(bool devices_too) {
  Carrier ucx;
  ucx.takes_devices = devices_too;
  ucx.cost = {.latency = std::chrono::microseconds(30),
              .per_segment = Duration(40),
              .bytes_per_second = 2e9};
  ucx.params = {
      {.name = "transports", .default_value = "", .meaning = "as UCX_TLS; empty: UCX chooses"},
      {.name = "devices",
       .default_value = "",
       .meaning = "as UCX_NET_DEVICES; empty: as that says"},
      {.name = "settings", .default_value = "", .meaning = "more for UCX: NAME=VALUE;NAME=VALUE"}};
  ucx.make_worker =
      [devices_too](const BackendContext& context,
                    net::MessageListener& listener) -> Result<std::unique_ptr<net::MessageWorker>> {
    TOWPATH_TRY(net::UcxOptions options, options_of(context.params));
    options.devices_too = devices_too;
    return net::open_ucx_worker(options, listener);
  };
  return ucx;
}

}  // namespace

Carrier ucx_carrier() {
  Carrier ucx = ucx_with(false);
  ucx.name = "ucx";
  ucx.summary = "agents of other processes and machines, over UCX (RDMA, TCP, shared memory)";
  ucx.path = "messages over UCX";
  ucx.probe = net::probe_ucx;
  return ucx;
}

Carrier ucx_device_carrier() {
  Carrier ucx = ucx_with(true);
  ucx.name = "ucx_device";
  ucx.summary = "GPUs' memory, of agents of other processes and machines, by a UCX that takes it";
  ucx.path = "messages over UCX that stand in the devices' memory";
  ucx.probe = net::probe_ucx_devices;
  return ucx;
}

}  // namespace towpath::backends::messages
