// The lists of descriptors that C fills: kept as they were given, judged when they are used.
//
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <towpath/core/descriptor.h>
#include <towpath/core/result.h>

#include "bindings/nixl/nixl_capi.h"

namespace towpath::nixl {

struct PlainEntry {
  Descriptor where;
};

/// Of a registration list: what lies there may have a name (a path, an object's key).
struct NamedEntry {
  Descriptor where;
  std::string metadata;
};

/// Of a remote list; no agent: a hole.
struct RemoteEntry {
  Descriptor where;
  std::string agent;
  bool is_hole = false;
};

template <typename Entry>
struct EntryList {
  nixl_capi_mem_type_t type = NIXL_CAPI_MEM_UNKNOWN;
  std::vector<Entry> entries;

  /// Errors: invalid_argument (memory of type UNKNOWN).
  Result<MemoryKind> kind() const;
  /// As the agent takes it. Errors: as kind(); out_of_range (an extent that wraps).
  Result<DescriptorList> descriptors() const;
};

extern template struct EntryList<PlainEntry>;
extern template struct EntryList<NamedEntry>;
extern template struct EntryList<RemoteEntry>;

}  // namespace towpath::nixl

struct nixl_capi_xfer_dlist_s : towpath::nixl::EntryList<towpath::nixl::PlainEntry> {};
struct nixl_capi_reg_dlist_s : towpath::nixl::EntryList<towpath::nixl::NamedEntry> {};
struct nixl_capi_remote_dlist_s : towpath::nixl::EntryList<towpath::nixl::RemoteEntry> {};
