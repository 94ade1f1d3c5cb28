// TokenTable: what is registered, by its token.
//
// Tokens are random, so their low bits say where to look first, and nothing is hashed; an entry
// lies in the table itself, since a pool is thousands of registrations.
// Thread: loop.
#pragma once

#include <cstddef>
#include <cstdint>

#include <towpath/backends/messages/device_window.h>
#include <towpath/core/descriptor.h>
#include <towpath/core/probing_table.h>

namespace towpath::backends::messages {

struct Registered {
  std::uint64_t token = 0;  ///< 0: there is none
  const RegionDescriptor* region = nullptr;
  DeviceWindow* window = nullptr;  ///< to the device whose memory it is, null for the host's

  bool is_free() const noexcept { return token == 0; }
  std::size_t home() const noexcept { return token; }
};

class TokenTable {
 public:
  /// False: the token is 0, or another one's.
  bool add(const Registered& entry) {
    if (entry.token == 0 || find(entry.token) != nullptr) return false;
    table_.make_room(1);
    table_.put(Registered(entry));
    return true;
  }

  /// Harmless when there is none.
  void remove(std::uint64_t token) noexcept {
    if (Registered* const found = look_up(token)) (void)table_.take_out(*found);
  }

  /// Null: none (any more). Valid until something is added or removed.
  const Registered* find(std::uint64_t token) const noexcept {
    return const_cast<TokenTable*>(this)->look_up(token);
  }

 private:
  Registered* look_up(std::uint64_t token) noexcept {
    return table_.find(token, [token](const Registered& one) { return one.token == token; });
  }

  ProbingTable<Registered> table_;
};

}  // namespace towpath::backends::messages
