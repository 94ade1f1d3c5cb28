// The names under which NIXL's users know backends and memory, and ours.
//
// Ours are lower case and a Registry folds the case, so most names meet by themselves ("POSIX");
// this is the table of those that do not, and of how a name is shown to who thinks in NIXL's.
// Thread: immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/backend/registry.h>
#include <towpath/core/memory_kind.h>

namespace towpath::standard {

/// How NIXL's users spell our backend type: "UCX" for ucx, "GDS" and "GDS_MT" for gds; its own name
/// if they have none for it ("shm").
std::vector<std::string> nixl_backend_names(std::string_view type);

/// Aliases for those of NIXL's names that folding the case does not find, as far as `registry` has
/// their types.
void add_nixl_aliases(backend::Registry& registry);

/// "DRAM" for system and pinned, "VRAM", "BLOCK", "OBJECT", "FILE": as nixl_capi and Python say it.
std::string_view nixl_memory_name(MemoryKind kind) noexcept;

}  // namespace towpath::standard
