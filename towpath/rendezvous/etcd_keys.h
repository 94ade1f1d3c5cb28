// How the names of metadata stand as keys in etcd.
//
//   <namespace>/<agent>/metadata            the full metadata
//   <namespace>/<agent>/part/<label>    a partial one
//
// Agent and label are any bytes, written as path_safe() writes them, so that a key can be typed and
// no two names share one.
// Thread: immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <towpath/core/result.h>
#include <towpath/rendezvous/rendezvous.h>

namespace towpath::rendezvous::etcd {

class Keys {
 public:
  /// Errors: invalid_argument (no or too long a namespace, or a zero byte in it).
  static Result<Keys> in(std::string_view name_space);

  std::string key(const MetadataName& name) const;
  /// The name behind a key; nothing: the key is not of metadata.
  std::optional<MetadataName> name(std::string_view key) const;
  /// What all keys begin with.
  const std::string& prefix() const noexcept { return prefix_; }

 private:
  explicit Keys(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string prefix_;
};

}  // namespace towpath::rendezvous::etcd
