// RawRing: a memfd like a message ring's, into which a test writes what no honest sender does.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include <towpath/backends/shm/message_ring.h>
#include <towpath/sys/memfd.h>

namespace towpath::backends::shm {

class RawRing {
 public:
  static constexpr std::uint64_t kHeader = 192;  // docs/formats/shm.md
  static constexpr std::uint64_t kHeadAt = 64, kTailAt = 128;

  FileRef file() const { return *file_ref(fd_.get()); }
  void set_word(std::uint64_t at, std::uint64_t value) {
    reinterpret_cast<std::atomic<std::uint64_t>*>(mapping_.data() + at)->store(value);
  }
  void put_record(std::uint64_t at, RingReceiver::Record record) {
    std::memcpy(mapping_.data() + kHeader + at, &record, sizeof record);
  }
  ByteSpan bytes() { return mapping_.bytes().subspan(kHeader); }

 private:
  sys::Fd fd_ = *sys::create_sealed_memfd("raw-ring", kHeader + kRingBytes);
  sys::Mapping mapping_ =
      *sys::Mapping::of_file({.fd = fd_.get(), .size_bytes = kHeader + kRingBytes});
};

}  // namespace towpath::backends::shm
