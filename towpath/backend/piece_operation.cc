#include <towpath/backend/piece_dispatcher.h>
#include <towpath/backend/piece_operation.h>
#include <towpath/core/check.h>

namespace towpath::backend {

PieceOperation::~PieceOperation() {
  TOWPATH_CHECK(!active_, "an operation was destroyed while it was active");
}

void PieceOperation::post(const Request& request) {
  TOWPATH_CHECK(!active_, "an operation carries one transfer at a time");
  dispatcher_.start(*this, request);
}

void PieceOperation::cancel() { dispatcher_.cancel(*this); }

}  // namespace towpath::backend
