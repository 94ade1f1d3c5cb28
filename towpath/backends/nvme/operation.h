// NvmeOperation: one transfer between memory and namespaces.
// Thread: loop.
#pragma once

#include <towpath/backend/piece_operation.h>
#include <towpath/backends/nvme/splitter.h>

namespace towpath::backends::nvme {

class NvmeOperation final : public backend::PieceOperation {
 public:
  using PieceOperation::PieceOperation;

  Splitter& splitter() noexcept { return splitter_; }

 private:
  void begin() override { splitter_.start(segments(), writes()); }
  bool has_more() const override { return !splitter_.done(); }

  Splitter splitter_;
};

}  // namespace towpath::backends::nvme
