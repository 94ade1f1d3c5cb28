#include <limits>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/memory/tensor.h>

namespace towpath::memory {
namespace {

Status too_large() {
  return error(Code::out_of_range, "the tensor is larger than 64-bit space",
               "check extents, strides and element size");
}

Result<std::vector<std::int64_t>> strides_of(const TensorShape& shape) {
  if (shape.strides.empty()) return contiguous_strides(shape.extents);
  if (shape.strides.size() == shape.extents.size()) return shape.strides;
  return error(Code::invalid_argument,
               cat(shape.strides.size(), " strides for ", shape.extents.size(), " dimensions"),
               "give one stride for each dimension, or none at all");
}

Status check(const TensorShape& shape) {
  if (shape.element_bytes == 0)
    return error(Code::invalid_argument, "a tensor with elements of 0 bytes", "give their size");
  if (shape.extents.size() <= kMostDimensions) return {};
  return error(Code::invalid_argument, cat("a tensor of ", shape.extents.size(), " dimensions"),
               cat("at most ", kMostDimensions));
}

}  // namespace

Result<std::vector<std::int64_t>> contiguous_strides(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size());
  std::int64_t stride = 1;
  for (std::size_t i = extents.size(); i-- > 0;) {
    if (extents[i] < 0)
      return error(Code::invalid_argument, cat("dimension ", i, " has ", extents[i], " elements"));
    strides[i] = stride;
    // An empty dimension makes all of it empty, and its strides meaningless.
    if (extents[i] > 0 && __builtin_mul_overflow(stride, extents[i], &stride)) return too_large();
  }
  return strides;
}

Result<std::uint64_t> element_count(const TensorShape& shape) {
  TOWPATH_TRY(const auto strides, contiguous_strides(shape.extents));
  std::uint64_t count = 1;
  for (const std::int64_t extent : shape.extents) count *= static_cast<std::uint64_t>(extent);
  return count;  // contiguous_strides() has seen that it does not wrap, or it is 0
}

Result<bool> is_contiguous(const TensorShape& shape) {
  TOWPATH_TRY(const auto wanted, contiguous_strides(shape.extents));
  TOWPATH_TRY(const auto had, strides_of(shape));
  TOWPATH_TRY(const std::uint64_t count, element_count(shape));
  if (count == 0) return true;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (shape.extents[i] > 1 && had[i] != wanted[i]) return false;
  return true;
}

Result<TensorExtent> extent_of(const TensorShape& shape) {
  TOWPATH_TRY(check(shape));
  TOWPATH_TRY(const auto strides, strides_of(shape));
  TOWPATH_TRY(const std::uint64_t count, element_count(shape));
  if (count == 0) return TensorExtent{};
  std::uint64_t before = 0;  // elements
  std::uint64_t behind = 0;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const auto steps = static_cast<std::uint64_t>(shape.extents[i] - 1);
    const bool back = strides[i] < 0;
    // Negating as unsigned: the lowest number has no positive twin.
    const std::uint64_t stride =
        back ? ~static_cast<std::uint64_t>(strides[i]) + 1 : static_cast<std::uint64_t>(strides[i]);
    const auto reach = checked_multiply(steps, stride);
    std::uint64_t& side = back ? before : behind;
    const auto sum = reach ? checked_add(side, *reach) : std::nullopt;
    if (!sum) return too_large();
    side = *sum;
  }
  const auto elements = checked_add(before, behind);
  const auto whole = elements ? checked_add(*elements, 1) : std::nullopt;
  const auto bytes = whole ? checked_multiply(*whole, shape.element_bytes) : std::nullopt;
  if (!bytes) return too_large();
  return TensorExtent{.before = before * shape.element_bytes, .bytes = *bytes};
}

Result<std::shared_ptr<TensorRegion>> TensorRegion::borrow(BorrowedTensor tensor) {
  TOWPATH_TRY(const TensorExtent extent, extent_of(tensor.shape));
  TOWPATH_TRY(const bool contiguous, is_contiguous(tensor.shape));
  if (extent.before > tensor.address)
    return error(Code::out_of_range,
                 cat("a tensor at ", hex(tensor.address), " begins ", extent.before,
                     " bytes before its first element"),
                 "check address and strides");
  TOWPATH_TRY(auto bytes, BorrowedRegion::create({.kind = tensor.kind,
                                                  .address = tensor.address - extent.before,
                                                  .size_bytes = extent.bytes,
                                                  .device_id = tensor.device_id,
                                                  .keep_alive = std::move(tensor.keep_alive)}));
  return std::make_shared<TensorRegion>(Private{}, std::move(tensor.shape), std::move(bytes),
                                        contiguous);
}

}  // namespace towpath::memory
