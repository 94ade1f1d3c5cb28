#include "bindings/python/src/policy.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <pybind11/stl.h>

#include <towpath/core/format.h>
#include <towpath/kv/eviction/policy.h>

#include "bindings/python/src/convert.h"

namespace towpath::python {
namespace {

/// A policy, and which slots may be evicted now. A slot that is not here is refused: the policies
/// trust their callers.
class Policy {
 public:
  Policy(const std::string& name, std::uint32_t slots)
      : kind_(unwrap(kv::policy_named(name))), slots_(slots), policy_(make_policy(kind_, slots)) {}

  void insert(kv::SlotId slot, kv::BlockHash hash, std::optional<kv::BlockHash> parent) {
    if (slot >= slots_.size() || slots_[slot].is_here) refuse(slot, "which is no free one");
    slots_[slot] = {.is_here = true};
    policy_->insert(slot, {hash, parent});
  }
  void touch(kv::SlotId slot) {
    check_here(slot);
    policy_->touch(slot);
  }
  void remove(kv::SlotId slot) {
    check_here(slot);
    leave(slot);
  }
  void allow(kv::SlotId slot, bool may_go) {
    check_here(slot);
    slots_[slot].may_go = may_go;
  }

  /// All of them or none. `kept` are not evicted, whatever was allowed.
  std::optional<std::vector<kv::SlotId>> evict(std::size_t count,
                                               const std::vector<kv::SlotId>& kept) {
    for (const kv::SlotId slot : kept) check_here(slot);
    for (const kv::SlotId slot : kept) slots_[slot].is_kept = true;
    const auto may_go = [&](kv::SlotId slot) {
      return slots_[slot].may_go && !slots_[slot].is_kept;
    };
    const auto are_there = static_cast<std::size_t>(std::ranges::count_if(
        slots_, [](const Slot& slot) { return slot.is_here && slot.may_go && !slot.is_kept; }));
    std::optional<std::vector<kv::SlotId>> gone;
    if (are_there >= count) gone.emplace();
    while (gone && gone->size() < count) {
      gone->push_back(*policy_->victim(may_go));
      leave(gone->back());
    }
    for (const kv::SlotId slot : kept) slots_[slot].is_kept = false;
    return gone;
  }

  void clear() {
    slots_.assign(slots_.size(), {});
    policy_ = make_policy(kind_, static_cast<kv::SlotId>(slots_.size()));
  }

 private:
  struct Slot {
    bool is_here = false;
    bool may_go = false;
    bool is_kept = false;  // during evict()
  };

  void leave(kv::SlotId slot) {
    policy_->remove(slot);
    slots_[slot] = {};
  }
  void check_here(kv::SlotId slot) const {
    if (slot >= slots_.size() || !slots_[slot].is_here) refuse(slot, "where nothing is");
  }
  [[noreturn]] void refuse(kv::SlotId slot, const char* why) const {
    raise(error(Code::invalid_argument, cat("slot ", slot, " of ", slots_.size(), ", ", why)));
  }

  const kv::PolicyKind kind_;
  std::vector<Slot> slots_;
  std::unique_ptr<kv::EvictionPolicy> policy_;
};

}  // namespace

void bind_policy(py::module_& module) {
  py::class_<Policy>(module, "EvictionPolicy")
      .def(py::init<const std::string&, std::uint32_t>(), py::arg("name"), py::arg("slots"))
      .def("insert", &Policy::insert, py::arg("slot"), py::arg("hash"),
           py::arg("parent") = py::none())
      .def("touch", &Policy::touch, py::arg("slot"))
      .def("remove", &Policy::remove, py::arg("slot"))
      .def("allow", &Policy::allow, py::arg("slot"), py::arg("may_go"))
      .def("evict", &Policy::evict, py::arg("count"), py::arg("kept") = std::vector<kv::SlotId>{})
      .def("clear", &Policy::clear);
}

}  // namespace towpath::python
