// BlockTier: a level of memory below the host's that keeps whole blocks by name, as bytes in
// canonical order (digest.h). How it keeps them is its own affair: files, an object store, a peer.
//
// It tells Presence what it has, as tier `index()`: a block from the moment on when it is there for
// good, until it is gone, for whatever reason. Invariant: what get() gives is what was put.
// Thread: none of its own; TieredCache calls it from one thread at a time. name(), index(): any.
#pragma once

#include <string>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/kv/blocks/presence.h>
#include <towpath/kv/digest.h>

namespace towpath::kv {

class BlockTier {
 public:
  virtual ~BlockTier() = default;

  virtual const std::string& name() const noexcept = 0;
  /// 1 or more: 0 is the host's.
  virtual TierIndex index() const noexcept = 0;

  /// Proves the bytes before it keeps them. Errors: corrupt (they do not match: nothing is kept),
  /// denied (it can only be read), exhausted (no room), io_error and others of its kind.
  virtual Status put(BlockHash hash, const Digest& digest, ConstByteSpan bytes) = 0;
  /// What was put before is there for good when this succeeds. After a failure what was put since
  /// the last success is not there.
  virtual Status acknowledge() = 0;
  /// Fills `into`, and gives the digest that its bytes were held against. Errors: not_found;
  /// corrupt (quarantined: it is there no more); invalid_argument (another length); io_error.
  virtual Result<Digest> get(BlockHash hash, ByteSpan into) = 0;
  /// Errors: not_found, and those of writing.
  virtual Status remove(BlockHash hash) = 0;
};

}  // namespace towpath::kv
