// A transfer request: a Transfer, and whether its user released it.
// Thread: one at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <towpath/agent/agent.h>

struct nixl_capi_xfer_req_s {
  explicit nixl_capi_xfer_req_s(towpath::agent::Transfer made) : transfer(std::move(made)) {}

  towpath::agent::Transfer transfer;  ///< none once it was released
  bool reported = false;              ///< its failure, to the log
  std::vector<std::string> asked;     ///< backends by name; none: all
};
