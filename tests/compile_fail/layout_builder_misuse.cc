// The compiler keeps the order of PhysicalLayoutBuilder's methods, and a layout of another process
// hands out no bytes.
#include <utility>
#include <vector>

#include <towpath/layout/builder.h>
#include <towpath/layout/remote_layout.h>

namespace towpath::layout {

struct Given {
  PhysicalLayoutBuilder<> start;
  PhysicalLayoutBuilder<HasConfig> config_only;
  PhysicalLayoutBuilder<HasConfig, HasLayout> no_memory;
  PhysicalLayoutBuilder<HasConfig, HasLayout, HasMemory> complete;
  memory::Registrar& agent;
  sys::FileSystem& files;
  const RemoteLayout& remote;
  memory::PinnedAllocator& pinned;
  memory::SharedDevice device;
  LayoutConfig config;
  Axes axes;
  std::vector<memory::SharedRegion> regions;
};

// clang-format off
void kind_before_config(Given& g) {
  (void)std::move(g.start).fully_contiguous();                          // refused: fully_contiguous
  (void)std::move(g.start).layer_separate(BlockDimension::first);       // refused: layer_separate
  (void)std::move(g.start).strided(g.axes);                             // refused: strided
}
void memory_before_config(Given& g) {
  (void)std::move(g.start).allocate_system();                           // refused: allocate_system
  (void)std::move(g.start).with_registered_regions(g.regions);          // refused: with_registered
}
void memory_before_kind(Given& g) {
  (void)std::move(g.config_only).allocate_system();                     // refused: allocate_system
  (void)std::move(g.config_only).allocate_pinned(g.pinned);             // refused: allocate_pinned
  (void)std::move(g.config_only).allocate_device(g.device);             // refused: allocate_device
  (void)std::move(g.config_only).allocate_disk(g.files);                // refused: allocate_disk
  (void)std::move(g.config_only).with_memory_regions(g.regions);        // refused: with_memory
  (void)std::move(g.config_only).with_registered_regions(g.regions);    // refused: with_registered
}
void twice(Given& g) {
  (void)std::move(g.config_only).with_config(g.config);                 // refused: with_config
  (void)std::move(g.no_memory).fully_contiguous();                      // refused: fully_contiguous
  (void)std::move(g.no_memory).layer_separate(BlockDimension::second);  // refused: layer_separate
  (void)std::move(g.no_memory).strided(g.axes);                         // refused: strided
  (void)std::move(g.complete).allocate_system();                        // refused: allocate_system
  (void)std::move(g.complete).allocate_disk(g.files);                   // refused: allocate_disk
  (void)std::move(g.complete).with_registered_regions(g.regions);       // refused: with_registered
}
void build_too_early(Given& g) {
  (void)std::move(g.start).build();                                     // refused: build
  (void)std::move(g.config_only).build();                               // refused: build
  (void)std::move(g.no_memory).build();                                 // refused: build
}
void begin_in_the_middle(Given& g) {
  PhysicalLayoutBuilder<HasConfig, HasLayout, HasMemory> late(g.agent); // refused: match
}
void keep_what_a_step_consumed(Given& g) {
  (void)g.start.with_config(g.config);                                  // refused: discards|rvalue
}
void bytes_of_another_process(Given& g) {
  (void)g.remote.bytes({0, 0, 0});                                      // refused: bytes
}
// clang-format on

}  // namespace towpath::layout
