// A transfer request: a Transfer, and whether its user released it.
// Thread: one at a time.
#pragma once

#include <utility>

#include <towpath/agent/agent.h>

struct nixl_capi_xfer_req_s {
  explicit nixl_capi_xfer_req_s(towpath::agent::Transfer made) : transfer(std::move(made)) {}

  towpath::agent::Transfer transfer;  ///< none once it was released
  bool told = false;                  ///< its failure, to the log
};
