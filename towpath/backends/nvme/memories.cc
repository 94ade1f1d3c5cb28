#include <towpath/backends/nvme/dispatcher.h>
#include <towpath/backends/nvme/memories.h>
#include <towpath/core/check.h>

namespace towpath::backends::nvme {

NvmeMemory::~NvmeMemory() {
  TOWPATH_CHECK(dispatcher_ == nullptr || !dispatcher_->touches(*this),
                "memory was deregistered while an operation on it was active");
}

}  // namespace towpath::backends::nvme
