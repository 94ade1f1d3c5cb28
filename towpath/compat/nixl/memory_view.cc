#include <algorithm>
#include <map>
#include <utility>

#include <towpath/compat/nixl/memory_view.h>
#include <towpath/core/format.h>

namespace towpath::nixl {
namespace {

Status check_kind(MemoryKind kind) {
  if (kind == MemoryKind::system || kind == MemoryKind::pinned) return {};
  return error(
      Code::unsupported, cat("a memory view of ", name_of(kind), " memory"),
      "make it of DRAM; views of a GPU's memory are for transfers that a GPU starts, which "
      "no backend here does");
}

Status check_count(std::size_t count) {
  if (count == 0) return error(Code::not_found, "a memory view of no elements", "name some");
  if (count < UINT32_MAX) return {};
  return error(Code::invalid_argument, cat("a memory view of ", count, " elements"),
               "name less than 2^32");
}

std::shared_ptr<const agent::PreparedList> shared(agent::PreparedList list) {
  return std::make_shared<const agent::PreparedList>(std::move(list));
}

}  // namespace

Result<MemoryView> MemoryView::of_own(agent::Agent& agent, const DescriptorView& list) {
  TOWPATH_TRY(check_kind(list.kind()));
  TOWPATH_TRY(check_count(list.plain().size()));
  TOWPATH_TRY(agent::PreparedList prepared, agent.prepare(list));
  MemoryView view;
  view.parts_.push_back({agent.name(), shared(std::move(prepared))});
  for (std::uint32_t i = 0; i < list.plain().size(); ++i) view.places_.push_back({0, i});
  return view;
}

Result<MemoryView> MemoryView::of_peers(agent::Agent& agent, MemoryKind kind,
                                        std::span<const RemoteElement> wanted) {
  TOWPATH_TRY(check_kind(kind));
  TOWPATH_TRY(check_count(wanted.size()));
  MemoryView view;
  std::map<std::string_view, std::uint32_t> part_of;
  std::vector<std::vector<Descriptor>> elements;
  for (const RemoteElement& item : wanted) {
    if (item.is_hole) {
      view.places_.push_back({kHole, 0});
      continue;
    }
    const auto next = static_cast<std::uint32_t>(elements.size());
    const auto [found, is_new] = part_of.emplace(item.agent, next);
    if (is_new) elements.emplace_back();
    std::vector<Descriptor>& of_agent = elements[found->second];
    view.places_.push_back({found->second, static_cast<std::uint32_t>(of_agent.size())});
    of_agent.push_back(item.where);
  }
  if (elements.empty())
    return error(Code::not_found, "a memory view of no peer's memory", "name a peer");
  view.parts_.resize(elements.size());
  for (const auto& [name, part] : part_of) {
    const DescriptorView of_agent(kind, elements[part]);
    TOWPATH_TRY(agent::PreparedList list, agent.prepare_remote(name, of_agent));
    view.parts_[part] = {std::string(name), shared(std::move(list))};
  }
  return view;
}

Result<MemoryView::Choice> MemoryView::choose(std::vector<std::uint32_t> chosen) const {
  std::uint32_t part = kHole;
  for (std::uint32_t& index : chosen) {
    if (index >= places_.size() || places_[index].part == kHole)
      return error(Code::out_of_range,
                   cat("the memory view has ", places_.size(), " elements, and none at ", index),
                   "name an element that is no hole");
    const Place& place = places_[index];
    if (part == kHole) part = place.part;
    if (place.part != part)
      return error(Code::invalid_argument,
                   cat("element ", index, " is of ", printable(parts_[place.part].agent),
                       ", others are of ", printable(parts_[part].agent)),
                   "make a transfer for each peer");
    index = place.index;
  }
  if (part == kHole)
    return error(Code::invalid_argument, "no elements of a memory view", "give at least one index");
  return Choice{parts_[part].list, std::move(chosen)};
}

}  // namespace towpath::nixl
