#include <utility>

#include <towpath/layout/layout_codec.h>
#include <towpath/layout/remote_layout.h>

namespace towpath::layout {

Result<RemoteLayout> RemoteLayout::decode(ConstByteSpan bytes) {
  TOWPATH_TRY(LayoutDescriptor descriptor, decode_layout(bytes));
  TOWPATH_TRY(Layout layout, Layout::make(std::move(descriptor)));
  return RemoteLayout(std::move(layout));
}

}  // namespace towpath::layout
