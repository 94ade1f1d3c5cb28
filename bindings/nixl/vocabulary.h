// NIXL's numbers for statuses and memory, and ours.
// Thread: immutable.
#pragma once

#include <optional>
#include <vector>

#include <towpath/core/memory_kind.h>
#include <towpath/core/status.h>
#include <towpath/core/transfer_state.h>

#include "bindings/nixl/nixl_capi.h"

namespace towpath::nixl {

/// The number for a failure; SUCCESS for none. What NIXL has no number for is BACKEND.
nixl_capi_status_t status_number(const Status& status) noexcept;

/// The kind behind NIXL's number; nothing for UNKNOWN and for what is none.
std::optional<MemoryKind> kind_of(nixl_capi_mem_type_t type) noexcept;
nixl_capi_mem_type_t type_of(MemoryKind kind) noexcept;
/// Whether a list of it can be made: all of NIXL's numbers, UNKNOWN among them. By reference, since
/// a caller's number may be none that this enumeration can hold.
bool is_memory_type(const nixl_capi_mem_type_t& type) noexcept;
/// Likewise; nothing for what is none.
std::optional<TransferOp> operation_of(const nixl_capi_xfer_op_t& operation) noexcept;
/// Each once, in the order of `kinds`.
std::vector<nixl_capi_mem_type_t> types_of(const std::vector<MemoryKind>& kinds);
/// "DRAM"; "UNKNOWN".
const char* type_name(nixl_capi_mem_type_t type) noexcept;

}  // namespace towpath::nixl
