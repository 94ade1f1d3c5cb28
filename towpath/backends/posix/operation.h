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

#include <towpath/backend/ledger.h>
#include <towpath/backend/turn_queue.h>
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
  friend class backend::TurnQueue<PosixOperation>;

  Dispatcher& dispatcher_;
  Segments segments_;
  Splitter splitter_;
  backend::Ledger ledger_;
  std::uint32_t in_flight_ = 0;  // I/Os of it in the engine
  bool write_ = false;
  bool active_ = false;
  bool cancelled_ = false;
  bool stopped_ = false;  // something was not tried because of cancelled_
  backend::Turn<PosixOperation> turn_;
};

using OperationQueue = backend::TurnQueue<PosixOperation>;

}  // namespace towpath::backends::posix
