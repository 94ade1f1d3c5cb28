#include <utility>

#include <towpath/core/text.h>
#include <towpath/layout/layout.h>

namespace towpath::layout {

Result<Layout> Layout::make(LayoutDescriptor descriptor) {
  TOWPATH_TRY(descriptor.validate());
  TOWPATH_TRY(const Geometry geometry, Geometry::make(descriptor.config, descriptor.kind));
  return Layout(std::move(descriptor), geometry);
}

Result<Extent> Layout::memory_region(PageIndex page) const {
  TOWPATH_TRY(const PagePlace place, geometry_.place(page));
  return Extent{.region = place.region,
                .address = descriptor_.regions[place.region].address + place.offset,
                .size = geometry_.page_bytes()};
}

bool share_address_space(const Layout& a, const Layout& b) noexcept {
  const bool both_here = a.agent().incarnation == 0 && b.agent().incarnation == 0;
  return a.location() == b.location() && (both_here || a.agent() == b.agent());
}

std::string to_string(const Layout& layout) {
  return cat(name_of(layout.kind()), " over ", to_string(layout.location()), ": ",
             to_string(layout.config()));
}

}  // namespace towpath::layout
