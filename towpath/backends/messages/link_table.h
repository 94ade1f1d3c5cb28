// LinkTable: the links of a backend, and their rails, found by the sessions of either side; which
// links are busy, and which rails are lost and not reported. What is sent over a rail leaves here.
//
// A rail that breaks is lost at once and reported at the end of the turn, outside of the carrier.
// Invariant: to be noted as busy or lost takes no memory (keep()). Thread: loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include <towpath/backends/messages/link.h>

namespace towpath::backends::messages {

class LinkTable {
 public:
  using Rails = std::unordered_map<std::uint64_t, Rail*>;  // by our session

  LinkTable(const Clock& clock, net::MessageBuffers& buffers) : clock_(clock), buffers_(buffers) {}

  /// Of all links.
  const Rails& rails() const noexcept { return rails_; }
  const std::vector<Link*>& busy() const noexcept { return busy_; }
  net::MessageBuffers& buffers() const noexcept { return buffers_; }

  // Null: none, or it is lost.
  Rail* find(std::uint64_t session) const;
  Rail* find_by_peer(std::uint64_t peer_session) const;
  Link* find_dialled(std::uint64_t instance) const;
  /// That a peer began, by the number that it gave it.
  Link* find_accepted(std::uint64_t instance, std::uint64_t number) const;

  /// A link with its first rail, which has this session. What is not kept goes without a trace.
  Rail* keep(std::uint64_t session, std::unique_ptr<Link> link);
  /// A further rail.
  Rail* keep(std::uint64_t session, std::unique_ptr<Rail> rail);
  bool knows(std::uint64_t peer_session) const { return by_peer_session_.contains(peer_session); }
  /// By which the peer's frames name it. Errors: denied (they name another rail so).
  Status know(Rail& rail, std::uint64_t peer_session);
  void forget(std::uint64_t peer_session) noexcept { by_peer_session_.erase(peer_session); }
  void erase(Link& link);
  /// Of a link that has others.
  void erase(Rail& rail);

  /// Sends a frame that was written, over a rail that may be lost, or whose peer has closed. One
  /// that breaks is reported later.
  void send(Rail& rail, OutboundFrame out);
  void send_plain(Rail& rail, FrameKind kind, std::uint8_t flags = 0, std::uint64_t id = 0);

  /// From now on nothing is sent or heard over it.
  void break_off(Rail& rail, Status why);
  /// Nor over any of its rails.
  void break_off(Link& link, const Status& why);
  /// The same when its turn to be reported has come.
  void note_broken(const Rail& rail, const Status& why) {
    broken_.emplace_back(rail.session->numbers().ours, why);
  }
  bool has_broken() const noexcept { return !broken_.empty(); }
  /// Calls report(rail, why) of all that broke. One that throws comes again.
  template <typename Report>
  void report_broken(Report report) {
    for (std::size_t i = 0; i < broken_.size(); ++i) {
      const auto [session, why] = broken_[i];
      if (const auto found = rails_.find(session); found != rails_.end())
        report(*found->second, why);
    }
    broken_.clear();  // now: what throws comes again
  }

  /// It is driven from now on, until it is no longer busy.
  void list(Link& link) {
    if (!std::exchange(link.is_listed, true)) busy_.push_back(&link);
  }
  /// Calls drive(link) of those that are listed, one at least, until is_enough(); the others come
  /// first in the next call. False: there are others. What throws loses none.
  template <typename Drive, typename IsEnough>
  bool drive_busy(Drive drive, IsEnough is_enough) {
    for (std::size_t i = 0; i < busy_.size();) {
      if (i > 0 && is_enough()) {
        std::rotate(busy_.begin(), busy_.begin() + static_cast<std::ptrdiff_t>(i), busy_.end());
        return false;
      }
      Link& link = *busy_[i];
      drive(link);
      if (link.lost) note_broken(*link.rails.front(), link.why);  // its report may have waited
      if (link.is_busy()) {
        ++i;
        continue;
      }
      link.is_listed = false;
      busy_[i] = busy_.back();
      busy_.pop_back();
    }
    return true;
  }

 private:
  void reserve_for(Link& link, std::size_t rails);
  void take_out(const Rail& rail);
  Status hand_over(net::Session& session, OutboundFrame& out);

  const Clock& clock_;
  net::MessageBuffers& buffers_;
  std::vector<std::unique_ptr<Link>> links_;
  Rails rails_;
  std::unordered_map<std::uint64_t, Rail*> by_peer_session_;
  std::vector<Link*> busy_;  // so that a turn costs what is under way, not what is connected
  std::vector<std::pair<std::uint64_t, Status>> broken_;  // sessions to be reported
};

/// To a peer, over a link that others may share.
struct MessageConnection final : backend::Connection {
  /// No link: the way to oneself, without a table.
  MessageConnection() = default;
  MessageConnection(LinkTable& its_table, Link& its_link) : table(&its_table), link(&its_link) {
    its_link.connections.push_back(this);
  }
  ~MessageConnection() override;

  LinkTable* const table = nullptr;
  Link* const link = nullptr;
};

/// Null: the way to oneself.
inline Link* link_of(const backend::Connection& connection) {
  return static_cast<const MessageConnection&>(connection).link;
}

}  // namespace towpath::backends::messages
