#include "bindings/python/src/dlpack.h"

#include <towpath/core/bytes.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath::python {
namespace {

// The beginning of DLManagedTensor; what follows (its manager) is ignored.
struct Tensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t dimensions;
  std::uint8_t type_code;
  std::uint8_t type_bits;
  std::uint16_t type_lanes;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major without gaps
  std::uint64_t byte_offset;
};

// Of the enumeration DLDeviceType.
constexpr std::int32_t kCpu = 1;
constexpr std::int32_t kCuda = 2;
constexpr std::int32_t kCudaHost = 3;

Result<MemoryKind> kind_of(std::int32_t device_type) {
  switch (device_type) {
    case kCpu: return MemoryKind::system;
    case kCuda: return MemoryKind::device;
    case kCudaHost: return MemoryKind::pinned;
    default:
      return error(Code::unsupported, cat("DLPack's device type ", device_type),
                   "use an array on the host or on a CUDA device");
  }
}

/// Elements, when they lie in one piece.
Result<std::uint64_t> elements_of(const Tensor& tensor) {
  std::uint64_t count = 1;
  for (std::int32_t i = tensor.dimensions - 1; i >= 0; --i) {
    const std::int64_t extent = tensor.shape[i];
    const bool in_place = tensor.strides == nullptr || extent <= 1 ||
                          tensor.strides[i] == static_cast<std::int64_t>(count);
    if (!in_place)
      return error(Code::invalid_argument,
                   "the elements do not lie in one piece in row-major order",
                   "register the array that it is a view of, or a contiguous copy");
    const auto more =
        extent < 0 ? std::nullopt : checked_multiply(count, static_cast<std::uint64_t>(extent));
    if (!more) return error(Code::invalid_argument, cat("an extent of ", extent, " elements"));
    count = *more;
  }
  return count;
}

}  // namespace

Result<DlpackView> read_dlpack(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0)
    return error(Code::invalid_argument, "__dlpack__() gave no unused capsule named 'dltensor'");
  const auto& tensor = *static_cast<const Tensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  DlpackView view;
  TOWPATH_TRY(view.kind, kind_of(tensor.device_type));
  TOWPATH_TRY(const std::uint64_t elements, elements_of(tensor));
  const std::uint64_t bits = std::uint64_t{tensor.type_bits} * tensor.type_lanes;
  const auto bytes = checked_multiply(elements, (bits + 7) / 8);
  const auto address = checked_add(address_of(tensor.data), tensor.byte_offset);
  if (!bytes || !address || tensor.device_id < 0)
    return error(Code::invalid_argument,
                 "the capsule's sizes are too large, or its device below 0");
  view.size_bytes = *bytes;
  view.address = *address;
  view.device = view.kind == MemoryKind::device ? static_cast<std::uint64_t>(tensor.device_id) : 0;
  return view;
}

}  // namespace towpath::python
