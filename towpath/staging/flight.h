// Flight: one slot of the staging buffer on its way: bytes of one operation, at most a slot of
// them, in at most kMaxParts pieces that lie anywhere.
//
//   read    free -> moving (the backend fills the slot) -> arrived -> copying to the device -> free
//   write   free -> copying to the host -> moving (the backend takes it) -> arrived -> free
//
// Thread: loop.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <towpath/backend/backend.h>
#include <towpath/backend/position.h>
#include <towpath/device/event.h>
#include <towpath/device/values.h>

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

class Flight final : public Listener {
 public:
  enum class State : std::uint8_t { free, moving, arrived, copying };

  /// Takes what comes next in the request, as much as the slot holds. False: nothing was left.
  void load(StagedOperation& operation, std::uint64_t slot_bytes, backend::Memory& buffer);
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

}  // namespace towpath::staging
