#include <algorithm>
#include <array>

#include <towpath/standard/nixl_names.h>

namespace towpath::standard {
namespace {

struct BackendName {
  std::string_view ours;
  std::string_view nixls;
};

constexpr std::array<BackendName, 5> kBackendNames = {{
    {"gds", "GDS"},
    {"gds", "GDS_MT"},  // one backend: its threads are a parameter
    {"object", "OBJ"},
    {"posix", "POSIX"},
    {"ucx", "UCX"},
}};

}  // namespace

std::vector<std::string> nixl_backend_names(std::string_view type) {
  std::vector<std::string> names;
  for (const BackendName& name : kBackendNames) {
    if (name.ours == type) names.emplace_back(name.nixls);
  }
  if (names.empty()) names.emplace_back(type);
  return names;
}

void add_nixl_aliases(backend::Registry& registry) {
  for (const BackendName& name : kBackendNames) {
    if (registry.find(name.nixls).ok() || !registry.find(name.ours).ok()) continue;
    (void)registry.alias(name.nixls, name.ours);  // cannot fail: the name is free, the type there
  }
}

std::string_view nixl_memory_name(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::system:
    case MemoryKind::pinned: return "DRAM";
    case MemoryKind::device: return "VRAM";
    case MemoryKind::disk: return "FILE";
    case MemoryKind::object: return "OBJECT";
    case MemoryKind::block: return "BLOCK";
  }
  return "UNKNOWN";
}

}  // namespace towpath::standard
