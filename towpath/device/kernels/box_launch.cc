#include <algorithm>
#include <optional>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/device/kernels/box_launch.h>

namespace towpath::device::kernel {
namespace {

static_assert(BoxCopy::kMaxRank == kMaxRank);

constexpr std::uint64_t kLongestLane = 16;

using Dimension = BoxCopy::Dimension;

/// A box with the dimensions that count, those first whose steps in the target are the shortest: so
/// neighbouring threads write neighbouring bytes. What its lane is, and how many it has.
struct Shaped {
  BoxCopy box;
  U32 lane_bytes = 0;
  U32 lanes = 0;

  bool has_shape_of(const Shaped& other) const {
    return lane_bytes == other.lane_bytes && box.length == other.box.length &&
           std::ranges::equal(box.steps(), other.box.steps());
  }
  /// Any order that brings equal shapes together.
  bool comes_before(const Shaped& other) const {
    if (lane_bytes != other.lane_bytes) return lane_bytes < other.lane_bytes;
    if (box.length != other.box.length) return box.length < other.box.length;
    return std::ranges::lexicographical_compare(box.steps(), other.box.steps());
  }
};

/// The longest power of two that divides all that the box's addresses are made of.
U32 lane_of(const BoxCopy& box) {
  std::uint64_t all = box.source | box.target | box.length | kLongestLane;
  for (const Dimension& step : box.steps()) all |= step.source_stride | step.target_stride;
  return static_cast<U32>(all & (~all + 1));
}

Result<U32> lanes_of(const BoxCopy& box, U32 lane_bytes) {
  std::optional<std::uint64_t> lanes = box.length / lane_bytes;
  for (const Dimension& step : box.steps())
    lanes = lanes ? checked_multiply(*lanes, step.extent) : lanes;
  if (lanes && *lanes <= UINT32_MAX) return static_cast<U32>(*lanes);
  return error(Code::unsupported,
               cat("a box of pieces of ", box.length, " bytes has 2^32 lanes of ", lane_bytes,
                   " bytes, or more"),
               "copy it in parts");
}

Status check(const BoxCopy& box) {
  if (box.rank > BoxCopy::kMaxRank)
    return error(Code::invalid_argument, cat("a box of ", box.rank, " dimensions"),
                 cat("a box has at most ", BoxCopy::kMaxRank));
  if (box.source != 0 && box.target != 0) return {};
  return error(Code::invalid_argument,
               cat("cannot copy a box from ", hex(box.source), " to ", hex(box.target)),
               "pass addresses of memory");
}

bool is_empty(const BoxCopy& box) {
  return box.length == 0 ||
         std::ranges::any_of(box.steps(), [](const Dimension& step) { return step.extent == 0; });
}

Result<Shaped> shaped(const BoxCopy& given) {
  Shaped out{.box = given};
  out.box.rank = 0;
  for (const Dimension& step : given.steps())
    if (step.extent > 1) out.box.dimensions[out.box.rank++] = step;
  std::ranges::stable_sort(out.box.dimensions.begin(),
                           out.box.dimensions.begin() + static_cast<std::ptrdiff_t>(out.box.rank),
                           {}, &Dimension::target_stride);
  out.lane_bytes = lane_of(out.box);
  TOWPATH_TRY(out.lanes, lanes_of(out.box, out.lane_bytes));
  return out;
}

Result<std::vector<Shaped>> in_order_of_shapes(std::span<const BoxCopy> boxes) {
  std::vector<Shaped> all;
  all.reserve(boxes.size());
  for (const BoxCopy& box : boxes) {
    TOWPATH_TRY(check(box));
    if (is_empty(box)) continue;
    TOWPATH_TRY(Shaped one, shaped(box));
    all.push_back(one);
  }
  const auto before = [](const Shaped& a, const Shaped& b) { return a.comes_before(b); };
  if (!std::ranges::is_sorted(all, before)) std::ranges::stable_sort(all, before);
  return all;
}

BoxLaunch launch_of_shape(const Shaped& first) {
  BoxLaunch launch{};
  launch.lane_bytes = first.lane_bytes;
  launch.lanes_per_piece = static_cast<U32>(first.box.length / first.lane_bytes);
  launch.lanes_per_box = first.lanes;
  for (const Dimension& step : first.box.steps()) {
    launch.extents[launch.rank] = static_cast<U32>(step.extent);
    launch.source_strides[launch.rank] = step.source_stride;
    launch.target_strides[launch.rank++] = step.target_stride;
  }
  return launch;
}

bool has_room(const BoxLaunch& launch) {
  return launch.boxes < kMaxBoxes && launch.boxes < UINT32_MAX / launch.lanes_per_box;
}

}  // namespace

Result<std::vector<BoxLaunch>> launches_of(std::span<const BoxCopy> boxes) {
  TOWPATH_TRY(const std::vector<Shaped> all, in_order_of_shapes(boxes));
  std::vector<BoxLaunch> launches;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool goes_on = i > 0 && all[i].has_shape_of(all[i - 1]) && has_room(launches.back());
    if (!goes_on) launches.push_back(launch_of_shape(all[i]));
    BoxLaunch& launch = launches.back();
    launch.starts[launch.boxes++] = {all[i].box.source, all[i].box.target};
  }
  return launches;
}

U32 blocks_for(const BoxLaunch& launch, U32 most) {
  const U64 lanes = U64{launch.boxes} * launch.lanes_per_box;
  return static_cast<U32>(std::clamp<U64>((lanes + kThreads - 1) / kThreads, 1, most));
}

void run_here(const BoxLaunch& launch, U32 blocks) {
  for (U32 block = 0; block < blocks; ++block)
    for (U32 thread = 0; thread < kThreads; ++thread)
      run_thread(launch, {.block = block, .thread = thread, .blocks = blocks});
}

}  // namespace towpath::device::kernel
