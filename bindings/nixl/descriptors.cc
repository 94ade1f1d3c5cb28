#include "bindings/nixl/descriptors.h"

#include <towpath/core/format.h>

#include "bindings/nixl/vocabulary.h"

namespace towpath::nixl {

template <typename Entry>
Result<MemoryKind> EntryList<Entry>::kind() const {
  if (const std::optional<MemoryKind> known = kind_of(type)) return *known;
  return error(Code::invalid_argument, "a descriptor list of UNKNOWN memory",
               "create it as DRAM, VRAM, BLOCK, OBJECT or FILE");
}

template <typename Entry>
Result<DescriptorList> EntryList<Entry>::descriptors() const {
  TOWPATH_TRY(const MemoryKind known, kind());
  DescriptorList list(known);
  list.reserve(entries.size());
  for (const Entry& entry : entries) TOWPATH_TRY(list.add(entry.where));
  return list;
}

template struct EntryList<PlainEntry>;
template struct EntryList<NamedEntry>;
template struct EntryList<RemoteEntry>;

}  // namespace towpath::nixl
