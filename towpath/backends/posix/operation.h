// PosixOperation: one transfer between memory and files of the agent itself, as state. All that
// happens to it is in dispatcher.h; here is what it consists of.
//
//   idle --post()--> queued (has pieces to submit) --> waiting (all submitted) --> idle
//                       |  cancel()                       ^
//                       +---------------------------------+   what is in flight comes back first
//
// Thread: loop.
#pragma once

#include <cstdint>

#include <towpath/backend/backend.h>
#include <towpath/backends/posix/ledger.h>
#include <towpath/backends/posix/splitter.h>

namespace towpath::backends::posix {

class Dispatcher;

class PosixOperation final : public backend::Operation {
 public:
  explicit PosixOperation(Dispatcher& dispatcher) noexcept : dispatcher_(dispatcher) {}
  PosixOperation(const PosixOperation&) = delete;
  PosixOperation& operator=(const PosixOperation&) = delete;
  ~PosixOperation() override;

  void post(const backend::Request& request) override;
  void cancel() override;

 private:
  friend class Dispatcher;
  friend class OperationQueue;

  Dispatcher& dispatcher_;
  Segments segments_;
  Splitter splitter_;
  Ledger ledger_;
  std::uint32_t in_flight_ = 0;  // I/Os of it in the engine
  bool write_ = false;
  bool active_ = false;
  bool cancelled_ = false;
  bool stopped_ = false;  // something was not tried because of cancelled_
  bool queued_ = false;
  PosixOperation* next_ = nullptr;  // in the OperationQueue
  PosixOperation* previous_ = nullptr;
};

/// Operations with pieces to submit, in the order of their turns. Owns none of them.
class OperationQueue {
 public:
  PosixOperation* front() const noexcept { return front_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  void push_back(PosixOperation& operation) noexcept;
  /// Harmless when it is not in the queue.
  void remove(PosixOperation& operation) noexcept;
  void rotate() noexcept;

 private:
  PosixOperation* front_ = nullptr;
  PosixOperation* back_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace towpath::backends::posix
