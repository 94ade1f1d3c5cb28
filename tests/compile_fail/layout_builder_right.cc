// What layout_builder_misuse.cc does wrong, done right.
#include <utility>
#include <vector>

#include <towpath/layout/builder.h>
#include <towpath/layout/remote_layout.h>

namespace towpath::layout {

struct Given {
  memory::Registrar& agent;
  sys::FileSystem& files;
  const RemoteLayout& remote;
  memory::PinnedAllocator& pinned;
  memory::SharedDevice device;
  LayoutConfig config;
  Axes axes;
  std::vector<memory::SharedRegion> regions;
};

[[maybe_unused]] void right_use(Given given) {
  auto with_kind = [&] {
    return PhysicalLayoutBuilder(given.agent).with_config(given.config).fully_contiguous();
  };
  PhysicalLayoutBuilder start(given.agent);
  (void)std::move(start).with_config(given.config).layer_separate(BlockDimension::first);
  (void)PhysicalLayoutBuilder(given.agent).with_config(given.config).strided(given.axes);
  (void)with_kind().allocate_system().build();
  (void)with_kind().allocate_pinned(given.pinned).build();
  (void)with_kind().allocate_device(given.device).build();
  (void)with_kind().allocate_disk(given.files).build();
  (void)with_kind().with_memory_regions(given.regions);
  (void)with_kind().with_registered_regions(given.regions);
  (void)given.remote.memory_region({0, 0, 0});
}

}  // namespace towpath::layout
