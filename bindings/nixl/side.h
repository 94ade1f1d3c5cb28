// One side of transfers that was looked up: a prepared list, or a memory view, which is given as
// one. Thread: immutable once made.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <towpath/agent/agent.h>
#include <towpath/compat/nixl/backends.h>
#include <towpath/compat/nixl/memory_view.h>

#include "bindings/nixl/nixl_capi.h"

/// Either a list or a view.
struct nixl_capi_xfer_dlist_handle_s {
  std::shared_ptr<const towpath::agent::PreparedList> list;
  std::optional<towpath::nixl::MemoryView> view;
  std::vector<towpath::nixl::NixlBackend> backends;  ///< that its maker asked for; none: all
};

/// So that C may give the one for the other.
struct nixl_capi_mem_view_s : nixl_capi_xfer_dlist_handle_s {};
