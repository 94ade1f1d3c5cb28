#include "bindings/nixl/vocabulary.h"

#include <algorithm>
#include <cstring>

#include <towpath/standard/nixl_names.h>

namespace towpath::nixl {
namespace {

// Loading a number that an enumeration cannot hold is undefined; copying its bytes is not.
template <typename Enum>
int number_of(const Enum& value) noexcept {
  int number = 0;
  static_assert(sizeof value == sizeof number);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

}  // namespace

nixl_capi_status_t status_number(const Status& status) noexcept {
  switch (status.code()) {
    case Code::ok: return NIXL_CAPI_SUCCESS;
    case Code::invalid_argument:
    case Code::out_of_range: return NIXL_CAPI_ERROR_INVALID_PARAM;
    case Code::not_found: return NIXL_CAPI_ERROR_NOT_FOUND;
    case Code::no_telemetry: return NIXL_CAPI_ERROR_NO_TELEMETRY;
    default: return NIXL_CAPI_ERROR_BACKEND;
  }
}

std::optional<MemoryKind> kind_of(nixl_capi_mem_type_t type) noexcept {
  switch (type) {
    case NIXL_CAPI_MEM_DRAM: return MemoryKind::system;
    case NIXL_CAPI_MEM_VRAM: return MemoryKind::device;
    case NIXL_CAPI_MEM_BLOCK: return MemoryKind::block;
    case NIXL_CAPI_MEM_OBJECT: return MemoryKind::object;
    case NIXL_CAPI_MEM_FILE: return MemoryKind::disk;
    case NIXL_CAPI_MEM_UNKNOWN: break;
  }
  return std::nullopt;
}

nixl_capi_mem_type_t type_of(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::system:
    case MemoryKind::pinned: return NIXL_CAPI_MEM_DRAM;
    case MemoryKind::device: return NIXL_CAPI_MEM_VRAM;
    case MemoryKind::disk: return NIXL_CAPI_MEM_FILE;
    case MemoryKind::object: return NIXL_CAPI_MEM_OBJECT;
    case MemoryKind::block: return NIXL_CAPI_MEM_BLOCK;
  }
  return NIXL_CAPI_MEM_UNKNOWN;
}

bool is_memory_type(const nixl_capi_mem_type_t& type) noexcept {
  const int number = number_of(type);
  return number >= NIXL_CAPI_MEM_DRAM && number <= NIXL_CAPI_MEM_UNKNOWN;
}

std::optional<TransferOp> operation_of(const nixl_capi_xfer_op_t& operation) noexcept {
  switch (number_of(operation)) {
    case NIXL_CAPI_XFER_OP_READ: return TransferOp::read;
    case NIXL_CAPI_XFER_OP_WRITE: return TransferOp::write;
    default: return std::nullopt;
  }
}

std::vector<nixl_capi_mem_type_t> types_of(const std::vector<MemoryKind>& kinds) {
  std::vector<nixl_capi_mem_type_t> types;
  for (const MemoryKind kind : kinds) {
    if (std::ranges::find(types, type_of(kind)) == types.end()) types.push_back(type_of(kind));
  }
  return types;
}

// The names are literals, so each ends in a zero.
const char* type_name(nixl_capi_mem_type_t type) noexcept {
  const std::optional<MemoryKind> kind = kind_of(type);
  return kind ? standard::nixl_memory_name(*kind).data() : "UNKNOWN";
}

}  // namespace towpath::nixl
