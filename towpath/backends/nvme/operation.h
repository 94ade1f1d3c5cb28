// NvmeOperation: one transfer between memory and namespaces, as state. All that happens to it is in
// dispatcher.h.
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
#include <towpath/backends/nvme/splitter.h>

namespace towpath::backends::nvme {

class NvmeOperation final : public backend::Operation {
 public:
  explicit NvmeOperation(Dispatcher& dispatcher) noexcept : dispatcher_(dispatcher) {}
  NvmeOperation(const NvmeOperation&) = delete;
  NvmeOperation& operator=(const NvmeOperation&) = delete;
  ~NvmeOperation() override;

  void post(const backend::Request& request) override;
  void cancel() override;

 private:
  friend class Dispatcher;
  friend class backend::TurnQueue<NvmeOperation>;

  Dispatcher& dispatcher_;
  Segments segments_;
  Splitter splitter_;
  backend::Ledger ledger_;
  std::uint32_t in_flight_ = 0;  // commands of it in the engine
  bool write_ = false;
  bool active_ = false;
  bool cancelled_ = false;
  bool stopped_ = false;  // something was not tried because of cancelled_
  backend::Turn<NvmeOperation> turn_;
};

using OperationQueue = backend::TurnQueue<NvmeOperation>;

}  // namespace towpath::backends::nvme
