#include <algorithm>
#include <climits>
#include <optional>
#include <utility>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/layout/strides.h>
#include <towpath/layout/tensor_view.h>

namespace towpath::layout {
namespace {

constexpr unsigned kMaxElementBits = 64;

/// `at` plus (extent - 1) steps of each axis; nothing where that wraps.
std::optional<std::uint64_t> last_of(const Axes& axes, std::uint64_t at,
                                     std::uint64_t AxisShape::*step) {
  std::optional<std::uint64_t> last = at;
  for (const AxisShape& shape : axes.shapes) {
    const auto reach = checked_multiply(shape.extent - 1, shape.*step);
    last = last && reach ? checked_add(*last, *reach) : std::nullopt;
  }
  return last;
}

std::optional<std::uint64_t> bytes_up(std::uint64_t elements, unsigned bits) {
  if (bits >= CHAR_BIT) return checked_multiply(elements, bits / CHAR_BIT);
  const std::uint64_t in_a_byte = CHAR_BIT / bits;
  return elements / in_a_byte + (elements % in_a_byte != 0 ? 1 : 0);
}

Status check_axes(const TensorView::Parts& parts) {
  if (!is_power_of_two(parts.element_bits) || parts.element_bits > kMaxElementBits)
    return error(Code::invalid_argument,
                 cat("element_bits_must_be_power_of_two_and_at_most_64: element_bits is ",
                     parts.element_bits),
                 "use 4 for fp4, 8 for fp8, 16 for bf16, ...");
  for (const Axis axis : kAxes)
    if (parts.axes[axis].extent == 0)
      return error(Code::invalid_argument,
                   cat("axis_extent_must_be_positive: ", name_of(axis), " has no index"),
                   "an axis that a cache does not have has one index");
  return {};
}

/// Whether steps of one kind never lead two index lists to one place.
bool steps_apart(std::array<AxisShape, kAxes.size()> shapes, std::uint64_t AxisShape::*step) {
  std::ranges::sort(shapes,
                    [&](const AxisShape& a, const AxisShape& b) { return a.*step < b.*step; });
  std::uint64_t reach = 0;
  for (const AxisShape& shape : shapes) {
    if (shape.extent == 1) continue;
    if (shape.*step <= reach) return false;
    reach += (shape.extent - 1) * (shape.*step);
  }
  return true;
}

}  // namespace

std::string_view name_of(Axis axis) noexcept {
  switch (axis) {
    case Axis::block: return "block";
    case Axis::layer: return "layer";
    case Axis::outer: return "outer";
    case Axis::token: return "token";
    case Axis::head: return "head";
    case Axis::dim: return "dim";
  }
  return "unknown";
}

Result<Axes> axes_of(const NamedTensor& tensor) {
  if (tensor.names.size() != tensor.shape.size() || tensor.names.size() != tensor.strides.size())
    return error(Code::invalid_argument,
                 cat("a tensor of ", tensor.names.size(), " names, ", tensor.shape.size(),
                     " extents and ", tensor.strides.size(), " strides"),
                 "name every position of the tensor once");
  Axes axes;
  std::array<bool, kAxes.size()> seen{};
  for (std::size_t i = 0; i < tensor.names.size(); ++i) {
    const Axis axis = tensor.names[i];
    if (std::exchange(seen[static_cast<std::size_t>(axis)], true))
      return error(
          Code::invalid_argument,
          cat("axis_named_twice: ", name_of(axis), " is position ", i, " and one before it"),
          "name every position of the tensor once");
    axes[axis] = {.extent = tensor.shape[i], .stride = tensor.strides[i]};
  }
  return axes;
}

Result<Reach> TensorView::reach(const Parts& parts) {
  TOWPATH_TRY(check_axes(parts));
  const auto last_region = last_of(parts.axes, parts.region, &AxisShape::region_step);
  if (!last_region)
    return error(Code::out_of_range, "the view names region 2^64 and more",
                 "give smaller region steps");
  const auto last = last_of(parts.axes, parts.offset, &AxisShape::stride);
  const auto count = last ? checked_add(*last, 1) : std::nullopt;
  const auto needed = count ? bytes_up(*count, parts.element_bits) : std::nullopt;
  if (!needed || *needed > kMaxRegionBytes)
    return error(Code::out_of_range,
                 cat("the view reaches byte ", needed ? cat(*needed) : "2^64 and more",
                     " of a region; at most ", kMaxRegionBytes, " are possible"),
                 "check strides and extents");
  return Reach{.last_region = *last_region, .region_bytes = *needed};
}

Result<TensorView> TensorView::make(const Parts& parts,
                                    std::span<const std::uint64_t> region_bytes) {
  TOWPATH_TRY(const Reach reach, TensorView::reach(parts));
  if (reach.last_region >= region_bytes.size())
    return error(Code::out_of_range,
                 cat("the view names region ", reach.last_region, " of ", region_bytes.size()),
                 "give all regions, or smaller region steps");
  const std::uint64_t smallest =
      std::ranges::min(region_bytes.subspan(parts.region, reach.last_region - parts.region + 1));
  if (reach.region_bytes > smallest)
    return error(Code::out_of_range,
                 cat("the view reaches byte ", reach.region_bytes, " of a region of ", smallest),
                 "check strides and extents, or give larger regions");
  return TensorView(parts);
}

std::uint64_t TensorView::elements() const noexcept {
  std::uint64_t product = 1;
  for (const AxisShape& shape : parts_.axes.shapes) product *= shape.extent;
  return product;
}

std::uint64_t TensorView::bytes() const noexcept {
  return bytes_up(elements(), parts_.element_bits).value_or(UINT64_MAX);
}

IndexRange TensorView::range(Axis axis) const noexcept {
  return {parts_.axes[axis].first, parts_.axes[axis].extent};
}

Result<TensorView> TensorView::slice(Axis axis, IndexRange range) const {
  Parts parts = parts_;
  AxisShape& shape = parts.axes[axis];
  if (range.count == 0 || range.first < shape.first ||
      !range_fits(range.first - shape.first, range.count, shape.extent))
    return error(Code::out_of_range,
                 cat(name_of(axis), " [", range.first, ", +", range.count, ") is not within [",
                     shape.first, ", +", shape.extent, ")"),
                 "slice what the view has");
  const std::uint64_t skipped = range.first - shape.first;
  const std::uint64_t in_a_byte = parts.element_bits < CHAR_BIT ? CHAR_BIT / parts.element_bits : 1;
  const std::uint64_t end = skipped + range.count;
  if (shape.stride % in_a_byte != 0 &&
      (skipped % in_a_byte != 0 || (end != shape.extent && end % in_a_byte != 0)))
    return error(Code::invalid_argument,
                 cat("sub_byte_split_must_be_whole_bytes: ", name_of(axis), " [", range.first,
                     ", +", range.count, ") of ", parts.element_bits, "-bit elements cuts a byte"),
                 cat("begin and end at multiples of ", in_a_byte));
  parts.offset += skipped * shape.stride;
  parts.region += skipped * shape.region_step;
  shape.first = range.first;
  shape.extent = range.count;
  return TensorView(parts);
}

TensorView TensorView::placed_at(Axis axis, std::uint64_t first) const {
  Parts parts = parts_;
  parts.axes[axis].first = first;
  return TensorView(parts);
}

Result<TensorView> TensorView::with_heads_joined() const {
  Parts parts = parts_;
  AxisShape& head = parts.axes[Axis::head];
  AxisShape& dim = parts.axes[Axis::dim];
  if (dim.extent == 1 && head.extent > 1) {  // each head is a dim, wherever it lies
    dim = {head.extent, head.stride, head.region_step, head.first + dim.first};
    head = {};
    return TensorView(parts);
  }
  if (head.extent > 1 && (head.region_step != 0 || head.stride != dim.extent * dim.stride))
    return error(Code::invalid_argument,
                 "num_heads_required_for_kv_block_layout: heads do not follow each other here, and "
                 "the other side has not as many, or does not say",
                 "set num_heads to the same on both sides");
  dim.first = head.first * dim.extent + dim.first;
  dim.extent *= head.extent;
  head = {};
  return TensorView(parts);
}

bool TensorView::is_apart() const {
  auto by_region = parts_.axes.shapes;
  auto by_offset = parts_.axes.shapes;
  for (std::size_t i = 0; i < by_region.size(); ++i)
    (by_region[i].region_step == 0 ? by_region[i] : by_offset[i]).extent = 1;
  return steps_apart(by_region, &AxisShape::region_step) &&
         steps_apart(by_offset, &AxisShape::stride);
}

IndexRange common(IndexRange a, IndexRange b) noexcept {
  const std::uint64_t first = std::max(a.first, b.first);
  const std::uint64_t end = std::min(a.first + a.count, b.first + b.count);
  return {first, end > first ? end - first : 0};
}

Result<Overlap> intersect(const TensorView& source, const TensorView& target) {
  Overlap overlap{source, target};
  for (const Axis axis : kAxes) {
    if (axis == Axis::block) continue;
    const IndexRange range = common(source.range(axis), target.range(axis));
    if (range.count == 0)
      return error(Code::not_found,
                   cat("source and target have no ", name_of(axis),
                       " in common: ", source[axis].extent, " from ", source[axis].first, ", and ",
                       target[axis].extent, " from ", target[axis].first),
                   "this pair of shards has nothing to copy");
    TOWPATH_TRY(overlap.source, overlap.source.slice(axis, range));
    TOWPATH_TRY(overlap.target, overlap.target.slice(axis, range));
  }
  return overlap;
}

Result<TensorView> packed_like(const TensorView& view, std::uint64_t blocks, std::uint64_t offset,
                               std::uint64_t region_bytes) {
  // From the outermost axis in: those of regions first, then by stride.
  std::array order = kAxes;
  std::ranges::stable_sort(order, [&](Axis a, Axis b) {
    return std::pair(view[a].region_step, view[a].stride) <
           std::pair(view[b].region_step, view[b].stride);
  });
  TensorView::Parts parts{.element_bits = view.element_bits(),
                          .axes = view.parts().axes,
                          .region = 0,
                          .offset = offset};
  parts.axes[Axis::block].extent = blocks;
  std::uint64_t stride = 1;
  for (const Axis axis : order) {
    AxisShape& shape = parts.axes[axis];
    shape.stride = stride;
    shape.region_step = 0;
    stride *= shape.extent;
  }
  return TensorView::make(parts, std::span(&region_bytes, 1));
}

std::string to_string(const TensorView& view) {
  std::string out = cat(view.element_bits(), "-bit elements");
  const char* separator = "; ";
  for (const Axis axis : kAxes) {
    const AxisShape& shape = view[axis];
    if (shape.extent == 1 && shape.first == 0) continue;
    out += cat(separator, name_of(axis), " ", shape.extent);
    if (shape.first != 0) out += cat(" from ", shape.first);
    if (shape.region_step != 0) out += cat(" (regions ", shape.region_step, " apart)");
    if (shape.stride != 0) out += cat(" x ", shape.stride);
    separator = ", ";
  }
  return out;
}

}  // namespace towpath::layout
