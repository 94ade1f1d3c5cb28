// EndpointTable: where backends of one process find each other by what stands in their metadata.
//
// It is for backends that reach a peer through a plain pointer (loopback, sim). The metadata
// carries an EndpointAddress, which is looked up and compared, never dereferenced: metadata from
// another process, another table, another agent or an earlier life is recognised.
//
// Invariant: a number is never given twice. Thread: as its owner guards it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>

namespace towpath::backend {

/// docs/formats/endpoint.md
struct EndpointAddress {
  std::uint64_t table = 0;    ///< the token of the table
  std::uint64_t process = 0;  ///< a forked child has the token too
  std::uint64_t endpoint = 0;
};

Bytes encode(const EndpointAddress& address);
/// Errors: corrupt, unsupported (of a newer version).
Result<EndpointAddress> decode_endpoint_address(ConstByteSpan bytes);

/// What a table is called in errors.
struct TableNames {
  std::string table;  ///< "loopback exchange"
  std::string part;   ///< what a peer has closed when it is gone: "loopback backend"
};

/// The part of a table that knows no type.
class EndpointDirectory {
 public:
  /// `token` distinguishes tables, also those of other processes: random and never 0.
  EndpointDirectory(TableNames names, std::uint64_t token)
      : names_(std::move(names)), token_(token) {}

  std::uint64_t token() const noexcept { return token_; }
  EndpointAddress address_of(std::uint64_t endpoint_id) const;
  Status peer_gone(const AgentIdentity& peer) const;

 protected:
  /// The number of an endpoint that may stand here, if `info` is one of this table and process.
  Result<std::uint64_t> number_from(const AgentIdentity& peer, ConstByteSpan info) const;
  Status check_identity(const AgentIdentity& asked, const AgentIdentity& found) const;

 private:
  TableNames names_;
  std::uint64_t token_;
};

template <typename Endpoint>
class EndpointTable : public EndpointDirectory {
 public:
  using EndpointDirectory::EndpointDirectory;

  /// Calls `make(number) -> shared_ptr<Endpoint>` and holds on to what it makes, weakly.
  template <typename Make>
  std::shared_ptr<Endpoint> add(const AgentIdentity& identity, Make&& make) {
    std::erase_if(entries_, [](const auto& known) { return known.second.endpoint.expired(); });
    const std::uint64_t id = ++last_;
    std::shared_ptr<Endpoint> endpoint = make(id);
    entries_.emplace(id, Entry{identity, endpoint});
    return endpoint;
  }

  /// `info` comes from outside. Errors: corrupt (no such thing, or that of another agent),
  /// unsupported (another process or table), peer_lost (it is gone).
  Result<std::shared_ptr<Endpoint>> find(const AgentIdentity& peer, ConstByteSpan info) const {
    TOWPATH_TRY(const std::uint64_t id, number_from(peer, info));
    const auto found = entries_.find(id);
    auto endpoint = found == entries_.end() ? nullptr : found->second.endpoint.lock();
    if (endpoint == nullptr) return peer_gone(peer);
    TOWPATH_TRY(check_identity(peer, found->second.identity));
    return endpoint;
  }

  /// Those that live, in the order of their making.
  std::vector<std::shared_ptr<Endpoint>> alive() const {
    std::vector<std::shared_ptr<Endpoint>> all;
    for (const auto& [id, entry] : entries_) {
      if (auto endpoint = entry.endpoint.lock()) all.push_back(std::move(endpoint));
    }
    return all;
  }

 private:
  struct Entry {
    AgentIdentity identity;
    std::weak_ptr<Endpoint> endpoint;
  };

  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Entry> entries_;
};

}  // namespace towpath::backend
