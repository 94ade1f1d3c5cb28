// Registered<R>: memory and the registration that makes it known to an agent, in one owner.
//
//   auto memory = register_with(*SystemRegion::allocate(1 << 20), agent);
//   if (!memory.ok()) use(memory.storage(), memory.status());   // nothing is lost on failure
//
// It is a region itself, so it goes wherever one goes (layouts, views, another agent).
// Invariants: deregistered before the storage is let go, whatever order the user destroys it, the
// agent and copies of the storage in. Moved from, it is empty: no storage, not registered.
// Thread: as its storage; into_storage() and moves by one owner at a time.
#pragma once

#include <algorithm>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <towpath/core/check.h>
#include <towpath/core/format.h>
#include <towpath/core/result.h>
#include <towpath/memory/region.h>
#include <towpath/memory/registrar.h>

namespace towpath::memory {

template <std::derived_from<Region> R>
class Registered final : public Region {
 public:
  /// Takes both over; use register_with().
  Registered(std::shared_ptr<R> storage, Registration registration)
      : storage_(std::move(storage)), registration_(std::move(registration)) {}
  Registered(Registered&&) noexcept = default;
  Registered& operator=(Registered&& other) noexcept {
    if (this == &other) return *this;
    registration_ = std::move(other.registration_);  // deregisters ours first,
    storage_ = std::move(other.storage_);            // then lets our storage go
    return *this;
  }
  ~Registered() override { (void)registration_.release(); }

  /// Empty when moved from.
  RegionDescriptor descriptor() const override {
    return storage_ ? storage_->descriptor() : RegionDescriptor();
  }
  const Registration* registration() const override { return &registration_; }

  std::string agent_name() const { return registration_.agent_name(); }
  /// False when the agent died, or the registration was given up.
  bool is_registered() const { return registration_.is_registered(); }
  /// Null when moved from, or after into_storage().
  const std::shared_ptr<R>& storage() const noexcept { return storage_; }

  /// Deregisters, then gives the memory back.
  /// Errors: as Registration::release; the storage is then still here, since bytes may still land
  /// in it, and a later call tries again.
  Result<std::shared_ptr<R>> into_storage() {
    if (storage_ == nullptr)
      return error(Code::not_ready, "the storage was moved out before", "keep what that call gave");
    TOWPATH_TRY(registration_.release());
    return std::exchange(storage_, nullptr);
  }

 private:
  // Members die in reverse order: the registration first, even without the destructor above.
  std::shared_ptr<R> storage_;
  Registration registration_;
};

/// Either a Registered<R>, or what was to be registered, intact, and why it could not be.
/// Works with TOWPATH_TRY, which drops the storage on failure.
template <class Storage, class Value>
class [[nodiscard]] RegisterResult {
 public:
  RegisterResult(Value value) : value_(std::move(value)) {}
  RegisterResult(Storage storage, Status status)
      : storage_(std::move(storage)), status_(std::move(status)) {
    TOWPATH_CHECK(!status_.ok(), "a failed registration needs a failure");
  }

  bool ok() const noexcept { return status_.ok(); }
  explicit operator bool() const noexcept { return ok(); }
  /// The failure, or ok.
  const Status& status() const noexcept { return status_; }
  Code code() const noexcept { return status_.code(); }

  /// After a failure: the storage, not registered.
  Storage& storage() {
    TOWPATH_CHECK(!ok(), "storage() of a registration that worked; use value().storage()");
    return *storage_;
  }
  Value& value() & {
    TOWPATH_CHECK(ok(), "value() of a failed registration");
    return *value_;
  }
  Value&& value() && { return std::move(value()); }
  Value& operator*() & { return value(); }
  Value&& operator*() && { return std::move(value()); }
  Value* operator->() { return &value(); }

 private:
  std::optional<Value> value_;
  std::optional<Storage> storage_;
  Status status_;
};

/// Registers `storage`. Errors: invalid_argument (no storage), or Registrar::register_region's.
template <std::derived_from<Region> R>
RegisterResult<std::shared_ptr<R>, Registered<R>> register_with(
    std::shared_ptr<R> storage, Registrar& registrar, const RegisterOptions& options = {}) {
  if (storage == nullptr)
    return {nullptr, error(Code::invalid_argument, "cannot register no storage",
                           "pass the region to register")};
  auto registration = registrar.register_region(storage, options);
  if (registration.ok()) return Registered<R>(std::move(storage), *std::move(registration));
  const RegionDescriptor self = storage->descriptor();
  return {std::move(storage),
          error(registration.code(), cat("cannot register ", to_string(self), " with agent '",
                                         printable(registrar.name()), "'"))
              .because(registration.status())};
}

namespace internal {
/// Whether a registration already gives what `options` ask of `registrar`.
bool is_known(const Registration& registration, const Registrar& registrar,
              const RegisterOptions& options);
Status known_elsewhere(const Registration& registration, const Registrar& registrar);
}  // namespace internal

/// Registering again what is registered is no work and no error: the same value comes back. One
/// whose registration ended (its agent died) is registered anew.
/// Errors: as above; already_exists (with another agent, or without a backend that is named now).
template <std::derived_from<Region> R>
RegisterResult<Registered<R>, Registered<R>> register_with(Registered<R> memory,
                                                           Registrar& registrar,
                                                           const RegisterOptions& options = {}) {
  if (internal::is_known(*memory.registration(), registrar, options)) return memory;
  if (memory.is_registered()) {
    Status status = internal::known_elsewhere(*memory.registration(), registrar);
    return {std::move(memory), std::move(status)};
  }
  auto storage = memory.into_storage();
  if (!storage.ok()) return {std::move(memory), storage.status()};
  auto again = register_with(*std::move(storage), registrar, options);
  if (again.ok()) return *std::move(again);
  return {Registered<R>(std::move(again.storage()), Registration()), again.status()};
}

}  // namespace towpath::memory
