// PosixOperation: one transfer between memory and files of the agent itself.
// Thread: loop.
#pragma once

#include <towpath/backend/piece_operation.h>
#include <towpath/backends/posix/splitter.h>

namespace towpath::backends::posix {

class PosixOperation final : public backend::PieceOperation {
 public:
  PosixOperation(backend::PieceDispatcher& dispatcher, const Limits& limits) noexcept
      : PieceOperation(dispatcher), limits_(limits) {}

  Splitter& splitter() noexcept { return splitter_; }

 private:
  void begin() override { splitter_.start(segments(), writes(), limits_); }
  bool has_more() const override { return !splitter_.done(); }

  const Limits limits_;
  Splitter splitter_;
};

}  // namespace towpath::backends::posix
