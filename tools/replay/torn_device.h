// TornDevice: a file device of which the write of some bytes can be made to tear: only the first
// half of them reaches the file, and nothing is reported.
// Thread: one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include <towpath/sys/file_device.h>

namespace towpath::tools::replay {

class TornDevice final : public sys::FileDevice {
 public:
  explicit TornDevice(std::unique_ptr<sys::FileDevice> device) : device_(std::move(device)) {}

  /// The next write of these bytes tears. They are only compared.
  void tear(const std::byte* bytes) { to_tear_.insert(bytes); }
  /// Whether it came; if not, it is not waited for any more.
  bool has_torn(const std::byte* bytes) { return to_tear_.erase(bytes) == 0; }

  void begin(sys::FileRequest& request) override;
  void cancel(sys::FileRequest& request) override { device_->cancel(request); }
  bool progress() override { return device_->progress(); }
  int wait_fd() const override { return device_->wait_fd(); }
  void wait(Duration most) override { device_->wait(most); }
  std::string describe() const override { return device_->describe(); }

 private:
  const std::unique_ptr<sys::FileDevice> device_;
  std::unordered_set<const std::byte*> to_tear_;
};

}  // namespace towpath::tools::replay
