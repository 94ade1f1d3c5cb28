// Memory: registrations, questions, views.
#include <towpath/compat/nixl/memory_view.h>
#include <towpath/compat/nixl/params.h>
#include <towpath/core/format.h>

#include "bindings/nixl/call.h"
#include "bindings/nixl/lists.h"
#include "bindings/nixl/named_region.h"
#include "bindings/nixl/nixl_agent.h"
#include "bindings/nixl/side.h"

using namespace towpath::nixl;
using towpath::Code;
using towpath::error;
using towpath::Result;
using towpath::Status;

namespace {

using Answers = std::vector<std::optional<towpath::backend::Params>>;

Result<Answers> query(NixlAgent& nixl, const nixl_capi_reg_dlist_s& list,
                      const std::vector<towpath::nixl::NixlBackend>& backends) {
  if (backends.size() != 1) {
    return error(Code::invalid_argument,
                 towpath::cat("a question goes to one backend, not to ", backends.size()),
                 "add exactly one to opt_args");
  }
  TOWPATH_TRY(const towpath::MemoryKind kind, list.kind());
  std::vector<towpath::RegionDescriptor> asked;
  asked.reserve(list.entries.size());
  for (const NamedEntry& entry : list.entries) asked.push_back(describe(kind, entry));
  TOWPATH_TRY(Answers answers, nixl.agent().query(backends.front().type, asked));
  for (auto& answer : answers) {
    if (answer) answer = towpath::nixl::nixl_answer(*std::move(answer));
  }
  return answers;
}

Result<MemoryView> local_view(NixlAgent& nixl, const nixl_capi_xfer_dlist_s& list) {
  TOWPATH_TRY(const towpath::MemoryKind kind, list.kind());
  std::vector<towpath::Descriptor> elements;
  elements.reserve(list.entries.size());
  for (const PlainEntry& entry : list.entries) elements.push_back(entry.where);
  return MemoryView::of_own(nixl.agent(), {kind, elements});
}

Result<MemoryView> remote_view(NixlAgent& nixl, const nixl_capi_remote_dlist_s& list) {
  TOWPATH_TRY(const towpath::MemoryKind kind, list.kind());
  std::vector<RemoteElement> elements;
  elements.reserve(list.entries.size());
  for (const RemoteEntry& entry : list.entries)
    elements.push_back({entry.where, entry.agent, entry.is_hole});
  return MemoryView::of_peers(nixl.agent(), kind, elements);
}

nixl_capi_status_t give(NixlAgent& nixl, Result<MemoryView> view, nixl_capi_opt_args_t opt_args,
                        nixl_capi_mem_view_t* into) {
  if (!view.ok()) return nixl.report(view.status(), "make a memory view");
  *into = new nixl_capi_mem_view_s{{{}, *std::move(view), backends_of(opt_args)}};
  return NIXL_CAPI_SUCCESS;
}

}  // namespace

extern "C" {

nixl_capi_status_t nixl_capi_register_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t dlist,
                                          nixl_capi_opt_args_t opt_args) {
  return call(given(agent, dlist), [&] {
    NixlAgent& nixl = *agent->nixl;
    const Status status = nixl.registrations().add(
        {nixl.agent(), backends_of(opt_args), nixl.backends().created()}, *dlist, nixl.log());
    return nixl.report(status, "register memory");
  });
}

nixl_capi_status_t nixl_capi_deregister_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t dlist,
                                            nixl_capi_opt_args_t opt_args) {
  return call(given(agent, dlist), [&] {
    NixlAgent& nixl = *agent->nixl;
    return nixl.report(nixl.registrations().remove(nixl.agent(), *dlist, backends_of(opt_args)),
                       "deregister memory");
  });
}

nixl_capi_status_t nixl_capi_query_mem(nixl_capi_agent_t agent, nixl_capi_reg_dlist_t descs,
                                       nixl_capi_query_resp_list_t resp,
                                       nixl_capi_opt_args_t opt_args) {
  return call(given(agent, descs, resp), [&] {
    auto answers = query(*agent->nixl, *descs, backends_of(opt_args));
    if (!answers.ok()) return agent->nixl->report(answers.status(), "query memory");
    resp->answers = *std::move(answers);
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_create_query_resp_list(nixl_capi_query_resp_list_t* list) {
  return create(list);
}
nixl_capi_status_t nixl_capi_destroy_query_resp_list(nixl_capi_query_resp_list_t list) {
  return destroy(list);
}
nixl_capi_status_t nixl_capi_query_resp_list_size(nixl_capi_query_resp_list_t list, size_t* size) {
  return answer(list, size, [](const auto& of) { return of.answers.size(); });
}
nixl_capi_status_t nixl_capi_query_resp_list_has_value(nixl_capi_query_resp_list_t list,
                                                       size_t index, bool* has_value) {
  return call(given(list, has_value) && index < list->answers.size(), [&] {
    *has_value = list->answers[index].has_value();
    return NIXL_CAPI_SUCCESS;
  });
}
nixl_capi_status_t nixl_capi_query_resp_list_get_params(nixl_capi_query_resp_list_t list,
                                                        size_t index, nixl_capi_params_t* params) {
  return call(given(list, params) && index < list->answers.size() && list->answers[index], [&] {
    *params = new nixl_capi_params_s{*list->answers[index]};
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_prep_mem_view_local(nixl_capi_agent_t agent,
                                                 nixl_capi_xfer_dlist_t descs,
                                                 nixl_capi_mem_view_t* mvh,
                                                 nixl_capi_opt_args_t opt_args) {
  return call(given(agent, descs, mvh),
              [&] { return give(*agent->nixl, local_view(*agent->nixl, *descs), opt_args, mvh); });
}

nixl_capi_status_t nixl_capi_prep_mem_view_remote(nixl_capi_agent_t agent,
                                                  nixl_capi_remote_dlist_t descs,
                                                  nixl_capi_mem_view_t* mvh,
                                                  nixl_capi_opt_args_t opt_args) {
  return call(given(agent, descs, mvh),
              [&] { return give(*agent->nixl, remote_view(*agent->nixl, *descs), opt_args, mvh); });
}

nixl_capi_status_t nixl_capi_release_mem_view(nixl_capi_agent_t agent, nixl_capi_mem_view_t mvh) {
  return given(agent) ? destroy(mvh) : NIXL_CAPI_ERROR_INVALID_PARAM;
}

}  // extern "C"
