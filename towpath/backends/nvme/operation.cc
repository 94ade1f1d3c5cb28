#include <towpath/backends/nvme/dispatcher.h>
#include <towpath/backends/nvme/operation.h>
#include <towpath/core/check.h>

namespace towpath::backends::nvme {

NvmeOperation::~NvmeOperation() {
  TOWPATH_CHECK(!active_, "an operation was destroyed while it was active");
}

void NvmeOperation::post(const backend::Request& request) {
  TOWPATH_CHECK(!active_, "an operation carries one transfer at a time");
  dispatcher_.start(*this, request);
}

void NvmeOperation::cancel() { dispatcher_.cancel(*this); }

}  // namespace towpath::backends::nvme
