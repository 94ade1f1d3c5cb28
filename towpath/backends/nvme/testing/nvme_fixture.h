// What the tests of the whole backend share: a backend over a fake namespace in a memfd. For tests
// only.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/backend/testing/backend_stand.h>
#include <towpath/backends/nvme/nvme_backend.h>
#include <towpath/backends/nvme/testing/fake_driver.h>
#include <towpath/core/format.h>
#include <towpath/core/testing/random_bytes.h>
#include <towpath/sys/mapping.h>

namespace towpath::backends::nvme {

class NvmeFixture : public ::testing::Test, protected backend::testing::BackendStand {
 protected:
  static constexpr std::uint64_t kMemoryBytes = 1U << 20U;

  /// `device_bytes` long; registered and imported as an agent does it.
  void open(const testing::FakeShape& shape = {}, backend::Params params = {},
            std::uint64_t device_bytes = 1U << 20U, const std::string& mode = "rw:") {
    close();
    driver = std::make_shared<testing::FakeDriver>(shape);
    const Status opened = BackendStand::open(nvme_type(driver), std::move(params));
    ASSERT_TRUE(opened.ok()) << opened.to_string();
    mapping = std::move(*sys::Mapping::anonymous(kMemoryBytes));
    local = std::move(*backend->register_memory(
        {.address = address_of(mapping.data()), .length = mapping.size()}));
    device.reset(::memfd_create("namespace", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(device.get(), static_cast<off_t>(device_bytes)), 0);
    use_extent(0, device_bytes, mode);
  }
  RegionDescriptor extent(std::uint64_t offset, std::uint64_t length,
                          const std::string& mode) const {
    return {.kind = MemoryKind::block,
            .address = offset,
            .length = length,
            .device_id = 7,
            .key = cat(mode, "/proc/self/fd/", device.get())};
  }
  void use_extent(std::uint64_t offset, std::uint64_t length, const std::string& mode) {
    const Status used = use(extent(offset, length, mode));
    ASSERT_TRUE(used.ok()) << used.to_string();
    target = driver->last;
  }

  backend::Segment segment(std::uint64_t at, std::uint64_t offset, std::uint64_t length) const {
    return {local.get(), imported.get(), address_of(mapping.data()) + at, offset, length};
  }
  /// `count` extents without a gap on either side.
  backend::Segment row(std::uint64_t length, std::uint64_t count) const {
    backend::Segment made = segment(0, 0, length);
    made.count = count;
    made.local_stride = made.remote_stride = length;
    return made;
  }
  ByteSpan memory() const { return mapping.bytes(); }
  Bytes on_device(std::uint64_t offset, std::uint64_t length) const {
    Bytes bytes(length);
    if (::pread(device.get(), bytes.data(), length, static_cast<off_t>(offset)) !=
        static_cast<ssize_t>(length))
      ADD_FAILURE() << "the fake's file is shorter";
    return bytes;
  }
  void put_on_device(std::uint64_t offset, ConstByteSpan bytes) const {
    ASSERT_EQ(::pwrite(device.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes.size()));
  }
  std::shared_ptr<testing::FakeDriver> driver;
  std::shared_ptr<testing::FakeNamespace> target;
  sys::Mapping mapping;
  sys::Fd device;
};

}  // namespace towpath::backends::nvme
