#include <algorithm>

#include <towpath/backend/connection_table.h>
#include <towpath/core/check.h>

namespace towpath::backend {

TrackedConnection::TrackedConnection(ConnectionTable& table, AgentIdentity peer)
    : table_(table), peer_(std::move(peer)), id_(++table.last_) {
  table_.connections_.emplace(id_, this);
}

TrackedConnection::~TrackedConnection() { table_.connections_.erase(id_); }

TrackedConnection* ConnectionTable::find(std::uint64_t id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second;
}

void ConnectionTable::mark_lost(TrackedConnection& connection, Status why) {
  TOWPATH_CHECK(!why.ok(), "a connection is marked lost for no reason");
  if (connection.is_lost()) return;
  connection.why_lost_ = std::move(why);
  marked_.push_back(connection.id());
}

void ConnectionTable::cut(TrackedConnection& connection, Status why) {
  TOWPATH_CHECK(!why.ok(), "a connection is cut for no reason");
  if (!connection.is_lost()) connection.why_lost_ = std::move(why);
  std::erase(marked_, connection.id());
}

}  // namespace towpath::backend
