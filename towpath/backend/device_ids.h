// DeviceIds: for which file each device id of registered memory stands. A transfer names a device
// id and an offset: of two files under one id it cannot say which. Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <towpath/backend/weak_table.h>
#include <towpath/core/format.h>
#include <towpath/core/result.h>

namespace towpath::backend {

template <typename Identity>
class DeviceIds {
 public:
  /// `device_id` stands for `file`, which is called `name`, while any of what this returns lives.
  /// Errors: already_exists (it stands for another).
  Result<std::shared_ptr<const Identity>> take(std::uint64_t device_id, const Identity& file,
                                               std::string_view name) {
    auto taken = files_.find(device_id);
    if (taken == nullptr) {
      taken = std::make_shared<const Identity>(file);
      files_.put(device_id, taken);
    }
    if (*taken == file) return taken;
    return error(
        Code::already_exists,
        cat("device id ", device_id, " stands for another file, or another way to open it, than ",
            name),
        "give each file a device id of its own, or take back what is registered under this one");
  }

 private:
  WeakTable<std::uint64_t, const Identity> files_;
};

}  // namespace towpath::backend
