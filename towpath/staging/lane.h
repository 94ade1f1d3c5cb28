// Lane: the way of one device's memory through one backend that cannot take it: slots of a staging
// buffer, in which copies by the device's streams and transfers by the backend overlap.
//
// Bounded: an operation that finds no slot waits for its turn. Invariants: a slot is used again
// only when neither the backend nor a stream touches it; bytes count as in place when they are at
// their end, not in the slot; an operation completes when no slot holds anything of it.
// Thread: loop. Cost: no allocation per slot.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backend/position.h>
#include <towpath/backend/request_progress.h>
#include <towpath/backend/turn_queue.h>
#include <towpath/core/bytes.h>
#include <towpath/device/bounce.h>
#include <towpath/run/waker.h>

namespace towpath::staging {

class StagedOperation;

/// Who hears how an operation of the inner backend ended; its `owner` points to one.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_end(const backend::Completion& completion) = 0;
};

/// As many as a completion can name, so that the outcome of each is known.
inline constexpr std::size_t kMaxParts = backend::kMaxFailures;

struct Part {
  backend::Position start;  ///< in the user's request
  std::uint64_t device_address = 0;
  std::uint64_t slot_address = 0;
  std::uint64_t length = 0;
  std::uint64_t moved = 0;  ///< by the backend
  Status status;            ///< why not all of it
};

/// One slot of host memory on its way: bytes of one operation, at most a slot of
/// them, in at most kMaxParts pieces that lie anywhere.
///
///   read    free -> moving (the backend fills the slot) -> arrived -> copying -> free
///   write   free -> copying to the host -> moving (the backend takes it) -> arrived -> free
///
/// Thread: loop.
class Flight final : public Listener {
 public:
  enum class State : std::uint8_t { free, moving, arrived, copying };

  Flight() {  // load() and copies() allocate nothing
    segments.reserve(kMaxParts);
    copies_.reserve(kMaxParts);
  }
  struct Load {
    std::uint64_t slot_bytes = 0;
    backend::Memory& buffer;
  };
  /// Takes what comes next in the request, as much as the slot holds; what is put whole not in two
  /// slots where one holds it.
  void load(StagedOperation& operation, const Load& what);
  void on_end(const backend::Completion& completion) override;
  /// All of it counts as not moved.
  void fail(const Status& why);
  /// Of the parts that were moved, for a read; of all, for a write. Empty: there is nothing to
  /// copy.
  const std::vector<device::Copy>& copies(bool to_device);

  State state = State::free;
  StagedOperation* operation = nullptr;  ///< null: free
  std::uint64_t slot_address = 0;
  std::uint32_t count = 0;  ///< of parts
  std::array<Part, kMaxParts> parts;
  std::vector<backend::Segment> segments;  ///< what the inner backend moves; one for each part
  std::unique_ptr<backend::Operation> inner;
  std::shared_ptr<device::Event> copied;

 private:
  std::vector<device::Copy> copies_;
};

struct Slots {
  std::uint32_t count = 8;
  std::uint64_t bytes = 2U << 20U;  ///< of each
};

class Lane;

/// Device memory of this side. The inner backend has it registered only to serve peers.
class StagedMemory final : public backend::Memory {
 public:
  StagedMemory(Lane& lane, std::unique_ptr<backend::Memory> served) noexcept
      : lane_(lane), served_(std::move(served)) {}
  Bytes key() const override { return served_ == nullptr ? Bytes() : served_->key(); }
  void revoke() override {
    if (served_ != nullptr) served_->revoke();
  }
  Lane& lane() const noexcept { return lane_; }

 private:
  Lane& lane_;
  const std::unique_ptr<backend::Memory> served_;  // null: peers cannot use it
};

/// One transfer: by the inner backend alone where it takes the memory, else over a lane.
class StagedOperation final : public backend::Operation, public Listener {
 public:
  StagedOperation(std::unique_ptr<backend::Operation> plain, backend::Events& events);
  StagedOperation(const StagedOperation&) = delete;
  StagedOperation& operator=(const StagedOperation&) = delete;
  ~StagedOperation() override;

  void post(const backend::Request& request) override;
  void cancel() override;
  void on_end(const backend::Completion& completion) override;

  bool is_loaded() const noexcept { return at.segment == segments.size(); }

  backend::Segments segments;
  backend::Position at;  ///< what is in no slot yet

 private:
  friend class Lane;
  friend class backend::TurnQueue<StagedOperation>;

  const std::unique_ptr<backend::Operation> plain_;
  backend::Events& events_;
  Lane* lane_ = nullptr;  // null: what was posted last goes without
  backend::Connection* connection_ = nullptr;
  backend::RequestProgress progress_;
  std::uint32_t in_flight_ = 0;
  bool write_ = false;
  bool active_ = false;
  bool cancelled_ = false;
  bool stopped_ = false;  // something was not tried because of cancelled_
  backend::Turn<StagedOperation> turn_;
};

class Lane {
 public:
  /// `inner` and `waker` outlive it; `waker` is woken when a copy has ended.
  /// Errors: exhausted, the driver's, the backend's.
  static Result<std::unique_ptr<Lane>> open(std::shared_ptr<device::Device> device,
                                            backend::Backend& inner, run::Waker& waker,
                                            const Slots& slots);

  void start(StagedOperation& operation, const backend::Request& request);
  void cancel(StagedOperation& operation);
  /// True: there may be more to do at once.
  bool progress();
  /// What the inner backend reported since: from calls into it that were not made by this.
  void catch_up();

  /// Why the slots are not pinned; empty: they are.
  const Status& refusal() const noexcept { return memory_.refusal(); }
  const backend::Memory& registered() const noexcept { return *registered_; }
  /// "staged through 8 pinned slots of 2 MiB of host memory".
  std::string describe() const;

 private:
  Lane(std::shared_ptr<device::Device> device, device::BounceSlots memory,
       std::unique_ptr<backend::Memory> registered, run::Waker& waker);

  Status check(const StagedOperation& operation) const;
  bool step();
  bool launch();
  bool advance(Flight& flight);
  void move(Flight& flight);
  void copy(Flight& flight, bool to_device);
  Status start_copy(Flight& flight, bool to_device);
  void finish(Flight& flight);
  void complete_if_quiesced(StagedOperation& operation);

  device::CopyStream& stream(bool to_device) noexcept { return to_device ? to_device_ : to_host_; }

  device::BounceSlots memory_;
  const std::unique_ptr<backend::Memory> registered_;
  run::Waker& waker_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> free_;
  backend::TurnQueue<StagedOperation> queue_;
  bool busy_ = false;                       // inside of step()
  device::CopyStream to_device_, to_host_;  // die first, and wait for their copies
};

}  // namespace towpath::staging
