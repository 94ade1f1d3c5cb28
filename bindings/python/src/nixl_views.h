// Memory views of towpath.nixl: elements of this agent, or of several peers with holes between,
// that are looked up once and then named by their index.
//
// NIXL's are for kernels of a GPU. These are of host memory, and their handle goes where that of a
// prepared list goes: into makeXferReq(). A transfer has one peer, so its indices name elements of
// one. Thread: immutable once made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <towpath/agent/agent.h>

#include "bindings/python/src/nixl_lists.h"
#include "bindings/python/src/tables.h"

namespace towpath::python {

class MemoryView {
 public:
  /// Elements of this agent. Errors: unsupported (no host memory), not_found.
  static Result<MemoryView> of_own(agent::Agent& agent, const DescriptorView& list);
  /// Of the peers that they name; "NULL_AGENT" is a hole. Errors: as above.
  static Result<MemoryView> of_peers(agent::Agent& agent, MemoryKind kind,
                                     const std::vector<RemoteItem>& items);

  struct Choice {
    std::shared_ptr<const agent::PreparedList> list;
    std::vector<std::uint32_t> indices;
  };
  /// Errors: out_of_range (an index, a hole), invalid_argument (elements of several peers).
  Result<Choice> choose(const Indices& indices) const;

 private:
  struct Place {
    std::uint32_t part = 0;
    std::uint32_t index = 0;
  };
  static constexpr std::uint32_t kHole = UINT32_MAX;

  struct Part {
    std::string agent;
    std::shared_ptr<const agent::PreparedList> list;
  };

  std::vector<Part> parts_;
  std::vector<Place> places_;
};

}  // namespace towpath::python
