// What the tests of the whole backend share: a backend over a real file, driven by its wait_fd().
// For tests only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <towpath/backend/testing/backend_stand.h>
#include <towpath/backends/posix/posix_backend.h>
#include <towpath/core/testing/random_bytes.h>
#include <towpath/sys/fd.h>
#include <towpath/sys/mapping.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::backends::posix {

/// Why a test of direct files is skipped: they lie in /var/tmp, as /tmp may be memory.
inline constexpr const char* kNoDirect = "/var/tmp takes no O_DIRECT: mount a disk there";

class PosixFixture : public backend::testing::BackendStand {
 public:
  explicit PosixFixture(backend::Params params) {
    const Status opened = open(posix_type(), std::move(params));
    EXPECT_TRUE(opened.ok()) << opened.to_string();
  }

  /// Page-aligned, registered as `local`.
  void use_memory(std::uint64_t size_bytes) {
    local.reset();
    mapping = std::move(*sys::Mapping::anonymous(size_bytes));
    memory = mapping.bytes();
    local = std::move(
        *backend->register_memory({.address = address_of(memory.data()), .length = size_bytes}));
  }
  /// Registers `fd` and imports it from ourselves, as an agent does.
  void use_file(int fd, std::uint64_t length) {
    RegionDescriptor region{.kind = MemoryKind::disk, .length = length, .fd = fd, .key = "a file"};
    region.device_id = static_cast<std::uint64_t>(fd);
    const Status used = use(region);
    ASSERT_TRUE(used.ok()) << used.to_string();
  }
  backend::Segment segment(std::uint64_t at, std::uint64_t offset, std::uint64_t length) const {
    return {local.get(), imported.get(), address_of(memory.data()) + at, offset, length};
  }

  sys::Mapping mapping;
  ByteSpan memory;
};

}  // namespace towpath::backends::posix
