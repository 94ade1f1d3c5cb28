// Built in place of ucx_worker.cc where the headers of UCX were not found.
#include <utility>

#include <towpath/net/ucx/ucx_worker.h>

namespace towpath::net {
namespace {

constexpr const char* kHint = "apt-get install libucx-dev, then configure and build again";

Finding absent(std::string question) {
  return {.question = std::move(question),
          .signal = "ucp/api/ucp.h when this was built",
          .source = "the build",
          .verdict = Verdict::no,
          .reason = "the headers of UCX were not found when this was built",
          .hint = kHint};
}

}  // namespace

Result<std::unique_ptr<MessageWorker>> open_ucx_worker(const UcxOptions&, MessageListener&) {
  return error(Code::unsupported, "this build has no UCX: its headers were not found", kHint);
}

Finding probe_ucx() { return absent("Can agents reach other machines over UCX?"); }

Finding probe_ucx_devices() { return absent("Does UCX take a GPU's memory itself?"); }

}  // namespace towpath::net
