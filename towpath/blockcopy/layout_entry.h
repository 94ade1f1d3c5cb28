// A layout that a TransferManager knows: its own, or a peer's. Its own affair. Thread: as the
// manager.
#pragma once

#include <variant>

#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/layout/remote_layout.h>

namespace towpath::blockcopy {

struct TransferManager::Entry {
  std::variant<layout::PhysicalLayout, layout::RemoteLayout> layout;
  LayoutOptions options;

  const layout::Layout& geometry() const;
  const layout::PhysicalLayout* local() const;  // null: a peer's
  bool is_remote() const { return std::holds_alternative<layout::RemoteLayout>(layout); }
};

}  // namespace towpath::blockcopy
