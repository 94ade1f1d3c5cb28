#include <towpath/backends/posix/dispatcher.h>
#include <towpath/backends/posix/operation.h>
#include <towpath/core/check.h>

namespace towpath::backends::posix {

PosixOperation::~PosixOperation() {
  TOWPATH_CHECK(!active_, "an operation was destroyed while it was active");
}

void PosixOperation::post(const backend::Request& request) {
  TOWPATH_CHECK(!active_, "an operation carries one transfer at a time");
  dispatcher_.start(*this, request);
}

void PosixOperation::cancel() { dispatcher_.cancel(*this); }

}  // namespace towpath::backends::posix
