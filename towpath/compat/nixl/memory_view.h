// Memory views: elements of this agent, or of several peers with holes between, that are looked up
// once and then named by their index.
//
// NIXL's are for kernels of a GPU. These are of host memory, and their handle goes where that of a
// prepared list goes, into the making of a transfer. A transfer has one peer, so its indices name
// elements of one. Both drop-in replacements, C and Python, ask here.
// Thread: immutable once made.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <towpath/agent/agent.h>

namespace towpath::nixl {

/// An element of a view of peers' memory.
struct RemoteElement {
  Descriptor where;
  std::string_view agent;
  bool is_hole = false;  ///< no memory: it keeps the indices of the others
};

class MemoryView {
 public:
  /// Elements of this agent. Errors: unsupported (no host memory), not_found (none of them, or one
  /// that is not registered), invalid_argument (2^32 and more).
  static Result<MemoryView> of_own(agent::Agent& agent, const DescriptorView& list);
  /// Of the peers that they name. Errors: as above; not_found (no such peer, or holes alone).
  static Result<MemoryView> of_peers(agent::Agent& agent, MemoryKind kind,
                                     std::span<const RemoteElement> wanted);

  struct Choice {
    std::shared_ptr<const agent::PreparedList> list;
    std::vector<std::uint32_t> indices;  ///< of `list`
  };
  /// The prepared list that has these elements. Errors: out_of_range (an index, a hole),
  /// invalid_argument (none, or elements of several peers).
  Result<Choice> choose(std::vector<std::uint32_t> chosen) const;

  std::size_t size() const noexcept { return places_.size(); }

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

}  // namespace towpath::nixl
