#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/standard/gpus.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::standard {

device::DriverSource gpus() {
  return {.may_exist =
              [] { return sys::DynamicLibrary::open(device::CudaDriverOptions().library).ok(); },
          .open = []() -> Result<std::shared_ptr<device::Driver>> {
            TOWPATH_TRY(auto driver, device::CudaDriver::open());
            return std::shared_ptr<device::Driver>(std::move(driver));
          }};
}

}  // namespace towpath::standard
