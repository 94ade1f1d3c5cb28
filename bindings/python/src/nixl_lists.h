// The lists of towpath.nixl: what its users fill, index, change and pickle, item by item.
//
// A registration list has beside each descriptor bytes that say more (a path, a key) and perhaps
// the object that owns the memory, which is never pickled. A remote list names an agent for each.
// Thread: with the interpreter's lock.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include <towpath/core/descriptor.h>
#include <towpath/core/memory_kind.h>

namespace towpath::python {

namespace py = pybind11;

/// Copied when it is changed while a call that runs without the interpreter's lock reads it.
template <typename Item>
class Items {
 public:
  std::shared_ptr<const std::vector<Item>> get() const noexcept { return items_; }
  const std::vector<Item>& operator*() const noexcept { return *items_; }
  const std::vector<Item>* operator->() const noexcept { return items_.get(); }
  std::vector<Item>& change() {
    if (items_.use_count() > 1) items_ = std::make_shared<std::vector<Item>>(*items_);
    return *items_;
  }

 private:
  std::shared_ptr<std::vector<Item>> items_ = std::make_shared<std::vector<Item>>();
};

struct XferList {
  using Item = Descriptor;
  MemoryKind kind = MemoryKind::system;
  Items<Item> items;
};

struct RegItem {
  Descriptor where;
  std::string meta;
  py::object owner = py::none();

  friend bool operator==(const RegItem& a, const RegItem& b) {
    return a.where == b.where && a.meta == b.meta;
  }
};
struct RegList {
  using Item = RegItem;
  MemoryKind kind = MemoryKind::system;
  Items<Item> items;
};

struct RemoteItem {
  Descriptor where;
  std::string agent;

  friend bool operator==(const RemoteItem&, const RemoteItem&) = default;
};
struct RemoteList {
  using Item = RemoteItem;
  MemoryKind kind = MemoryKind::system;
  Items<Item> items;
};

/// Null: `source` is no such list, or one that was never made. Of XferList and RegList.
template <typename List>
const List* as_list(py::handle source);

/// Of a nixl_mem_t, or its number. Raises TypeError, ValueError, OverflowError.
MemoryKind kind_of_segment(py::handle segment);

void bind_nixl_lists(py::module_& module);

}  // namespace towpath::python
