// What stands in the place of nvme_backend.cc when the library is built with TOWPATH_WITH_NVME=OFF.
#include <towpath/backends/nvme/nvme_backend.h>

namespace towpath::backends::nvme {
namespace {

constexpr const char* kReason = "not_built: Towpath was configured with TOWPATH_WITH_NVME=OFF";
constexpr const char* kHint = "configure with -DTOWPATH_WITH_NVME=ON, or use posix with a file";

}  // namespace

backend::BackendType nvme_type(std::shared_ptr<Driver>) {
  backend::BackendType type;
  type.name = "nvme";
  type.summary = "host memory to and from raw NVMe namespaces (not in this build)";
  type.probe = [](const backend::Params&) {
    return std::vector<Finding>{{.question = "Can NVMe namespaces be read and written directly?",
                                 .signal = "how the library was configured",
                                 .source = "this build",
                                 .verdict = Verdict::no,
                                 .reason = kReason,
                                 .hint = kHint}};
  };
  type.open = [](const backend::BackendContext&) -> Result<std::unique_ptr<backend::Backend>> {
    return error(Code::unsupported, kReason, kHint);
  };
  return type;
}

backend::BackendType nvme_type() { return nvme_type(nullptr); }

}  // namespace towpath::backends::nvme
