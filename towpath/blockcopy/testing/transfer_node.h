// An agent with a transfer manager, a device and a folder, and caches of every kind in which each
// element holds a number of its own. For tests only. Thread: one.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <towpath/backends/loopback/loopback_backend.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/backends/shm/shm_backend.h>
#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/core/format.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/layout/builder.h>
#include <towpath/memory/pinned_region.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/file.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::blockcopy::testing {

using layout::BlockFormat;
using layout::LayoutConfig;
using layout::LayoutKind;

struct CacheKind {
  const char* name;
  MemoryKind memory = MemoryKind::system;
  LayoutKind kind = LayoutKind::fully_contiguous;
  BlockFormat format = BlockFormat::nhd;
  layout::Axes axes = {};  ///< of a strided layout
};

inline constexpr std::uint64_t kBlocks = 6;
inline constexpr std::uint64_t kLayers = 3;

inline LayoutConfig small_config(BlockFormat format = BlockFormat::nhd, std::uint64_t heads = 2) {
  return {.num_blocks = kBlocks,
          .num_layers = kLayers,
          .outer_dim = 2,
          .page_size = 4,
          .inner_dim = heads * 8,
          .dtype_width_bytes = 4,
          .num_heads = heads,
          .format = format};
}

/// A cache of small_config() that no other kind of layout can say: keys and values in a region
/// each, there the tokens of all layers, with room behind every head and every block.
inline CacheKind strided_kind(const char* name, MemoryKind memory = MemoryKind::system) {
  CacheKind kind{name, memory, LayoutKind::strided};
  using layout::Axis;
  kind.axes = layout::extents_of(small_config());
  kind.axes[Axis::outer].region_step = 1;
  kind.axes[Axis::dim].stride = 1;
  kind.axes[Axis::head].stride = 10;
  kind.axes[Axis::layer].stride = 20;
  kind.axes[Axis::token].stride = 20 * kLayers;
  kind.axes[Axis::block].stride = 4 * 20 * kLayers + 16;
  return kind;
}

/// Of an element of the whole model; `salt` distinguishes caches.
inline std::uint32_t number_of(std::uint32_t salt, const std::uint64_t (&at)[6]) {
  std::uint64_t number = salt;
  for (const std::uint64_t index : at) number = number * 11 + index;
  return static_cast<std::uint32_t>(number);
}

/// Calls visit(indices, place) for each element of a block of a cache in host memory. Heads count
/// from `first_head`.
template <class Visit>
void for_each_element(const layout::PhysicalLayout& cache, std::uint64_t block,
                      std::uint64_t first_head, Visit visit) {
  const layout::TensorView view = cache.layout().view();
  const auto extent = [&](layout::Axis axis) { return view[axis].extent; };
  using layout::Axis;
  for (std::uint64_t l = 0; l < extent(Axis::layer); ++l)
    for (std::uint64_t o = 0; o < extent(Axis::outer); ++o)
      for (std::uint64_t t = 0; t < extent(Axis::token); ++t)
        for (std::uint64_t h = 0; h < extent(Axis::head); ++h)
          for (std::uint64_t d = 0; d < extent(Axis::dim); ++d) {
            const std::uint64_t at[] = {block, l, o, t, h, d};
            std::uint64_t region = 0, offset = 0;
            for (std::size_t i = 0; i < 6; ++i) {
              region += at[i] * view.parts().axes.shapes[i].region_step;
              offset += at[i] * view.parts().axes.shapes[i].stride;
            }
            const std::uint64_t named[] = {block, l, o, t, h + first_head, d};
            visit(named, cache.regions()[region]->bytes().data() + offset * 4);
          }
}

/// Beside those that every node has.
struct MoreBackend {
  backend::BackendType type;
  backend::Params params;
};

struct TransferNode {
  explicit TransferNode(const std::string& name, TransferManagerOptions options = {},
                        const std::vector<MoreBackend>& more = {}) {
    EXPECT_TRUE(registry.add(backends::loopback::loopback_type()).ok());
    EXPECT_TRUE(registry.add(backends::posix::posix_type()).ok());
    EXPECT_TRUE(registry.add(backends::shm::shm_type()).ok());
    agent = *agent::Agent::create({.name = name, .registry = &registry, .clock = &clock});
    for (const char* backend : {"loopback", "posix", "shm"})
      EXPECT_TRUE(agent->add_backend(backend).ok()) << backend;
    for (const MoreBackend& backend : more) {
      EXPECT_TRUE(registry.add(backend.type).ok());
      const Status added = agent->add_backend(backend.type.name, backend.params);
      EXPECT_TRUE(added.ok()) << added.to_string();
    }
    device = *driver.open(0);
    pinned = *memory::PinnedAllocator::create(device, clock);
    options.agent = agent.get();
    if (options.clock == nullptr) options.clock = &clock;
    options.devices = {device};
    auto made = TransferManager::create(std::move(options));
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    manager = *std::move(made);
  }

  layout::PhysicalLayout build(const CacheKind& kind, std::uint64_t heads = 2) {
    layout::BuildRequest request{.registrar = &manager->registrar(),
                                 .config = small_config(kind.format, heads),
                                 .kind = kind.kind,
                                 .axes = kind.axes,
                                 .memory = {}};
    memory::Allocation what{
        .kind = kind.memory, .device = device, .pinned = pinned.get(), .files = &files};
    what.disk.path = folder.path() + "/";
    what.disk.direct = memory::DirectIo::off;
    what.object.key = cat(folder.path().substr(1), "/", next_object++);
    request.memory = what;
    auto built = layout::build_layout(std::move(request));
    EXPECT_TRUE(built.ok()) << kind.name << ": " << built.status().to_string();
    return *std::move(built);
  }
  LayoutHandle add(const layout::PhysicalLayout& cache, LayoutOptions options = {}) {
    return manager->register_layout(cache, std::move(options)).value();
  }
  LayoutHandle add(const CacheKind& kind) { return add(build(kind), {.tier = kind.name}); }

  /// A cache in host memory with numbers in all blocks.
  LayoutHandle add_filled(std::uint32_t salt, const CacheKind& kind = {"filled"}) {
    layout::PhysicalLayout cache = build(kind);
    for (std::uint64_t block = 0; block < kBlocks; ++block)
      for_each_element(cache, block, 0, [&](const auto& at, std::byte* place) {
        const std::uint32_t number = number_of(salt, at);
        std::memcpy(place, &number, sizeof number);
      });
    return add(cache);
  }

  /// Copies and expects that it works.
  void copy(LayoutHandle source, LayoutHandle target, std::vector<layout::BlockRange> blocks) {
    auto job = manager->copy({.source = source, .target = target, .blocks = std::move(blocks)});
    ASSERT_TRUE(job.ok()) << job.status().to_string();
    ASSERT_EQ(job->wait(std::chrono::seconds(20)), Outcome::done)
        << to_string(job->route()) << ": " << job->status().to_string();
    EXPECT_TRUE(job->not_in_place().empty());
  }

  /// Whether `block` of any cache holds what block `origin` of the cache of `salt` was filled with.
  void expect_block(LayoutHandle cache, std::uint64_t block, std::uint32_t salt,
                    std::uint64_t origin) {
    const layout::PhysicalLayout host = build({"check"});
    const LayoutHandle handle = add(host);
    copy(cache, handle, {{block, origin, 1}});
    expect_numbers(host, origin, salt);
    EXPECT_TRUE(manager->unregister_layout(handle).ok());
  }
  static void expect_numbers(const layout::PhysicalLayout& host, std::uint64_t block,
                             std::uint32_t salt, std::uint64_t first_head = 0) {
    for_each_element(host, block, first_head, [&](const auto& at, const std::byte* place) {
      std::uint32_t number = 0;
      std::memcpy(&number, place, sizeof number);
      ASSERT_EQ(number, number_of(salt, at));
    });
  }

  sys::SystemClock clock;
  sys::SystemFileSystem files;
  sys::TemporaryDirectory folder = *sys::TemporaryDirectory::create();
  int next_object = 0;
  device::HostDriver driver{clock};
  memory::SharedDevice device;
  std::unique_ptr<memory::PinnedAllocator> pinned;
  backend::Registry registry;
  std::unique_ptr<agent::Agent> agent;
  std::unique_ptr<TransferManager> manager;
};

}  // namespace towpath::blockcopy::testing
