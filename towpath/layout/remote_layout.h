// RemoteLayout: a KV cache of another agent, as it described itself.
//
// It has addresses and no bytes: nothing in it can be dereferenced here, on purpose, even when the
// other agent lives in this process. Plan with layout(), describe() the plan, and let a transfer
// move it.
//
// Invariants: its descriptor was validated like that of a local layout; it names its agent.
// Thread: immutable.
#pragma once

#include <towpath/core/bytes.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>
#include <towpath/layout/layout.h>

namespace towpath::layout {

class RemoteLayout {
 public:
  /// From what encode() gave (layout_codec.h), whoever sent it. Errors: as decode_layout().
  static Result<RemoteLayout> decode(ConstByteSpan bytes);

  const Layout& layout() const noexcept { return layout_; }
  const LayoutConfig& config() const noexcept { return layout_.config(); }
  const Location& location() const noexcept { return layout_.location(); }
  const AgentIdentity& agent() const noexcept { return layout_.agent(); }

  /// Where a page is, at its agent. Errors: as Layout::memory_region().
  Result<Extent> memory_region(PageIndex page) const { return layout_.memory_region(page); }

 private:
  explicit RemoteLayout(Layout layout) : layout_(std::move(layout)) {}

  Layout layout_;
};

}  // namespace towpath::layout
