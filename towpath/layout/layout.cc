#include <climits>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/layout/layout.h>

namespace towpath::layout {
namespace {

/// An axis of one index takes no step, whatever a framework wrote: so equal places are equal axes.
Axes without_idle_steps(Axes axes) {
  for (AxisShape& shape : axes.shapes)
    if (shape.extent == 1) shape.stride = shape.region_step = 0;
  return axes;
}

/// How a page lies, or a universal block: its elements without padding.
void order_tokens(Axes& axes, const LayoutConfig& config) {
  const std::uint64_t head_dim = axes[Axis::dim].extent;
  axes[Axis::dim].stride = 1;
  switch (config.format) {
    case BlockFormat::nhd:
      axes[Axis::token].stride = config.inner_dim;
      axes[Axis::head].stride = head_dim;
      break;
    case BlockFormat::hnd:
      axes[Axis::token].stride = head_dim;
      axes[Axis::head].stride = head_dim * config.page_size;
      break;
    case BlockFormat::universal:
      axes[Axis::token].stride = head_dim;
      axes[Axis::outer].stride = head_dim * config.page_size;
      axes[Axis::layer].stride = axes[Axis::outer].stride * config.outer_dim;
      axes[Axis::head].stride = axes[Axis::layer].stride * config.num_layers;
      break;
  }
}

Axes axes_of_pages(const Geometry& geometry, const LayoutConfig& config) {
  const std::uint64_t width = config.dtype_width_bytes;
  Axes axes = extents_of(config);
  axes[Axis::block].stride = geometry.block_stride / width;
  axes[Axis::layer].stride = geometry.layer_stride / width;
  axes[Axis::outer].stride = geometry.outer_stride / width;
  order_tokens(axes, config);
  axes[Axis::layer].region_step = geometry.regions == RegionRule::per_layer ? 1 : 0;
  axes[Axis::block].region_step = geometry.regions == RegionRule::per_block ? 1 : 0;
  return axes;
}

}  // namespace

Status check_pages(const Layout& layout) {
  if (layout.kind() == LayoutKind::strided)
    return error(Code::unsupported, "the pages of a strided layout need not lie together",
                 "plan with the layout's view(), or copy to another kind first");
  if (layout.config().format != BlockFormat::universal) return {};
  return error(Code::unsupported, "the pages of a universal block do not lie together",
               "plan with the layout's view(), or copy to another format first");
}

Result<Layout> Layout::make(LayoutDescriptor descriptor) {
  TOWPATH_TRY(descriptor.validate());
  TOWPATH_TRY(const Geometry geometry,
              Geometry::make(descriptor.config, descriptor.kind, descriptor.axes));
  return Layout(std::move(descriptor), geometry);
}

Result<Extent> Layout::memory_region(PageIndex page) const {
  TOWPATH_TRY(check_pages(*this));
  TOWPATH_TRY(const PagePlace place, geometry_.place(page));
  return Extent{.region = place.region,
                .address = descriptor_.regions[place.region].address + place.offset,
                .size = geometry_.page_bytes()};
}

TensorView Layout::view() const {
  const LayoutConfig& shape = config();
  TensorView::Parts parts{.element_bits = static_cast<unsigned>(shape.dtype_width_bytes * CHAR_BIT),
                          .axes = kind() == LayoutKind::strided
                                      ? without_idle_steps(descriptor_.axes)
                                      : axes_of_pages(geometry_, shape)};
  const auto view = TensorView::make(parts, geometry_.required_sizes());
  TOWPATH_CHECK(view.ok(), "a layout's geometry lies within its regions");
  return *view;
}

Result<TensorView> Layout::view_as(BlockFormat format) const {
  if (format == config().format) return view();
  if (kind() == LayoutKind::strided)
    return error(Code::unsupported,
                 cat("a strided layout taken for ", name_of(format),
                     ": its strides say the order, and no format"),
                 "describe what was written there with strides of its own");
  LayoutDescriptor other = descriptor_;
  other.config.format = format;
  TOWPATH_TRY(const Layout layout, make(std::move(other)));
  return layout.view();
}

bool share_address_space(const Layout& a, const Layout& b) noexcept {
  const bool both_here = a.agent().incarnation == 0 && b.agent().incarnation == 0;
  const bool both_host =
      is_host_addressable(a.location().kind) && is_host_addressable(b.location().kind);
  return (both_host || a.location() == b.location()) && (both_here || a.agent() == b.agent());
}

std::string to_string(const Layout& layout) {
  return cat(name_of(layout.kind()), " over ", to_string(layout.location()), ": ",
             to_string(layout.config()));
}

}  // namespace towpath::layout
