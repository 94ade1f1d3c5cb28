#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include <towpath/backend/conformance/test_memory.h>
#include <towpath/core/format.h>
#include <towpath/device/cuda/cuda_driver.h>
#include <towpath/device/host/host_driver.h>
#include <towpath/memory/block_region.h>
#include <towpath/memory/object_region.h>
#include <towpath/memory/shared_region.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/system_file.h>

namespace towpath::backend::conformance {

namespace {

// Devices have whole blocks.
constexpr std::uint64_t kDeviceUnit = 4096;

Result<std::shared_ptr<sys::File>> make_device(std::uint64_t size_bytes) {
  const std::uint64_t whole = size_bytes + (kDeviceUnit - size_bytes % kDeviceUnit) % kDeviceUnit;
  TOWPATH_TRY(sys::Fd memory, sys::create_sealed_memfd("conformance", whole));
  std::string path = cat("/proc/self/fd/", memory.get());
  return std::make_shared<sys::SystemFile>(
      sys::SystemFile::Parts{.fd = std::move(memory), .path = std::move(path)});
}

Result<std::shared_ptr<const memory::DeviceRegion>> make_device_region(std::uint64_t size_bytes) {
  const auto driver = test_driver();
  TOWPATH_TRY(auto device, driver->open(0));
  TOWPATH_TRY(auto region, memory::DeviceRegion::allocate(std::move(device), size_bytes));
  return std::shared_ptr<const memory::DeviceRegion>(
      region.get(), [driver, region](const memory::DeviceRegion*) mutable { region.reset(); });
}

}  // namespace

namespace {

/// Never destroyed: it would be after the driver, which ends before the process does.
struct Gpu {
  std::shared_ptr<device::Driver> driver;
  std::shared_ptr<device::Device> device;
};
Gpu& gpu() {
  static auto* const kOne = new Gpu;
  return *kOne;
}

}  // namespace

Status use_gpu() {
  TOWPATH_TRY(gpu().driver, device::CudaDriver::open());
  TOWPATH_TRY(gpu().device, gpu().driver->open(0));
  return {};
}

std::shared_ptr<device::Driver> test_driver() {
  if (gpu().driver != nullptr) return gpu().driver;
  struct Machine {
    sys::SystemClock clock;
    device::HostDriver driver{clock};
  };
  static const auto kMachine = std::make_shared<Machine>();
  return {kMachine, &kMachine->driver};
}

Result<TestMemory> TestMemory::make(Store store, std::uint64_t size_bytes) {
  TestMemory made;
  switch (store) {
    case Store::system: {
      TOWPATH_TRY(made.region_, memory::SystemRegion::allocate(size_bytes));
      break;
    }
    case Store::shared: {
      TOWPATH_TRY(made.region_, memory::SharedMemoryRegion::create(
                                    {.name = "conformance", .size_bytes = size_bytes}));
      break;
    }
    case Store::disk: {
      auto files = std::make_shared<sys::SystemFileSystem>();
      TOWPATH_TRY(auto region, memory::DiskRegion::open({.path = testing::TempDir() + "/",
                                                         .size_bytes = size_bytes,
                                                         .life = memory::FileLife::nameless},
                                                        *files));
      // The file system lives as long as the region does.
      made.disk_ = std::shared_ptr<const memory::DiskRegion>(
          region.get(), [files, region](const memory::DiskRegion*) mutable { region.reset(); });
      made.region_ = made.disk_;
      break;
    }
    case Store::block: {
      TOWPATH_TRY(made.device_, make_device(size_bytes));
      TOWPATH_TRY(made.region_,
                  memory::BlockRegion::create({.path = made.device_->path(),
                                               .size_bytes = size_bytes,
                                               .access = memory::BlockAccess::read_write}));
      break;
    }
    case Store::device: {
      TOWPATH_TRY(made.gpu_, make_device_region(size_bytes));
      made.region_ = made.gpu_;
      break;
    }
    case Store::object:
      return error(Code::invalid_argument, "an object of which store?", "use make_object()");
  }
  return made;
}

Result<TestMemory> TestMemory::make_object(std::shared_ptr<TestObjects> objects,
                                           std::uint64_t size_bytes) {
  TestMemory made;
  TOWPATH_TRY(made.region_,
              memory::ObjectRegion::create({.key = objects->new_key(), .size_bytes = size_bytes}));
  made.objects_ = std::move(objects);
  return made;
}

Bytes TestMemory::read() const {
  Bytes bytes;
  read_into(bytes);
  return bytes;
}

void TestMemory::read_into(Bytes& bytes) const {
  if (objects_) {
    auto object = objects_->get(region_->descriptor().key);
    EXPECT_TRUE(object.ok()) << object.status().to_string();
    bytes = object.ok() ? *std::move(object) : Bytes();
    return;
  }
  bytes.resize(size());
  Status status;
  if (gpu_) {
    status = gpu_->device()->copy({address_of(bytes.data()), address(), size()});
  } else if (!disk_ && !device_) {
    std::memcpy(bytes.data(), region_->bytes().data(), size());
  } else {
    auto aligned = sys::Mapping::anonymous(size());  // for O_DIRECT
    status = sys::read_exactly(file(), aligned->bytes().first(size()), 0);
    std::memcpy(bytes.data(), aligned->data(), size());
  }
  EXPECT_TRUE(status.ok()) << status.to_string();
}

void TestMemory::write(ConstByteSpan bytes) const {
  if (objects_) {
    const Status put = objects_->put(region_->descriptor().key, bytes);
    EXPECT_TRUE(put.ok()) << put.to_string();
    return;
  }
  if (gpu_) {
    const Status copied = gpu_->device()->copy({address(), address_of(bytes.data()), bytes.size()});
    EXPECT_TRUE(copied.ok()) << copied.to_string();
    return;
  }
  if (!disk_ && !device_) {
    std::memcpy(region_->bytes().data(), bytes.data(), bytes.size());
    return;
  }
  auto mapping = sys::Mapping::anonymous(bytes.size());
  std::memcpy(mapping->data(), bytes.data(), bytes.size());
  const Status status = sys::write_exactly(file(), mapping->bytes().first(bytes.size()), 0);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

void TestMemory::cut(std::uint64_t size_bytes) const {
  if (objects_) {
    const Bytes all = read();
    return write(ConstByteSpan(all).first(size_bytes));
  }
  const Status status = disk_->file().resize(size_bytes);
  EXPECT_TRUE(status.ok()) << status.to_string();
}

}  // namespace towpath::backend::conformance
