// Agents: create, destroy.
#include <cstdint>

#include <towpath/core/format.h>

#include "bindings/nixl/call.h"
#include "bindings/nixl/nixl_agent.h"

using namespace towpath::nixl;

namespace {

// What is no port would be one once it was cut to 16 bits.
bool can_listen(const nixl_capi_agent_config_t& config) {
  return !config.enable_listen_thread ||
         (config.listen_port >= 0 && config.listen_port <= UINT16_MAX);
}

nixl_capi_status_t open(AgentOptions options, nixl_capi_agent_t* agent) {
  options.environment = towpath::standard::read_environment();
  auto opened = NixlAgent::open(std::move(options));
  if (!opened.ok()) return NIXL_CAPI_ERROR_BACKEND;
  *agent = new nixl_capi_agent_s{*std::move(opened)};
  return NIXL_CAPI_SUCCESS;
}

}  // namespace

extern "C" {

nixl_capi_status_t nixl_capi_create_configured_agent(const char* name,
                                                     const nixl_capi_agent_config_t* cfg,
                                                     nixl_capi_agent_t* agent) {
  return call(given(name, cfg, agent) && can_listen(*cfg), [&] {
    return open({.name = name,
                 .progress_thread = cfg->enable_prog_thread,
                 .listens = cfg->enable_listen_thread,
                 .listen_port = static_cast<std::uint16_t>(cfg->listen_port),
                 .capture_telemetry = cfg->capture_telemetry},
                agent);
  });
}

nixl_capi_status_t nixl_capi_create_agent(const char* name, nixl_capi_agent_t* agent) {
  return call(given(name, agent), [&] { return open({.name = name}, agent); });
}

nixl_capi_status_t nixl_capi_destroy_agent(nixl_capi_agent_t agent) {
  // A forked child lets go of nothing: it is all the parent's.
  if (agent != nullptr && (*agent)->agent().is_inherited()) return NIXL_CAPI_SUCCESS;
  return destroy(agent);
}

bool nixl_capi_is_stub(void) { return false; }

}  // extern "C"
