// DLPack: arrays of other libraries, lent without a copy.
//
// The struct that all of them agree on, declared in our own words: its layout is fixed since
// DLPack 0.2, and asserted. Versions from 1.0 on have another struct ("dltensor_versioned"), which
// this does not take.
// Thread: immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <towpath/core/result.h>
#include <towpath/memory/tensor.h>

namespace towpath::memory {

/// DLTensor
struct DlTensor {
  void* data = nullptr;
  std::int32_t device_type = 0;
  std::int32_t device_id = 0;
  std::int32_t dimensions = 0;
  std::uint8_t type_code = 0;
  std::uint8_t type_bits = 0;
  std::uint16_t type_lanes = 1;
  const std::int64_t* shape = nullptr;
  const std::int64_t* strides = nullptr;  ///< in elements; null: row-major without gaps
  std::uint64_t byte_offset = 0;
};

/// DLManagedTensor: what a capsule named "dltensor" holds.
struct DlManagedTensor {
  DlTensor tensor;
  void* manager = nullptr;
  void (*deleter)(DlManagedTensor* self) = nullptr;  ///< null: nothing is to be done
};
static_assert(sizeof(DlTensor) == 48 && offsetof(DlTensor, dimensions) == 16 &&
              offsetof(DlTensor, type_code) == 20 && offsetof(DlTensor, shape) == 24 &&
              offsetof(DlTensor, byte_offset) == 40);
static_assert(sizeof(DlManagedTensor) == 64 && offsetof(DlManagedTensor, deleter) == 56);

/// A region over the array, which is given back (its deleter called, once) when the region dies. On
/// failure it stays the caller's.
/// Errors: invalid_argument (null, no shape, bits that are no bytes), unsupported (a device that is
/// none of ours), or those of TensorRegion::borrow.
Result<std::shared_ptr<TensorRegion>> take_dlpack(DlManagedTensor* array);

}  // namespace towpath::memory
