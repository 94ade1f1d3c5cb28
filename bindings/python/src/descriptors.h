// towpath.DescriptorList: the library's own, strided entries and all, as a Python sequence.
// Thread: with the interpreter's lock.
#pragma once

#include <memory>

#include <pybind11/pybind11.h>

#include <towpath/core/descriptor.h>

namespace towpath::python {

namespace py = pybind11;

/// Copied when it is changed while a call that runs without the interpreter's lock reads it.
class SharedList {
 public:
  explicit SharedList(DescriptorList list)
      : list_(std::make_shared<DescriptorList>(std::move(list))) {}
  std::shared_ptr<const DescriptorList> get() const noexcept { return list_; }
  const DescriptorList& operator*() const noexcept { return *list_; }
  const DescriptorList* operator->() const noexcept { return list_.get(); }
  DescriptorList& change() {
    if (list_.use_count() > 1) list_ = std::make_shared<DescriptorList>(*list_);
    return *list_;
  }

 private:
  std::shared_ptr<DescriptorList> list_;
};

/// A DescriptorList, a list of towpath.nixl, or a Registration (all of it). Raises TypeError.
std::shared_ptr<const DescriptorList> to_list(py::handle source);

void bind_descriptors(py::module_& module);

}  // namespace towpath::python
