// TransferManager: what it tells peers of its layouts, and what it knows of theirs.
#include <utility>

#include <towpath/blockcopy/layout_entry.h>
#include <towpath/blockcopy/layout_package.h>
#include <towpath/blockcopy/transfer_manager.h>
#include <towpath/core/format.h>

namespace towpath::blockcopy {

Result<Bytes> TransferManager::export_package() const {
  const AgentIdentity& self = agent_.identity();
  LayoutPackage package;
  TOWPATH_TRY(package.metadata, agent_.metadata());
  for (const auto& [handle, entry] : layouts_) {
    const layout::PhysicalLayout* const local = entry->local();
    if (local == nullptr) continue;
    TOWPATH_TRY(Bytes message, local->serialize(self.incarnation));
    package.layouts.push_back({handle.id, entry->options.tier, entry->options.first_layer,
                               entry->options.first_head, std::move(message)});
  }
  return encode(package);
}

Status TransferManager::check_new(const OpenPackage& package) const {
  if (package.agent.name == agent_.name())
    return error(Code::already_exists,
                 cat("a package of an agent named '", printable(package.agent.name),
                     "', as this one is: its memory would be taken for ours"),
                 "give every agent a name of its own");
  const auto known = agent_.peer(package.agent.name);
  const bool is_other_life = known.ok() && known->identity.incarnation != package.agent.incarnation;
  if (is_other_life)
    return error(Code::already_exists,
                 cat(to_string(package.agent), " has the name of ", to_string(known->identity),
                     ", which is loaded"),
                 "refresh() if it was restarted; else give every agent a name of its own");
  if (peers_.contains(package.agent.name))
    return error(Code::already_exists, cat("layouts of ", to_string(package.agent), " are loaded"),
                 "refresh() to take them again, or unload() it first");
  return {};
}

Result<std::vector<LayoutHandle>> TransferManager::import_package(ConstByteSpan bytes) {
  TOWPATH_TRY(OpenPackage package, open_package(bytes));
  TOWPATH_TRY(check_new(package));
  return take(std::move(package));
}

Result<std::vector<LayoutHandle>> TransferManager::refresh(ConstByteSpan bytes) {
  TOWPATH_TRY(OpenPackage package, open_package(bytes));
  if (!peers_.contains(package.agent.name))
    return error(Code::not_found, cat("no layouts of ", to_string(package.agent), " are loaded"),
                 "import_package() them first");
  return take(std::move(package));
}

/// Handles say whose layouts they are by the incarnation: it must be nobody else's.
Status TransferManager::check_incarnation(const AgentIdentity& agent) const {
  std::string other =
      agent.incarnation == agent_.identity().incarnation ? agent_.name() : std::string();
  for (const auto& [name, incarnation] : peers_)
    if (name != agent.name && incarnation == agent.incarnation) other = name;
  if (other.empty()) return {};
  return error(Code::invalid_argument,
               cat(to_string(agent), " has the incarnation of '", printable(other), "'"),
               "an incarnation is random, and no two agents' is the same");
}

/// All that is checked before was; what can still fail comes before what changes.
Result<std::vector<LayoutHandle>> TransferManager::take(OpenPackage package) {
  TOWPATH_TRY(check_incarnation(package.agent));
  TOWPATH_TRY(const AgentIdentity agent, agent_.load_metadata(package.metadata));
  const auto before = peers_.find(agent.name);
  if (before != peers_.end())
    std::erase_if(layouts_, [&](const auto& known) { return known.first.owner == before->second; });
  peers_[agent.name] = agent.incarnation;
  std::vector<LayoutHandle> handles;
  for (OpenPackage::Entry& entry : package.layouts) {
    handles.push_back({agent.incarnation, entry.id});
    layouts_.insert_or_assign(
        handles.back(), std::make_unique<Entry>(
                            Entry{std::move(entry.layout),
                                  {std::move(entry.tier), entry.first_layer, entry.first_head}}));
  }
  return handles;
}

Status TransferManager::unload(const std::string& agent_name) {
  const auto known = peers_.find(agent_name);
  if (known == peers_.end())
    return error(Code::not_found, cat("no layouts of '", printable(agent_name), "' are loaded"),
                 "import_package() them first");
  std::erase_if(layouts_, [&](const auto& entry) { return entry.first.owner == known->second; });
  peers_.erase(known);
  return agent_.forget_peer(agent_name);
}

}  // namespace towpath::blockcopy
