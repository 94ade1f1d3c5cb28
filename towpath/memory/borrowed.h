// Memory that somebody else owns, as a region.
//
//   BorrowedRegion    an address, a size, a kind and a device: bare facts, and who vouches for them
//   UserRegion<T>     a user's own object that answers those four questions; it is owned
//
// Neither frees the bytes: that is up to `keep_alive` and T.
// Invariants: not empty; the end does not wrap; what was reported at creation stays the answer.
// Thread: immutable.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>

#include <towpath/core/format.h>
#include <towpath/core/result.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

struct BorrowedMemory {
  MemoryKind kind = MemoryKind::system;
  std::uint64_t address = 0;  ///< disk, object and block: an offset
  std::uint64_t size_bytes = 0;
  /// disk: the number of the open file; with a key that names the file, any number of the user's.
  std::uint64_t device_id = 0;
  /// What to hold on to while the region lives. Null: the caller vouches that the bytes outlive the
  /// region and all that holds it (views, registrations, transfers in flight; and an agent where
  /// release() said not_ready, or that ended while a peer stood still in the middle of a piece: set
  /// keep_alive where peers may write).
  std::shared_ptr<const void> keep_alive;
  /// object: its key. disk: the file's path, perhaps with a mode that the backend reads
  /// ("rw:/a/b").
  std::string key;
};

class BorrowedRegion final : public Region {
  struct Private {};

 public:
  /// Errors: invalid_argument (size 0, a null address of memory, no file), out_of_range (the end
  /// wraps).
  static Result<std::shared_ptr<BorrowedRegion>> create(BorrowedMemory memory);

  BorrowedRegion(Private, BorrowedMemory memory) noexcept : memory_(std::move(memory)) {}

  RegionDescriptor descriptor() const override;

 private:
  BorrowedMemory memory_;
};

namespace internal {
std::uint64_t to_address(std::unsigned_integral auto address) noexcept { return address; }
inline std::uint64_t to_address(const void* pointer) noexcept { return address_of(pointer); }
}  // namespace internal

/// What a user's type must answer. An address is a pointer or an unsigned number.
template <class T>
concept RegionLike = std::movable<T> && requires(const T& memory) {
  internal::to_address(memory.address());
  { memory.size() } -> std::convertible_to<std::uint64_t>;
  { memory.kind() } -> std::convertible_to<MemoryKind>;
  { memory.device_id() } -> std::convertible_to<std::uint64_t>;
};

template <RegionLike T>
class UserRegion final : public Region {
  struct Private {};

 public:
  /// A region that owns `value`; on failure `value` is moved back to where it came from. It is
  /// asked once, in its final place, since a type that keeps its bytes inside itself moves them
  /// with it. Errors: as BorrowedRegion::create.
  static Result<std::shared_ptr<UserRegion>> create(T&& value);

  /// Takes the value out. Errors: not_ready (somebody else holds the region, so its bytes may be in
  /// use; `region` is as before).
  static Result<T> take(std::shared_ptr<UserRegion>& region);

  UserRegion(Private, T value) : value_(std::move(value)) {}

  RegionDescriptor descriptor() const override { return self_; }
  const T& value() const noexcept { return value_; }

 private:
  T value_;
  RegionDescriptor self_;
};

template <RegionLike T>
Result<std::shared_ptr<UserRegion<T>>> UserRegion<T>::create(T&& value) {
  auto region = std::make_shared<UserRegion>(Private{}, std::move(value));
  const T& placed = region->value_;
  auto facts = BorrowedRegion::create({.kind = placed.kind(),
                                       .address = internal::to_address(placed.address()),
                                       .size_bytes = placed.size(),
                                       .device_id = placed.device_id()});
  if (!facts.ok()) {
    value = std::move(region->value_);
    return facts.status();
  }
  region->self_ = (*facts)->descriptor();
  return region;
}

template <RegionLike T>
Result<T> UserRegion<T>::take(std::shared_ptr<UserRegion>& region) {
  // The only holder is here, so nobody can make a second one meanwhile.
  if (region == nullptr || region.use_count() != 1)
    return error(
        Code::not_ready,
        cat("the region is held ", region.use_count(), " times, so its bytes may be in use"),
        "let go of its views, registrations and transfers first");
  T value = std::move(region->value_);
  region.reset();
  return value;
}

}  // namespace towpath::memory
