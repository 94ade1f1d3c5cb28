// ObjectRegion: an extent of an object in a store, as memory that transfers can fill and read.
//
// It is a name, and asks nothing of any store: whether there is such an object, and how long it is,
// a transfer or a query finds out. Its address is the extent's offset in the object, so that a
// view's address is one too.
// Invariants: not empty; the end does not wrap; it frees nothing when it dies: objects are kept.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <towpath/core/result.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

struct ObjectPlace {
  std::string bucket;  ///< empty: the backend's own
  std::string key;
  std::uint64_t offset = 0;
  /// Nothing: to the object's end, wherever that is.
  std::optional<std::uint64_t> size_bytes;
  /// By which transfers distinguish objects. Nothing: made from bucket and key.
  std::optional<std::uint64_t> device_id;
};

class ObjectRegion final : public Region {
  struct Private {};

 public:
  /// Errors: invalid_argument (no key, size 0), out_of_range (the end wraps).
  static Result<std::shared_ptr<ObjectRegion>> create(ObjectPlace place);
  ObjectRegion(Private, ObjectPlace place) noexcept : place_(std::move(place)) {}

  /// Kind object; address: the offset; key: "s3://BUCKET/KEY", or KEY in the backend's own bucket.
  RegionDescriptor descriptor() const override;
  const ObjectPlace& place() const noexcept { return place_; }

 private:
  const ObjectPlace place_;
};

/// The device id of an object that was given none: 64 bits of a hash. A backend refuses two objects
/// of one id, so that a coincidence is an error and never another object's bytes.
std::uint64_t object_device_id(const ObjectPlace& place) noexcept;

}  // namespace towpath::memory
