#include <optional>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/dlpack.h>

namespace towpath::memory {
namespace {

/// DLDeviceType: CPU 1, CUDA 2, CUDAHost 3, ROCM 10, ROCMHost 11, CUDAManaged 13.
std::optional<MemoryKind> kind_of(std::int32_t device_type) {
  switch (device_type) {
    case 1: return MemoryKind::system;
    case 2:
    case 10:
    case 13: return MemoryKind::device;
    case 3:
    case 11: return MemoryKind::pinned;
    default: return std::nullopt;
  }
}

Result<TensorShape> shape_of(const DlTensor& tensor) {
  const std::uint32_t bits = std::uint32_t{tensor.type_bits} * tensor.type_lanes;
  const bool has_shape = tensor.dimensions == 0 || tensor.shape != nullptr;
  if (bits == 0 || bits % 8 != 0 || tensor.dimensions < 0 || !has_shape)
    return error(
        Code::invalid_argument,
        cat("an array of ", tensor.dimensions, " dimensions with elements of ", bits, " bits"),
        "lend arrays whose elements are whole bytes");
  const auto count = static_cast<std::size_t>(tensor.dimensions);
  if (count > kMostDimensions)
    return error(Code::invalid_argument, cat("an array of ", count, " dimensions"),
                 cat("at most ", kMostDimensions));
  TensorShape shape{.extents = {}, .strides = {}, .element_bytes = bits / 8};
  shape.extents.assign(tensor.shape, tensor.shape + count);
  if (tensor.strides != nullptr) shape.strides.assign(tensor.strides, tensor.strides + count);
  return shape;
}

void give_back(DlManagedTensor* array) {
  if (array->deleter != nullptr) array->deleter(array);
}

}  // namespace

Result<std::shared_ptr<TensorRegion>> take_dlpack(DlManagedTensor* array) {
  if (array == nullptr) return error(Code::invalid_argument, "no array", "pass one");
  const DlTensor& tensor = array->tensor;
  const auto kind = kind_of(tensor.device_type);
  if (!kind || tensor.device_id < 0)
    return error(Code::unsupported,
                 cat("DLPack's device ", tensor.device_type, ".", tensor.device_id,
                     " is none that is known here"),
                 "lend arrays of the host, or of CUDA or ROCm GPUs");
  TOWPATH_TRY(TensorShape shape, shape_of(tensor));
  const auto address = checked_add(address_of(tensor.data), tensor.byte_offset);
  if (!address) return error(Code::out_of_range, "the array's offset wraps");
  // The deleter must not run on a failure, so it is armed last.
  const auto armed = std::make_shared<bool>(false);
  const std::shared_ptr<const void> keep_alive(array, [armed](DlManagedTensor* held) {
    if (*armed) give_back(held);
  });
  TOWPATH_TRY(auto region,
              TensorRegion::borrow({.kind = *kind,
                                    .address = *address,
                                    .device_id = *kind == MemoryKind::device
                                                     ? static_cast<std::uint64_t>(tensor.device_id)
                                                     : 0,
                                    .shape = std::move(shape),
                                    .keep_alive = keep_alive}));
  *armed = true;
  return region;
}

}  // namespace towpath::memory
