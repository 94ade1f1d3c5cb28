// Registrar: the little that memory and layouts must know of an agent.
//
// A Registration is the promise that a region is known to some backends. It keeps the region alive
// and takes it back (deregisters) before it lets go, so bytes are never freed while registered,
// whatever the order of destruction in user code, and also when the agent died first.
// Thread: any.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <towpath/core/result.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

struct RegisterOptions {
  /// Names of the backends to register with; empty: every backend that takes the region's kind.
  /// With names all of them must succeed; without, at least one.
  std::vector<std::string> backends;
  /// At least one of those that were named: they serve the region in one another's place.
  bool any_of_named = false;
};

/// What stands behind a Registration. Implemented by the agent.
class RegistrationState {
 public:
  virtual ~RegistrationState() = default;
  virtual const std::string& agent_name() const = 0;
  virtual const RegionDescriptor& descriptor() const = 0;
  /// The backends that know the region, in the order of their creation.
  virtual std::vector<std::string> backends() const = 0;
  /// Whether release() has not happened and the agent still lives.
  virtual bool is_registered() const = 0;
  /// Ends the transfers that still touch the region, waits until they are quiesced as far as their
  /// backend can say, and deregisters. Idempotent; after a failure a further call tries again, so
  /// it is ok only once the bytes are free. Errors: see Registration::release.
  virtual Status release() = 0;
};

/// Move-only handle; its destructor releases.
class Registration {
 public:
  Registration() = default;
  explicit Registration(std::shared_ptr<RegistrationState> state) : state_(std::move(state)) {}
  Registration(Registration&&) noexcept = default;
  Registration& operator=(Registration&& other) noexcept {
    if (this != &other) {
      (void)release();
      state_ = std::move(other.state_);
    }
    return *this;
  }
  ~Registration() { (void)release(); }

  bool is_registered() const { return state_ != nullptr && state_->is_registered(); }
  /// Empty for a handle without a registration.
  std::string agent_name() const { return state_ ? state_->agent_name() : std::string(); }
  RegionDescriptor descriptor() const { return state_ ? state_->descriptor() : RegionDescriptor(); }
  std::vector<std::string> backends() const {
    return state_ ? state_->backends() : std::vector<std::string>();
  }

  /// For the registrar that made it; null: nothing stands behind it (any more).
  RegistrationState* state() const noexcept { return state_.get(); }

  /// Deregisters now. Idempotent; ok when there is nothing to release. After a failure the handle
  /// still stands for the registration: call again, or let go of it and leave the rest to the
  /// agent. ok: no byte of a peer can land in the region, or leave it. Errors: not_ready (a
  /// transfer still touches the bytes, or a peer, which is named, stands still in the middle of
  /// moving some: the bytes are not safe to reuse, and the agent keeps the region alive; memory
  /// that was borrowed must be kept alive by its user), io_error (a backend failed to let go).
  Status release() {
    Status status = state_ ? state_->release() : Status();
    if (status.ok()) state_.reset();
    return status;
  }

 private:
  std::shared_ptr<RegistrationState> state_;
};

class Registrar {
 public:
  virtual ~Registrar() = default;
  virtual const std::string& name() const = 0;
  /// Names of the backends that exist, in the order of their creation. Only these take part in
  /// later registrations, so create all backends first.
  virtual std::vector<std::string> backends() const = 0;
  /// Makes `region` known. The same region may be registered any number of times; each handle
  /// stands for itself. Errors: invalid_argument (empty region), unsupported (no backend takes its
  /// kind; the message names those there are), not_found (a named backend does not exist), or the
  /// backend's own.
  virtual Result<Registration> register_region(SharedRegion region,
                                               const RegisterOptions& options = {}) = 0;
};

}  // namespace towpath::memory
