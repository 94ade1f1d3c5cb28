// Regions as NIXL's users name them: an address, an open file, a path, an object's key.
//
// A file comes as a descriptor number in dev_id, or as a path with the mode of opening in front as
// metadata ("rw,create:kv/blocks.bin"), which the backend opens; metadata of another look is a
// remark about the descriptor. Length 0 of a file, object or device is all of it.
// Thread: immutable.
#pragma once

#include <towpath/core/result.h>
#include <towpath/memory/region.h>

#include "bindings/nixl/descriptors.h"

namespace towpath::nixl {

/// Errors: invalid_argument (no bytes, a null address, no file descriptor), out_of_range (it
/// wraps).
Result<memory::SharedRegion> make_region(MemoryKind kind, const NamedEntry& entry);

/// For a query: metadata of a file or object is its path or key.
RegionDescriptor describe(MemoryKind kind, const NamedEntry& entry);

}  // namespace towpath::nixl
