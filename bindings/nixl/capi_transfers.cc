// Transfers: prepared lists and requests.
#include <towpath/core/format.h>

#include "bindings/nixl/call.h"
#include "bindings/nixl/descriptors.h"
#include "bindings/nixl/lists.h"
#include "bindings/nixl/nixl_agent.h"
#include "bindings/nixl/request.h"
#include "bindings/nixl/side.h"
#include "bindings/nixl/vocabulary.h"

using namespace towpath::nixl;
using towpath::Code;
using towpath::error;
using towpath::Result;
using towpath::TransferOp;
using towpath::agent::PreparedList;
using towpath::agent::Selection;
using towpath::agent::Transfer;
using towpath::agent::TransferOptions;
using towpath::nixl::NixlBackend;

namespace {

std::vector<towpath::Descriptor> extents_of(const nixl_capi_xfer_dlist_s& list) {
  std::vector<towpath::Descriptor> all;
  all.reserve(list.entries.size());
  for (const PlainEntry& entry : list.entries) all.push_back(entry.where);
  return all;
}

Result<PreparedList> prepare(NixlAgent& nixl, std::string_view peer,
                             const nixl_capi_xfer_dlist_s& list) {
  TOWPATH_TRY(const towpath::MemoryKind kind, list.kind());
  const std::vector<towpath::Descriptor> all = extents_of(list);
  return peer.empty() ? nixl.agent().prepare(towpath::DescriptorView{kind, all})
                      : nixl.agent().prepare_remote(peer, towpath::DescriptorView{kind, all});
}

/// NIXL counts in int.
Result<std::vector<std::uint32_t>> indices_of(const int* indices, size_t count) {
  std::vector<std::uint32_t> positive;
  positive.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (indices[i] < 0)
      return error(Code::out_of_range, towpath::cat("index ", i, " is ", indices[i]));
    positive.push_back(static_cast<std::uint32_t>(indices[i]));
  }
  return positive;
}

TransferOptions transfer_options(const nixl_capi_opt_args_s* given) {
  TransferOptions options;
  if (given == nullptr) return options;
  options.notification = given->notification();
  options.merge = !given->skip_merge;
  return options;
}

// What the request asks for counts; else what the local side was prepared for, else the remote one.
const std::vector<NixlBackend>& backends_for(const nixl_capi_opt_args_s* given,
                                             const nixl_capi_xfer_dlist_handle_s& local,
                                             const nixl_capi_xfer_dlist_handle_s& remote) {
  if (given != nullptr && !given->backends.empty()) return given->backends;
  return local.backends.empty() ? remote.backends : local.backends;
}

/// The caller that of those that were asked for moves it is what the request reports later.
Result<nixl_capi_xfer_req_s> request_of(Result<Transfer> transfer,
                                        const std::vector<NixlBackend>& asked) {
  if (!transfer.ok()) return transfer.status();
  nixl_capi_xfer_req_s request(*std::move(transfer));
  for (const NixlBackend& backend : asked) request.asked.push_back(backend.name);
  return request;
}

nixl_capi_status_t give(nixl_capi_xfer_req_s request, nixl_capi_xfer_req_t* into) {
  *into = new nixl_capi_xfer_req_s(std::move(request));
  return NIXL_CAPI_SUCCESS;
}

struct Indices {
  const int* first;
  size_t count;
};

using Chosen = MemoryView::Choice;

Result<Chosen> choose(const nixl_capi_xfer_dlist_handle_s& side, Indices indices) {
  TOWPATH_TRY(std::vector<std::uint32_t> chosen, indices_of(indices.first, indices.count));
  if (side.view) return side.view->choose(std::move(chosen));
  return Chosen{side.list, std::move(chosen)};
}

Result<nixl_capi_xfer_req_s> make(NixlAgent& nixl, TransferOp op,
                                  const nixl_capi_xfer_dlist_handle_s& local, Indices here,
                                  const nixl_capi_xfer_dlist_handle_s& remote, Indices there,
                                  const nixl_capi_opt_args_s* given) {
  TOWPATH_TRY(const Chosen mine, choose(local, here));
  TOWPATH_TRY(const Chosen theirs, choose(remote, there));
  TransferOptions options = transfer_options(given);
  const std::vector<NixlBackend>& asked = backends_for(given, local, remote);
  options.backends = towpath::nixl::types_of(asked);
  options.local = Selection::of(mine.indices);
  options.remote = Selection::of(theirs.indices);
  return request_of(nixl.agent().make_transfer(op, *mine.list, *theirs.list, options), asked);
}

Result<nixl_capi_xfer_req_s> make(NixlAgent& nixl, TransferOp op,
                                  const nixl_capi_xfer_dlist_s& local,
                                  const nixl_capi_xfer_dlist_s& remote, std::string_view peer,
                                  const nixl_capi_opt_args_s* given) {
  if (peer.empty()) return error(Code::invalid_argument, "a remote agent needs a name");
  TOWPATH_TRY(const towpath::MemoryKind here, local.kind());
  TOWPATH_TRY(const towpath::MemoryKind there, remote.kind());
  const std::vector<NixlBackend> asked = backends_of(given);
  TransferOptions options = transfer_options(given);
  options.backends = towpath::nixl::types_of(asked);
  const std::vector<towpath::Descriptor> mine = extents_of(local);
  const std::vector<towpath::Descriptor> theirs = extents_of(remote);
  return request_of(nixl.agent().create_transfer(op, towpath::DescriptorView{here, mine}, peer,
                                                 towpath::DescriptorView{there, theirs}, options),
                    asked);
}

}  // namespace

extern "C" {

nixl_capi_status_t nixl_capi_agent_make_connection(nixl_capi_agent_t agent,
                                                   const char* remote_agent, nixl_capi_opt_args_t) {
  return call(given(agent, remote_agent), [&] {
    return agent->nixl->report(agent->nixl->agent().check_peer(remote_agent), "connect");
  });
}

nixl_capi_status_t nixl_capi_prep_xfer_dlist(nixl_capi_agent_t agent, const char* agent_name,
                                             nixl_capi_xfer_dlist_t descs,
                                             nixl_capi_xfer_dlist_handle_t* dlist_hndl,
                                             nixl_capi_opt_args_t opt_args) {
  return call(given(agent, agent_name, descs, dlist_hndl), [&] {
    auto list = prepare(*agent->nixl, agent_name, *descs);
    if (!list.ok()) return agent->nixl->report(list.status(), "prepare a list");
    *dlist_hndl = new nixl_capi_xfer_dlist_handle_s{
        std::make_shared<const PreparedList>(*std::move(list)), {}, backends_of(opt_args)};
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_release_xfer_dlist_handle(nixl_capi_agent_t agent,
                                                       nixl_capi_xfer_dlist_handle_t dlist_handle) {
  return given(agent) ? destroy(dlist_handle) : NIXL_CAPI_ERROR_INVALID_PARAM;
}

nixl_capi_status_t nixl_capi_make_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_op_t operation,
                                           nixl_capi_xfer_dlist_handle_t local_descs,
                                           const int* local_indices, size_t local_indices_count,
                                           nixl_capi_xfer_dlist_handle_t remote_descs,
                                           const int* remote_indices, size_t remote_indices_count,
                                           nixl_capi_xfer_req_t* req_hndl,
                                           nixl_capi_opt_args_t opt_args) {
  const auto op = operation_of(operation);
  const bool well_formed =
      given(agent, local_descs, local_indices, remote_descs, remote_indices, req_hndl) && op;
  return call(well_formed, [&] {
    auto made = make(*agent->nixl, *op, *local_descs, {local_indices, local_indices_count},
                     *remote_descs, {remote_indices, remote_indices_count}, opt_args);
    if (!made.ok()) return agent->nixl->report(made.status(), "make a request");
    return give(*std::move(made), req_hndl);
  });
}

nixl_capi_status_t nixl_capi_create_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_op_t operation,
                                             nixl_capi_xfer_dlist_t local_descs,
                                             nixl_capi_xfer_dlist_t remote_descs,
                                             const char* remote_agent,
                                             nixl_capi_xfer_req_t* req_hndl,
                                             nixl_capi_opt_args_t opt_args) {
  const auto op = operation_of(operation);
  const bool well_formed = given(agent, local_descs, remote_descs, remote_agent, req_hndl) && op;
  return call(well_formed, [&] {
    auto made = make(*agent->nixl, *op, *local_descs, *remote_descs, remote_agent, opt_args);
    if (made.ok()) return give(*std::move(made), req_hndl);
    (void)agent->nixl->report(made.status(), "create a request");
    return NIXL_CAPI_ERROR_BACKEND;
  });
}

}  // extern "C"
