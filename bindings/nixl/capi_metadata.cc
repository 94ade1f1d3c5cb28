// Metadata: metadata by value, and to and from an address or a store.
#include <towpath/core/format.h>

#include "bindings/nixl/call.h"
#include "bindings/nixl/descriptors.h"
#include "bindings/nixl/lists.h"
#include "bindings/nixl/nixl_agent.h"
#include "bindings/nixl/vocabulary.h"

using namespace towpath::nixl;
using towpath::Bytes;
using towpath::Code;
using towpath::error;
using towpath::Result;
using towpath::Status;
namespace standard = towpath::standard;

namespace {

// The label of partial metadata: who gets it loads it, whatever it is called.
constexpr const char* kPart = "part";

Status check_reaches_peers(const towpath::agent::Agent& agent) {
  for (const std::string& backend : agent.backends()) {
    const auto can = agent.capabilities(backend);
    if (can.ok() && can->reaches_peers()) return {};
  }
  return error(Code::invalid_argument, "no backend of this agent reaches peers",
               "create one that does first");
}

/// The agent's metadata, of all its memory or of what `only` names.
Result<Bytes> metadata_of(NixlAgent& nixl, const nixl_capi_reg_dlist_s* only) {
  TOWPATH_TRY(check_reaches_peers(nixl.agent()));
  if (only == nullptr) return nixl.agent().metadata();
  TOWPATH_TRY(const towpath::DescriptorList list, only->descriptors());
  return nixl.agent().metadata({.only = &list});
}

/// NIXL forgets a peer that is lost.
Status unknown_if_lost(Status known) {
  if (known.code() != Code::peer_lost) return known;
  return error(Code::not_found, "a peer that was lost has to be met again").because(known);
}

nixl_capi_status_t give_metadata(NixlAgent& nixl, const nixl_capi_reg_dlist_s* only, void** data,
                                 size_t* len) {
  const Result<Bytes> metadata = metadata_of(nixl, only);
  return metadata.ok() ? give_bytes(*metadata, data, len)
                       : nixl.report(metadata.status(), "report its metadata");
}

/// The way to others' metadata and for the own: `place` becomes the address that was given, or
/// nothing: the store. Errors: invalid_argument (there is neither), or those of opening the way.
Result<standard::MetadataExchange*> way_to(NixlAgent& nixl, const nixl_capi_opt_args_s* options,
                                           standard::MetadataExchange::Address& place) {
  if (options != nullptr && options->address) {
    place = towpath::net::TcpAddress{*options->address, options->port};
  } else if (!nixl.has_store()) {
    return error(Code::invalid_argument, "metadata has nowhere to go",
                 "give an address, or set NIXL_ETCD_ENDPOINTS");
  }
  return nixl.exchange();
}

Status send(NixlAgent& nixl, const nixl_capi_opt_args_s* options,
            const nixl_capi_reg_dlist_s* only) {
  standard::MetadataExchange::Address to;
  TOWPATH_TRY(standard::MetadataExchange * exchange, way_to(nixl, options, to));
  TOWPATH_TRY(check_reaches_peers(nixl.agent()));
  if (only == nullptr) return exchange->send({}, to);
  TOWPATH_TRY(const towpath::DescriptorList list, only->descriptors());
  return exchange->send({.only = &list, .label = to ? kPart : ""}, to);
}

Status fetch(NixlAgent& nixl, const nixl_capi_opt_args_s* options, const char* peer) {
  standard::MetadataExchange::Address from;
  TOWPATH_TRY(standard::MetadataExchange * exchange, way_to(nixl, options, from));
  return exchange->fetch(peer, from);
}

Status withdraw(NixlAgent& nixl, const nixl_capi_opt_args_s* options) {
  standard::MetadataExchange::Address from;
  TOWPATH_TRY(standard::MetadataExchange * exchange, way_to(nixl, options, from));
  return exchange->invalidate(from);
}

}  // namespace

extern "C" {

nixl_capi_status_t nixl_capi_get_local_md(nixl_capi_agent_t agent, void** data, size_t* len) {
  return call(given(agent, data, len),
              [&] { return give_metadata(*agent->nixl, nullptr, data, len); });
}

nixl_capi_status_t nixl_capi_get_local_partial_md(nixl_capi_agent_t agent,
                                                  nixl_capi_reg_dlist_t descs, void** data,
                                                  size_t* len, nixl_capi_opt_args_t) {
  return call(given(agent, descs, data, len),
              [&] { return give_metadata(*agent->nixl, descs, data, len); });
}

nixl_capi_status_t nixl_capi_load_remote_md(nixl_capi_agent_t agent, const void* data, size_t len,
                                            char** agent_name) {
  return call(given(agent, data, agent_name) && len > 0, [&] {
    const auto peer = (*agent)->agent().load_metadata(lent_bytes(data, len));
    if (!peer.ok()) return (*agent)->report(peer.status(), "load metadata");
    return give_text(peer->name, agent_name);
  });
}

nixl_capi_status_t nixl_capi_invalidate_remote_md(nixl_capi_agent_t agent,
                                                  const char* remote_agent) {
  return call(given(agent, remote_agent), [&] {
    return (*agent)->debug((*agent)->agent().forget_peer(remote_agent), "forget an agent");
  });
}

nixl_capi_status_t nixl_capi_check_remote_md(nixl_capi_agent_t agent, const char* remote_name,
                                             nixl_capi_xfer_dlist_t descs) {
  return call(given(agent, remote_name), [&] {
    (*agent)->help();  // what came since may say that it is lost
    towpath::agent::Agent& self = (*agent)->agent();
    if (descs == nullptr)
      return (*agent)->debug(unknown_if_lost(self.check_peer(remote_name)), "find an agent");
    const auto list = descs->descriptors();
    const Status status = list.ok() ? self.check_peer(remote_name, &*list) : list.status();
    return (*agent)->debug(unknown_if_lost(status), "find an agent's memory");
  });
}

nixl_capi_status_t nixl_capi_send_local_md(nixl_capi_agent_t agent, nixl_capi_opt_args_t opt_args) {
  return call(given(agent), [&] {
    return agent->nixl->report(send(*agent->nixl, opt_args, nullptr), "send metadata");
  });
}

nixl_capi_status_t nixl_capi_send_local_partial_md(nixl_capi_agent_t agent,
                                                   nixl_capi_reg_dlist_t descs,
                                                   nixl_capi_opt_args_t opt_args) {
  return call(given(agent, descs), [&] {
    return agent->nixl->report(send(*agent->nixl, opt_args, descs), "send metadata");
  });
}

nixl_capi_status_t nixl_capi_fetch_remote_md(nixl_capi_agent_t agent, const char* remote_name,
                                             nixl_capi_opt_args_t opt_args) {
  return call(given(agent, remote_name), [&] {
    return agent->nixl->report(fetch(*agent->nixl, opt_args, remote_name), "fetch metadata");
  });
}

nixl_capi_status_t nixl_capi_invalidate_local_md(nixl_capi_agent_t agent,
                                                 nixl_capi_opt_args_t opt_args) {
  return call(given(agent), [&] {
    return agent->nixl->report(withdraw(*agent->nixl, opt_args), "withdraw metadata");
  });
}

}  // extern "C"
