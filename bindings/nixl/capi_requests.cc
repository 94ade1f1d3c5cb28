// The life of a request: posted, watched, asked about, released.
#include <cmath>

#include <towpath/agent/agent.h>
#include <towpath/compat/nixl/release.h>

#include "bindings/nixl/call.h"
#include "bindings/nixl/lists.h"
#include "bindings/nixl/nixl_agent.h"
#include "bindings/nixl/request.h"

using namespace towpath::nixl;
using towpath::Code;
using towpath::Duration;
using towpath::error;
using towpath::Outcome;
using towpath::Status;
using towpath::TransferState;
using towpath::agent::PostOptions;
using towpath::agent::Transfer;

namespace {

// How long a release waits for the last byte. Backends that end at once need none of it.
constexpr Duration kReleaseTimeout = std::chrono::seconds(10);

bool stands(const nixl_capi_xfer_req_s* request) {
  return request != nullptr && request->transfer.valid();
}

nixl_capi_status_t how_it_ended(const NixlAgent& nixl, nixl_capi_xfer_req_s& request) {
  const Outcome outcome = request.transfer.outcome();
  if (outcome == Outcome::done) return NIXL_CAPI_SUCCESS;
  if (!std::exchange(request.reported, true))
    (void)nixl.report(request.transfer.status(), "complete a request");
  // Only forgetting the peer and deregistering the memory cancel a request that still stands.
  return outcome == Outcome::cancelled ? NIXL_CAPI_ERROR_NOT_FOUND : NIXL_CAPI_ERROR_BACKEND;
}

nixl_capi_status_t status_of(NixlAgent& nixl, nixl_capi_xfer_req_s& request) {
  const Transfer& transfer = request.transfer;
  if (transfer.state() == TransferState::prepared) return NIXL_CAPI_ERROR_BACKEND;
  if (!transfer.ended()) nixl.help();
  return transfer.ended() ? how_it_ended(nixl, request) : NIXL_CAPI_IN_PROG;
}

PostOptions post_options(const nixl_capi_opt_args_s* given) {
  PostOptions options;
  if (given == nullptr) return options;
  options.notification = given->notification().value_or(towpath::Bytes());
  options.sends_empty = given->has_notification;
  return options;
}

std::int64_t microseconds(Duration time) {
  return std::chrono::ceil<std::chrono::microseconds>(time).count();
}

std::uint64_t whole(double microseconds) {
  return static_cast<std::uint64_t>(std::ceil(microseconds));
}

}  // namespace

extern "C" {

nixl_capi_status_t nixl_capi_post_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req_hndl,
                                           nixl_capi_opt_args_t opt_args) {
  return call(given(agent) && stands(req_hndl), [&] {
    NixlAgent& nixl = *agent->nixl;
    const Status posted = req_hndl->transfer.post(post_options(opt_args));
    if (!posted.ok()) return nixl.report(posted, "post a request");
    req_hndl->reported = false;
    return status_of(nixl, *req_hndl);
  });
}

nixl_capi_status_t nixl_capi_get_xfer_status(nixl_capi_agent_t agent,
                                             nixl_capi_xfer_req_t req_hndl) {
  return call(given(agent) && stands(req_hndl), [&] { return status_of(*agent->nixl, *req_hndl); });
}

nixl_capi_status_t nixl_capi_estimate_xfer_cost(nixl_capi_agent_t agent,
                                                nixl_capi_xfer_req_t req_hndl, nixl_capi_opt_args_t,
                                                int64_t* duration_us, int64_t* err_margin_us,
                                                nixl_capi_cost_t* method) {
  return call(given(agent, duration_us, err_margin_us, method) && stands(req_hndl), [&] {
    const towpath::agent::Explanation reported = req_hndl->transfer.explain();
    const towpath::agent::Candidate* chosen = reported.chosen();
    if (chosen == nullptr || chosen->estimate <= Duration(0)) return NIXL_CAPI_ERROR_BACKEND;
    *duration_us = microseconds(chosen->estimate);
    *err_margin_us = microseconds(chosen->margin);
    *method = NIXL_CAPI_COST_ANALYTICAL_BACKEND;
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_query_xfer_backend(nixl_capi_agent_t agent,
                                                nixl_capi_xfer_req_t req_hndl,
                                                nixl_capi_backend_t* backend) {
  return call(given(agent, backend) && stands(req_hndl), [&] {
    const std::string type = req_hndl->transfer.backend();
    const auto* const served = agent->nixl->backends().served_by(type, req_hndl->asked);
    if (served == nullptr) return NIXL_CAPI_ERROR_BACKEND;  // a request of another agent
    *backend = new nixl_capi_backend_s{*served};
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_release_xfer_req(nixl_capi_agent_t agent, nixl_capi_xfer_req_t req) {
  return call(given(agent) && stands(req), [&] {
    if (const Status ended = end_transfer(req->transfer, kReleaseTimeout); !ended.ok())
      return agent->nixl->report(ended, "release a request");
    req->transfer = Transfer();
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_destroy_xfer_req(nixl_capi_xfer_req_t req) {
  if (stands(req)) return NIXL_CAPI_ERROR_INVALID_STATE;
  return destroy(req);
}

nixl_capi_status_t nixl_capi_get_xfer_telemetry(nixl_capi_agent_t agent,
                                                nixl_capi_xfer_req_t req_hndl,
                                                nixl_capi_xfer_telemetry_t telemetry) {
  return call(given(agent, telemetry) && stands(req_hndl), [&] {
    if (!agent->nixl->captures_telemetry()) return NIXL_CAPI_ERROR_NO_TELEMETRY;
    const nixl_capi_status_t status = status_of(*agent->nixl, *req_hndl);
    if (status != NIXL_CAPI_SUCCESS) return status;
    const auto report = req_hndl->transfer.report();
    if (!report.ok()) return agent->nixl->report(report.status(), "report figures");
    *telemetry = {.start_time_us = report->start_us,
                  .post_duration_us = whole(report->post_us),
                  .xfer_duration_us = whole(report->transfer_us),
                  .total_bytes = report->bytes,
                  .desc_count = report->descriptors};
    return NIXL_CAPI_SUCCESS;
  });
}

}  // extern "C"
