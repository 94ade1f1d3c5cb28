// One side of transfers on its way from Python into the agent.
// Thread: made with the interpreter's lock, used without it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include <towpath/agent/agent.h>

#include "bindings/python/src/convert.h"
#include "bindings/python/src/descriptors.h"
#include "bindings/python/src/nixl_lists.h"

namespace towpath::python {

/// Whatever names extents of memory (to_list); lists of towpath.nixl are not even copied.
class Side {
 public:
  explicit Side(const py::object& source) {
    if (const XferList* const list = as_list<XferList>(source)) {
      kind_ = list->kind;
      plain_ = list->items.get();
    } else {
      list_ = to_list(source);
    }
  }
  explicit Side(DescriptorList list)
      : list_(std::make_shared<const DescriptorList>(std::move(list))) {}
  Result<agent::PreparedList> prepare(agent::Agent& agent) const {
    return plain_ ? agent.prepare(plain()) : agent.prepare(*list_);
  }
  Result<agent::PreparedList> prepare(agent::Agent& agent, const Name& peer) const {
    return plain_ ? agent.prepare_remote(peer.value, plain())
                  : agent.prepare_remote(peer.value, *list_);
  }
  bool is_plain() const noexcept { return plain_ != nullptr; }
  DescriptorView plain() const { return {kind_, *plain_}; }

 private:
  MemoryKind kind_ = MemoryKind::system;
  std::shared_ptr<const std::vector<Descriptor>> plain_;  // else:
  std::shared_ptr<const DescriptorList> list_;
};

struct Between {
  const Side& local;
  const Side& remote;
  const Name& peer;
};

/// A transfer of whole lists.
inline Result<agent::Transfer> create_transfer(agent::Agent& agent, TransferOp op,
                                               const Between& ends,
                                               const agent::TransferOptions& options) {
  const auto& [local, remote, peer] = ends;
  if (local.is_plain() && remote.is_plain())
    return agent.create_transfer(op, local.plain(), peer.value, remote.plain(), options);
  TOWPATH_TRY(const agent::PreparedList here, local.prepare(agent));
  TOWPATH_TRY(const agent::PreparedList there, remote.prepare(agent, peer));
  return agent.make_transfer(op, here, there, options);
}

}  // namespace towpath::python
