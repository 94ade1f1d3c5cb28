// Backends: what there is, what this agent has.
#include <towpath/compat/nixl/params.h>
#include <towpath/core/format.h>

#include "bindings/nixl/call.h"
#include "bindings/nixl/lists.h"
#include "bindings/nixl/nixl_agent.h"
#include "bindings/nixl/vocabulary.h"

using namespace towpath::nixl;
using towpath::MemoryKind;

namespace {

// Both or none: a failure to allocate the second frees the first.
nixl_capi_status_t give_description(const std::vector<MemoryKind>& kinds,
                                    towpath::backend::Params params, nixl_capi_mem_list_t* mems,
                                    nixl_capi_params_t* out) {
  auto memory = std::make_unique<nixl_capi_mem_list_s>(nixl_capi_mem_list_s{types_of(kinds)});
  *out = new nixl_capi_params_s{std::move(params)};
  *mems = memory.release();
  return NIXL_CAPI_SUCCESS;
}

// NIXL has one number for all that goes wrong here.
nixl_capi_status_t refuse(const nixl_capi_agent_s& agent, const towpath::Status& why,
                          std::string_view doing) {
  (void)agent->report(why, doing);
  return NIXL_CAPI_ERROR_BACKEND;
}

}  // namespace

extern "C" {

nixl_capi_status_t nixl_capi_get_available_plugins(nixl_capi_agent_t agent,
                                                   nixl_capi_string_list_t* plugins) {
  return call(given(agent, plugins), [&] {
    *plugins = new nixl_capi_string_list_s{(*agent)->backends().plugins()};
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_get_plugin_params(nixl_capi_agent_t agent, const char* plugin_name,
                                               nixl_capi_mem_list_t* mems,
                                               nixl_capi_params_t* params) {
  return call(given(agent, plugin_name, mems, params), [&] {
    const auto type = (*agent)->backends().plugin(plugin_name);
    if (!type.ok()) return refuse(*agent, type.status(), "describe a plug-in");
    const auto kinds = (*agent)->backends().plugin_kinds(plugin_name);
    if (!kinds.ok()) return refuse(*agent, kinds.status(), "describe a plug-in");
    return give_description(*kinds, towpath::nixl::nixl_defaults(**type), mems, params);
  });
}

nixl_capi_status_t nixl_capi_create_backend(nixl_capi_agent_t agent, const char* plugin_name,
                                            nixl_capi_params_t params,
                                            nixl_capi_backend_t* backend) {
  return call(given(agent, plugin_name, params, backend), [&] {
    auto handle = std::make_unique<nixl_capi_backend_s>();
    NixlAgent& nixl = *agent->nixl;
    const auto made = nixl.backends().create(nixl.agent(), plugin_name, params->values);
    if (!made.ok()) return refuse(*agent, made.status(), "create a backend");
    handle->what = **made;
    *backend = handle.release();
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_destroy_backend(nixl_capi_backend_t backend) {
  return destroy(backend);
}

nixl_capi_status_t nixl_capi_get_backend_params(nixl_capi_agent_t agent,
                                                nixl_capi_backend_t backend,
                                                nixl_capi_mem_list_t* mems,
                                                nixl_capi_params_t* params) {
  return call(given(agent, backend, mems, params), [&] {
    const auto kinds = towpath::nixl::kinds_of(agent->nixl->agent(), backend->what);
    if (!kinds.ok()) return refuse(*agent, kinds.status(), "describe a backend");
    return give_description(*kinds, backend->what.params, mems, params);
  });
}

}  // extern "C"
