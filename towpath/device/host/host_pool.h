// HostPool: a pool of the host driver. It keeps nothing of what is freed. Private to this folder.
// Thread: any.
#pragma once

#include <map>
#include <memory>

#include <towpath/device/device.h>
#include <towpath/run/mutex.h>

namespace towpath::device {

class HostPool final : public Pool {
 public:
  explicit HostPool(std::shared_ptr<Device> device)
      : state_(std::make_shared<State>(std::move(device))) {}

  Result<std::uint64_t> allocate(std::uint64_t size_bytes, Stream& stream) override;
  Status free(std::uint64_t address, Stream& stream) override;
  Result<PoolFigures> figures() const override;
  Status trim(std::uint64_t) override { return {}; }

 private:
  struct State {
    explicit State(std::shared_ptr<Device> its_device) : device(std::move(its_device)) {}
    const std::shared_ptr<Device> device;
    run::Mutex mutex;
    std::map<std::uint64_t, Memory> given TOWPATH_GUARDED_BY(mutex);  // by address
    std::uint64_t used_bytes TOWPATH_GUARDED_BY(mutex) = 0;
  };
  const std::shared_ptr<State> state_;  // with frees that a stream has not passed
};

}  // namespace towpath::device
