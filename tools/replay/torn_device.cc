#include "tools/replay/torn_device.h"

namespace towpath::tools::replay {

void TornDevice::begin(sys::FileRequest& request) {
  sys::IoPart& bytes = request.parts[1];  // behind a record's header
  if (request.kind == sys::FileIo::Kind::write &&
      to_tear_.erase(static_cast<const std::byte*>(bytes.data)) > 0)
    bytes.size_bytes /= 2;
  device_->begin(request);
}

}  // namespace towpath::tools::replay
