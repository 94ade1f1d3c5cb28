// PhysicalLayoutBuilder: from a config to a KV cache in memory, in an order that the compiler
// keeps.
//
//   auto cache = PhysicalLayoutBuilder(agent)
//                    .with_config(config)
//                    .layer_separate(BlockDimension::first)
//                    .allocate_system()
//                    .build();
//
//   state                       method                                                 then
//   NoConfig                    with_config                                            HasConfig
//   HasConfig NoLayout          fully_contiguous  layer_separate  block_separate       HasLayout
//                               strided
//   HasConfig HasLayout         allocate_system  allocate_pinned  allocate_device      HasMemory
//     NoMemory                  allocate_disk  allocate_objects
//                               with_memory_regions?  with_registered_regions?
//   HasConfig HasLayout         build?
//     HasMemory
//
// A method that is not of the state does not exist there. Those marked ? return a Result. Each step
// consumes the builder.
//
// Allocating makes one allocation and one registration, cut into the regions of the layout
// (allocation.h); of objects, one of each for every block. Nothing is allocated or registered
// before build(), except that with_memory_regions() registers at once. Thread: none of its own; one
// user at a time. The Registrar must live until build() returns.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/layout/layout_config.h>
#include <towpath/layout/physical_layout.h>
#include <towpath/layout/strides.h>
#include <towpath/memory/allocate.h>
#include <towpath/memory/borrowed.h>
#include <towpath/memory/registered.h>
#include <towpath/memory/registrar.h>

namespace towpath::layout {

// States; never made, only named.
struct NoConfig;
struct HasConfig;
struct NoLayout;
struct HasLayout;
struct NoMemory;
struct HasMemory;

/// Where files go that were given no path.
inline constexpr const char* kDefaultDiskDirectory = "/tmp/";

/// All that a finished builder holds.
struct BuildRequest {
  memory::Registrar* registrar = nullptr;
  LayoutConfig config;
  LayoutKind kind = LayoutKind::fully_contiguous;
  Axes axes;  ///< of a strided layout
  /// What to allocate (its size is up to the layout, and keys of objects are as allocate_objects()
  /// says), or regions registered with `registrar`.
  std::variant<memory::Allocation, std::vector<memory::SharedRegion>> memory;
};

/// What build() does. Errors: see PhysicalLayoutBuilder::build().
Result<PhysicalLayout> build_layout(BuildRequest request);

/// `region`, registered with `registrar` unless it is already.
/// Errors: invalid_argument (null), or those of Registrar::register_region.
Result<memory::SharedRegion> register_region(memory::SharedRegion region,
                                             memory::Registrar& registrar);

template <class Config = NoConfig, class Kind = NoLayout, class Memory = NoMemory>
class PhysicalLayoutBuilder {
  static constexpr bool kHasConfig = std::same_as<Config, HasConfig>;
  static constexpr bool kHasLayout = std::same_as<Kind, HasLayout>;
  static constexpr bool kHasMemory = std::same_as<Memory, HasMemory>;
  static constexpr bool kNeedsLayout = kHasConfig && !kHasLayout;
  static constexpr bool kNeedsMemory = kHasConfig && kHasLayout && !kHasMemory;

  using WithConfig = PhysicalLayoutBuilder<HasConfig, Kind, Memory>;
  using WithLayout = PhysicalLayoutBuilder<HasConfig, HasLayout, Memory>;
  using WithMemory = PhysicalLayoutBuilder<HasConfig, HasLayout, HasMemory>;

 public:
  explicit PhysicalLayoutBuilder(memory::Registrar& registrar) requires(!kHasConfig &&
                                                                        !kHasLayout &&
                                                                        !kHasMemory) {
    request_.registrar = &registrar;
  }

  /// The config is checked by build().
  WithConfig with_config(LayoutConfig config) && requires(!kHasConfig) {
    request_.config = config;
    return WithConfig(std::move(request_));
  }

  WithLayout fully_contiguous() && requires(kNeedsLayout) {
    return std::move(*this).with_kind(LayoutKind::fully_contiguous);
  }

  /// A region per block, as an object store wants it.
  WithLayout block_separate() && requires(kNeedsLayout) {
    return std::move(*this).with_kind(LayoutKind::block_separate);
  }

  WithLayout layer_separate(BlockDimension dimension) && requires(kNeedsLayout) {
    return std::move(*this).with_kind(layout::layer_separate(dimension));
  }

  /// Any strides, over as many regions as `axes` name: extents_of(config) with strides in elements
  /// and region steps, or axes_of() a framework's tensor. They are checked by build().
  WithLayout strided(const Axes& axes) && requires(kNeedsLayout) {
    request_.axes = axes;
    return std::move(*this).with_kind(LayoutKind::strided);
  }

  /// Ordinary memory of this process, page-aligned and zeroed.
  WithMemory allocate_system() && requires(kNeedsMemory) {
    return std::move(*this).allocate({.kind = MemoryKind::system});
  }

  /// Host memory that a GPU reaches directly. `allocator` must live until build() returns.
  WithMemory allocate_pinned(memory::PinnedAllocator& allocator) && requires(kNeedsMemory) {
    return std::move(*this).allocate({.kind = MemoryKind::pinned, .pinned = &allocator});
  }

  /// Memory of a GPU, or of whatever device a driver opened.
  WithMemory allocate_device(memory::SharedDevice device) && requires(kNeedsMemory) {
    return std::move(*this).allocate({.kind = MemoryKind::device, .device = std::move(device)});
  }

  /// A file; without a path a new one in kDefaultDiskDirectory. The size is the layout's.
  /// `files` must outlive the layout.
  WithMemory allocate_disk(sys::FileSystem& files, memory::DiskOptions options = {}) &&
      requires(kNeedsMemory) {
    return std::move(*this).allocate(
        {.kind = MemoryKind::disk, .disk = std::move(options), .files = &files});
  }

  /// An object for each block of a block_separate layout: KEY/0, KEY/1 and so on in a bucket. They
  /// are named, not made: the first copy of a block puts its object. Where in an object, and by
  /// which id, is not up to `place`.
  WithMemory allocate_objects(memory::ObjectPlace place) && requires(kNeedsMemory) {
    return std::move(*this).allocate({.kind = MemoryKind::object, .object = std::move(place)});
  }

  /// The caller's own memory, one value per region in the order of layers. Each is registered now
  /// and lives in the layout from here on; on failure all of them are dropped.
  /// Errors: as UserRegion::create and Registrar::register_region, with the index.
  template <memory::RegionLike T>
      Result<WithMemory> with_memory_regions(std::vector<T> values) && requires(kNeedsMemory) {
    std::vector<memory::SharedRegion> regions;
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto region = memory::UserRegion<T>::create(std::move(values[i]));
      if (!region.ok()) return at_index(i, region.status());
      regions.push_back(*std::move(region));
    }
    return std::move(*this).with_memory_regions(std::move(regions));
  }

  /// Regions that may or may not be known to the agent yet. Those that are not are registered now.
  /// Errors: invalid_argument (a null region), or as Registrar::register_region, with the index.
  template <std::derived_from<memory::Region> R>
      Result<WithMemory> with_memory_regions(std::vector<std::shared_ptr<R>> regions) &&
      requires(kNeedsMemory) {
    std::vector<memory::SharedRegion> registered;
    for (std::size_t i = 0; i < regions.size(); ++i) {
      auto region = register_region(std::move(regions[i]), *request_.registrar);
      if (!region.ok()) return at_index(i, region.status());
      registered.push_back(*std::move(region));
    }
    request_.memory = std::move(registered);
    return WithMemory(std::move(request_));
  }

  /// Regions that the agent knows: `Registered`, or views of them.
  /// Errors: invalid_argument (a null region; one that is not registered, with its index).
  Result<WithMemory> with_registered_regions(std::vector<memory::SharedRegion> regions) &&
      requires(kNeedsMemory) {
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const bool known = regions[i] != nullptr && regions[i]->registration() != nullptr &&
                         regions[i]->registration()->is_registered();
      if (!known)
        return error(Code::invalid_argument,
                     cat("provided memory region at index ", i, " is not registered"),
                     "register it with the agent first, or use with_memory_regions()");
    }
    request_.memory = std::move(regions);
    return WithMemory(std::move(request_));
  }

  /// Errors: as LayoutDescriptor::validate(); invalid_argument (the count of provided regions, one
  /// registered with another agent, regions of different locations); unsupported (no device was
  /// given, or the agent takes no such memory); or those of memory::allocate and
  /// Registrar::register_region, as the cause.
  Result<PhysicalLayout> build() && requires(kHasConfig&& kHasLayout&& kHasMemory) {
    return build_layout(std::move(request_));
  }

 private:
  template <class, class, class>
  friend class PhysicalLayoutBuilder;

  explicit PhysicalLayoutBuilder(BuildRequest request) : request_(std::move(request)) {}

  WithLayout with_kind(LayoutKind kind) && {
    request_.kind = kind;
    return WithLayout(std::move(request_));
  }
  WithMemory allocate(memory::Allocation what) && {
    request_.memory = std::move(what);
    return WithMemory(std::move(request_));
  }
  static Status at_index(std::size_t index, const Status& cause) {
    return error(cause.code(), cat("memory region at index ", index, " cannot be used"),
                 std::string(cause.hint()))
        .because(cause);
  }

  BuildRequest request_;
};

PhysicalLayoutBuilder(memory::Registrar&)->PhysicalLayoutBuilder<NoConfig, NoLayout, NoMemory>;

}  // namespace towpath::layout
